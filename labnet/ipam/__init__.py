"""Address arithmetic: which subnet, which address, which port is free."""
