"""Container networking: the bridge plugin and host-local addresses, as plans."""
