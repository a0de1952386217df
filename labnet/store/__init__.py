"""etcd, and an in-memory twin of it, behind one protocol.

``model`` has the words and the :class:`~labnet.store.model.Store` protocol, ``memory``
the twin that tests and a lab without etcd use, ``etcd`` the client of the real server:
``channel`` (connecting, errors) over ``messages`` (which field is what) over ``wire``
(how protocol buffers lie in bytes).
"""
