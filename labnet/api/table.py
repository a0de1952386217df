"""Tables: what ``kubectl get`` prints, made on the server.

kubectl asks with ``Accept: application/json;as=Table`` and prints the cells as they
come. The columns, and the odd little rules behind the STATUS of a pod, are those of
Kubernetes' ``pkg/printers/internalversion``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from labnet.api.meta import JsonObject, Object
from labnet.api.resources import Resource


def table(
    resource: Resource,
    objects: Sequence[Object],
    now: datetime,
    *,
    metadata: Mapping[str, Any] | None = None,
    include: str = "Metadata",
    columns: bool = True,
) -> JsonObject:
    """Return the Table of ``objects``.

    ``metadata`` is the list's (resourceVersion, continue, remainingItemCount);
    ``include`` the query parameter includeObject: None, Metadata or Object;
    ``columns`` False leaves the definitions out (second and later watch events).
    Scale objects are known by their kind, whatever ``resource`` is.
    """
    raise NotImplementedError


def partial(obj: Object) -> JsonObject:
    """Return the PartialObjectMetadata of ``obj`` (``as=PartialObjectMetadata``)."""
    raise NotImplementedError
