"""Finding a pod's container on a running lab.

Pods are asked of PID 1, which runs them and knows their names from the labels the
kubelet gave (those of CRI), not of the API server: a command in a pod must work when
the control plane is what one is looking into.
"""

from __future__ import annotations

from collections.abc import Sequence
from difflib import get_close_matches

from labnet.errors import NotFound
from labnet.sandbox.planner import CONTAINER, NAMESPACE, POD_NAME
from labnet.sandbox.spec import Process


def running(
    processes: Sequence[Process], namespace: str, pod: str, name: str | None = None
) -> Process:
    """Return the running container ``name`` of a pod; by default the one started first.

    Raises ``NotFound`` with the nearest pods, or with the containers the pod does run.
    """
    alive = [one for one in processes if one.kind == "container" and one.exit is None]
    ours = [one for one in alive if _label(one, NAMESPACE) == namespace]
    found = sorted((one for one in ours if _label(one, POD_NAME) == pod), key=lambda p: p.started)
    if not found:
        raise NotFound(
            f"no container of a pod {pod} runs in namespace {namespace}",
            hint=_near(pod, sorted({_label(one, POD_NAME) for one in ours})),
        )
    for one in found:
        if name in (None, _label(one, CONTAINER)):
            return one
    names = ", ".join(_label(one, CONTAINER) for one in found)
    raise NotFound(f"pod {pod} runs no container {name!r}", hint=f"it runs: {names}")


def _near(name: str, names: Sequence[str]) -> str:
    near = [one for one in names if one.startswith(name)] or get_close_matches(name, names, n=3)
    if near:
        return f"did you mean pod/{' or pod/'.join(near[:3])}?"
    return "`labnet kubectl get pods -A` lists all; -n says which namespace"


def _label(process: Process, key: str) -> str:
    return dict(process.labels).get(key, "")
