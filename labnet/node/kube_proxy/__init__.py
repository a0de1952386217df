"""kube-proxy: the packets to a Service's virtual IP find their way on this node.

It is not in the packet path. It watches Services and EndpointSlices and writes, on its
own node, the rules by which the kernel translates; killed, it leaves them in place and
traffic goes on, restarted it reads back what is there and changes only what differs.
"""
