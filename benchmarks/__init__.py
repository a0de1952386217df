"""Measurements, printed as tables. Figures are ratios to something run beside them."""
