"""A Kubernetes API client, as small as the loops here need it.

``api`` is the protocol the loops are written against; ``http`` keeps it over TLS,
``fake`` in memory. ``informer`` mirrors one kind of object by list and watch,
``workqueue`` remembers which objects to look at, ``events`` tells people what happened.
"""
