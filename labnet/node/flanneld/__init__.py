"""flanneld: the packets to other nodes' pods find their way.

Like kube-proxy it is not in the packet path (the udp backend of old was): ``loop`` follows
the subnet leases in etcd, ``sync`` makes this node's kernel match them.
"""
