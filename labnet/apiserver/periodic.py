"""What the API server does again and again beside answering requests.

Each such task is a thread that does its work whole on every pass and remembers nothing
that matters: a pass that failed is made up for by the next.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable

from labnet.errors import LabnetError, Unavailable

LOG = logging.getLogger("kube-apiserver")


class Periodic(threading.Thread):
    """Calls ``task`` every ``seconds`` until ``stop``; the first time after one interval."""

    def __init__(self, name: str, seconds: float, task: Callable[[], object]) -> None:
        super().__init__(name=name, daemon=True)
        self._seconds = seconds
        self._task = task
        self._stopping = threading.Event()

    def run(self) -> None:
        """Pass after pass; a failed one is logged, and that is all."""
        while not self._stopping.wait(self._seconds):
            try:
                self._task()
            except Unavailable as error:
                LOG.info("%s: not this time: %s", self.name, error.message)
            except LabnetError as error:
                LOG.warning("%s: %s", self.name, error.message)

    def stop(self) -> None:
        """End after the pass under way, and wait for that."""
        self._stopping.set()
        self.join()
