"""How a component made of threads lives: until SIGTERM, or until one of them fails.

Threads start inside ``run``; SIGTERM is blocked in all of them and waited for by the
first, so no handler interrupts anybody. A thread that dies of an error nobody expected
takes the process along (exit code 1), and the supervisor starts a new one: a controller
manager whose deployment loop is dead would be worse than none.
"""

from __future__ import annotations

import logging
import os
import signal
import threading
from collections.abc import Callable

FORMAT = "%(levelname).1s%(asctime)s.%(msecs)03d %(threadName)s %(name)s] %(message)s"
_ENDING = (signal.SIGTERM, signal.SIGINT)

log = logging.getLogger(__name__)


def until_terminated(run: Callable[[threading.Event], None]) -> None:
    """Call ``run(stop)`` and set ``stop`` at SIGTERM or SIGINT."""
    logging.basicConfig(level=logging.INFO, format=FORMAT, datefmt="%m%d %H:%M:%S")
    signal.pthread_sigmask(signal.SIG_BLOCK, _ENDING)
    threading.excepthook = _die
    stop = threading.Event()
    waiter = threading.Thread(target=_wait_for_signal, args=(stop,), name="signals", daemon=True)
    waiter.start()
    run(stop)


def _wait_for_signal(stop: threading.Event) -> None:
    log.info("ends: %s", signal.Signals(signal.sigwait(_ENDING)).name)
    stop.set()


def _die(failure: threading.ExceptHookArgs) -> None:
    name = failure.thread.name if failure.thread else "a thread"
    value = failure.exc_value or failure.exc_type()
    log.critical("%s failed; the process ends", name, exc_info=value)
    logging.shutdown()
    os._exit(1)
