"""Starting PID 1 of a lab from any process, however many threads it has."""

from __future__ import annotations

from labnet.lab.init.boot import Boot, Launched


def launch(boot: Boot) -> Launched:
    """Start PID 1 in new namespaces; return when its control socket answers.

    Raises ``Unsupported`` where this machine does not allow it (the hint says which
    setting), ``LabnetError`` for anything else that went wrong before it answered.
    """
    raise NotImplementedError
