"""Services relayed by a process: kube-proxy's first mode, the only one until Kubernetes 1.1.

For every service port kube-proxy listens on a port that the kernel picks, the *proxy port*,
and one rule per way in leads there:

    PREROUTING (from a pod, from outside)
      ├ KUBE-PORTALS-CONTAINER    virtual IP:port  → REDIRECT to the proxy port
      └ KUBE-NODEPORT-CONTAINER   node port        → REDIRECT to the proxy port
    OUTPUT (from the node itself)
      ├ KUBE-PORTALS-HOST         virtual IP:port  → DNAT to node:proxy port
      └ KUBE-NODEPORT-HOST        node port        → DNAT to node:proxy port

kube-proxy accepts the connection, picks an endpoint (:mod:`~labnet.proxy.userspace.balancer`),
opens a second connection and carries the bytes. What follows from that, against the modes in
which the kernel forwards packets:

- an endpoint that does not answer costs a client nothing: the next one is tried;
- endpoints see the node's address, never the client's;
- every byte crosses a process, and all connections break when that process is killed;
- a service without endpoints accepts a connection and closes it; a UDP packet is lost;
- a connection to an endpoint that left goes on until one side ends it;
- traffic policies, source ranges and topology are not known here: they came later;
- a ping of a virtual IP gets no answer, as the rules match TCP and UDP ports only.

Removed from Kubernetes in 1.26; rule shapes as in ``pkg/proxy/userspace`` of 1.25.
"""
