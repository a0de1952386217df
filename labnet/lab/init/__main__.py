"""The process between command line and PID 1: it makes the namespaces and forks into them.

Executed by :func:`labnet.lab.init.launch.launch` as ``python -m labnet.lab.init NAME``,
with a socket as stdin on which the :class:`~labnet.lab.init.boot.Boot` arrives. The user
namespace comes first, since it decides whether the others may be made. This process
itself cannot enter the new pid namespace, only its child can: that child is PID 1.
"""

from __future__ import annotations

import os
import socket

from labnet.errors import LabnetError
from labnet.lab.init.boot import Boot, received
from labnet.lab.init.main import run
from labnet.linux import seqpacket
from labnet.linux.namespaces import NEWIPC, NEWNET, NEWNS, NEWPID, NEWUTS, unshare
from labnet.linux.process import default_signals, fork, settle
from labnet.linux.userns import become_root, refusal
from labnet.sandbox import protocol


def main() -> None:
    """Read the boot record, make the namespaces, fork PID 1, report it, end."""
    birth = socket.socket(fileno=os.dup(0))
    nothing = os.open("/dev/null", os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    boot = received(*seqpacket.receive(birth))
    try:
        _namespaces()
        pid = fork()
        if pid == 0:
            _first(boot, birth)
    except (LabnetError, OSError) as error:
        seqpacket.send(birth, protocol.dump(protocol.error_message(error)))
        os._exit(1)
    seqpacket.send(birth, protocol.dump({"pid": pid}), [os.pidfd_open(pid)])
    os._exit(0)


def _namespaces() -> None:
    if os.geteuid() != 0:
        become_root()
    try:
        unshare(NEWPID | NEWNS | NEWNET | NEWUTS | NEWIPC)
    except OSError as error:
        raise refusal(error) from error


def _first(boot: Boot, birth: socket.socket) -> None:
    settle((birth.fileno(), *boot.descriptors()))
    default_signals()
    try:
        run(boot, birth)
    except (LabnetError, OSError) as error:
        seqpacket.send(birth, protocol.dump(protocol.error_message(error)))
        os._exit(1)


if __name__ == "__main__":
    main()
