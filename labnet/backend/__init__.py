"""flannel's backends: from subnet leases to routes, neighbours and forwarding entries."""
