"""Starting PID 1 of a lab from any process, however many threads it has.

A fork of a process with threads is a fork of its locks too, and namespaces can only be
made by a process with one thread. So PID 1 begins as a new interpreter, with a clean
environment, and gets its :class:`Boot` over a socket. The process in between
(:mod:`labnet.lab.init.__main__`) ends at once; PID 1 is then nobody's child here, and
what stands for it is its pidfd.
"""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import labnet
from labnet.errors import LabnetError, Unavailable
from labnet.lab.init.boot import Boot, Launched, sent
from labnet.linux import seqpacket
from labnet.sandbox import protocol

_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
_PASSED_ON = ("HOME", "LOGNAME", "USER", "TZ", "PYTHONDONTWRITEBYTECODE")


def launch(boot: Boot) -> Launched:
    """Start PID 1 in new namespaces; return when its control socket answers.

    ``boot.state`` must exist. Its ``logs/init.log`` gets PID 1's own output. Raises
    ``Unsupported`` where this machine does not allow it (the hint says which setting),
    ``LabnetError`` for anything else that went wrong before it answered.
    """
    log = _log(boot.state)
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with ours, theirs, log.open("ab") as output:
        between = subprocess.Popen(
            (sys.executable, "-P", "-m", "labnet.lab.init", boot.name),
            stdin=theirs.fileno(),
            stdout=output,
            stderr=output,
            cwd="/",
            env=_environment(),
            start_new_session=True,
        )
        theirs.close()
        try:
            payload, fds = sent(boot)
            seqpacket.send(ours, payload, fds)
            return _born(boot, ours, log)
        except OSError as error:
            raise _stillborn(log) from error
        finally:
            between.wait()


def _born(boot: Boot, birth: socket.socket, log: Path) -> Launched:
    """Hear first of the fork, then from PID 1 itself."""
    message, fds = seqpacket.receive(birth)
    if not message:
        raise _stillborn(log)
    pid, pidfd = protocol.result(message)["pid"], fds[0]
    try:
        message, _ = seqpacket.receive(birth)
        if not message:
            raise _stillborn(log)
        protocol.result(message)
    except BaseException:
        os.close(pidfd)
        raise
    return Launched(pid, pidfd, boot.state / "control.sock")


def _log(state: Path) -> Path:
    logs = state / "logs"
    logs.mkdir(mode=0o700, exist_ok=True)
    return logs / "init.log"


def _stillborn(log: Path) -> LabnetError:
    """Return the error for a PID 1 that ended without a word: its last line says more."""
    last = ""
    with suppress(OSError):
        last = "".join(log.read_text(errors="replace").splitlines()[-1:])
    return Unavailable(f"the lab's PID 1 ended while it was starting: {last or 'no reason given'}")


def _environment() -> dict[str, str]:
    """Nothing of the caller's but what names the user; labnet is found where it is now.

    Memory that is given back late stays with every fork, hence one malloc arena.
    """
    kept = {name: os.environ[name] for name in _PASSED_ON if name in os.environ}
    package = str(Path(labnet.__file__).resolve().parent.parent)
    return {
        **kept,
        "PATH": _PATH,
        "LANG": "C.UTF-8",
        "PYTHONPATH": package,
        "MALLOC_ARENA_MAX": "1",
    }
