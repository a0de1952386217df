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

_FORMAT = "%(levelname).1s%(asctime)s.%(msecs)03d %(threadName)s %(name)s] %(message)s"
_ENDING = (signal.SIGTERM, signal.SIGINT)

log = logging.getLogger(__name__)


def start_logging() -> None:
    """Log to standard error, one line per record, as Kubernetes' klog prints them."""
    logging.basicConfig(level=logging.INFO, format=_FORMAT, datefmt="%m%d %H:%M:%S")


def until_terminated(run: Callable[[threading.Event], None]) -> None:
    """Call ``run(stop)`` and set ``stop`` at SIGTERM or SIGINT."""
    start_logging()
    signal.pthread_sigmask(signal.SIG_BLOCK, _ENDING)
    threading.excepthook = _die
    stop = threading.Event()
    waiter = threading.Thread(target=_wait_for_signal, args=(stop,), name="signals", daemon=True)
    waiter.start()
    run(stop)


def when(stop: threading.Event, end: Callable[[], None]) -> None:
    """Have ``end`` called in a thread of its own once ``stop`` is set.

    For a loop that waits for something else than ``stop``.
    """

    def wait() -> None:
        stop.wait()
        end()

    threading.Thread(target=wait, name="end", daemon=True).start()


def _wait_for_signal(stop: threading.Event) -> None:
    log.info("ends: %s", signal.Signals(signal.sigwait(_ENDING)).name)
    stop.set()


def _die(failure: threading.ExceptHookArgs) -> None:
    name = failure.thread.name if failure.thread else "a thread"
    value = failure.exc_value or failure.exc_type()
    log.critical("%s failed; the process ends", name, exc_info=value)
    logging.shutdown()
    os._exit(1)
