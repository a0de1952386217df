"""etcd, and an in-memory twin of it, behind one protocol."""
