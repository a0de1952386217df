"""kube-apiserver: the one door to the cluster's state.

Everybody else in a cluster, kubectl, controllers, kubelets, kube-proxy, reads and writes
objects here and nowhere else; only the API server speaks to etcd. It keeps nothing of
its own: a restarted one reads the store again and goes on.

A request's way through the modules:

1. ``tls``, ``worker``  accept, shake hands, read the HTTP request (gunicorn's gthread)
2. ``auth``             who is it: client certificate or bearer token, else 401
3. ``target``           which resource, object, subresource does the path name
4. ``reading``          GET and LIST out of ``cache``, in the form ``accept`` says
5. ``watching``         watch requests: the socket leaves the worker and joins ``streams``
6. ``writing``          create, update, patch, delete: ``labnet.api`` decides, one
                        transaction stores, with ``reservations`` for Services' addresses
7. ``kubelets``         logs and exec: bytes to and from the node, through ``tunnel``

``views`` has one function per verb and ``exchange`` the edge towards Flask; ``documents``
answers health, version, discovery and schemas.

``cache`` holds every object, fed by a single etcd watch, each change encoded once
however many watch it. ``app`` is the Flask application, ``bootstrap`` the objects that
a cluster has from the start.
"""
