"""flannel's subnet leases, in flannel's own etcd format."""
