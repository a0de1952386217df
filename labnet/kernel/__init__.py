"""The one door to the machine's network stack."""
