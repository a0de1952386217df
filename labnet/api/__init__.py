"""What the Kubernetes API *is*, as pure functions over JSON objects.

Nothing here opens a socket, reads a clock or draws a random number: the API server
(``labnet.apiserver``) brings bytes in, a :class:`~labnet.clock.Clock` and a
:class:`~labnet.api.meta.Chooser`, and carries the results to the store and the client.
A write goes through the modules in this order:

1. ``codec``      bytes (JSON, YAML, protobuf) → object; ``strict`` finds unknown fields
2. ``convert``    the version the client speaks → the version that is stored
3. ``patch``      for PATCH: the stored object and a patch → the new object
   (``strategic``, and ``apply`` for server-side apply)
4. ``defaults``   what the client left out
5. ``creation``   the first status, and what admission adds; ``managed``: who wrote what
6. ``validation`` every problem at once, as the causes of a Status "Invalid"

``writes`` strings 2–6 together. For reading there are ``selectors``, ``table``,
``discovery`` and ``openapi``; every failure is a :class:`~labnet.api.status.ApiError`
that knows its Status document.
"""
