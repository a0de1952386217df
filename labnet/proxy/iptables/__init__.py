"""Services as iptables rules: the mode in which kube-proxy writes NAT rules.

A packet to a virtual IP meets, on the node it comes from, this way through nat's chains:

    PREROUTING (from a pod, from outside) or OUTPUT (from the node itself)
      └ KUBE-SERVICES            one rule per virtual IP and port, in order
          └ KUBE-SVC-…           one service: pick an endpoint, by `statistic` dice
              └ KUBE-SEP-…       one endpoint: DNAT to its address
          └ KUBE-NODEPORTS       last: packets to an address of this node
    POSTROUTING
      └ KUBE-POSTROUTING         masquerade what was marked 0x4000 on its way

and is then routed like any packet to that pod. Only the first packet of a connection
walks it; the connection tracker repeats the decision for all others and turns it round
for the replies. A service without endpoints is rejected in the filter table.

Two *styles* write the same idea: :mod:`~labnet.proxy.iptables.v1_2` as kube-proxy did when
the mode was new (2016), :mod:`~labnet.proxy.iptables.current` as it does today. The cost is
linear: a connection walks KUBE-SERVICES until it meets its rule, see
``benchmarks/proxy_iptables.py``.
"""
