"""kubelet: makes the pods that the API server assigns to this node, and keeps them.

``decide`` and ``status`` are the two pure halves: what is to be done next, and what is
to be reported. ``pods`` carries the first out and sends the second; ``node`` reports
the node itself; ``server`` answers the API server's requests for logs and exec.
"""
