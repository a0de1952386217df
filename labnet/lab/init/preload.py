"""Importing the components' modules once, in PID 1, so that forks share their memory.

A module imported before a fork costs no time and no memory after it. Imports take a
third of a second in all, so they are done one at a time when the loop is idle: making
hosts and starting etcd do not wait for them, and a component waits only for its own
module and those before it in the list.

An entry may be ``module:function``: then the function is called too, for what a module
loads late (``labnet.store.channel:preload`` imports grpcio, without a channel).
"""

from __future__ import annotations

import gc
import importlib
import sys
from collections import deque
from collections.abc import Sequence

from labnet.lab.init.loop import Loop
from labnet.lab.init.say import say
from labnet.lab.init.warm import warm_tls


class Preload:
    """What is still to be imported, in order, and what could not be."""

    def __init__(self, loop: Loop, entries: Sequence[str]) -> None:
        self._loop = loop
        self._left = deque(entries)
        self._warm = False
        self.missing: list[str] = []
        self._when_idle()

    def _when_idle(self) -> None:
        if self._left:
            self._loop.when_idle(self._one)

    def _one(self) -> None:
        if self._left:
            self._load(self._left.popleft())
            self._when_idle()

    def finish(self) -> None:
        """Import all that is left, now."""
        while self._left:
            self._load(self._left.popleft())

    def need(self, module: str) -> None:
        """Import ``module`` now, and what comes before it in the list."""
        while module in self._left:
            self._load(self._left.popleft())

    def _load(self, entry: str) -> None:
        """Import one entry, and keep the collector off all there is.

        A collection in a fork would touch every object, and a page that is touched is
        shared no more; during an import it would cost time and find nothing.
        """
        gc.disable()
        try:
            _call(entry)
            if not self._warm and "ssl" in sys.modules:
                self._warm = True
                warm_tls()
        except Exception as error:  # noqa: BLE001  # whatever it is, PID 1 must live on
            self.missing.append(entry)
            say(f"preload: {entry}: {type(error).__name__}: {error}")
        finally:
            gc.freeze()
            gc.enable()


def _call(entry: str) -> None:
    module, _, function = entry.partition(":")
    loaded = importlib.import_module(module)
    if function:
        getattr(loaded, function)()
