"""Importing the components' modules once, in PID 1, so that forks share their memory.

Imports take a good quarter of a second in all, so they are done one at a time when the
loop is idle: making hosts and starting etcd do not wait for them. The first fork that
runs Python code does, since a module imported before it costs no memory after it.
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
    """What is still to be imported, and what could not be."""

    def __init__(self, loop: Loop, modules: Sequence[str]) -> None:
        self._loop = loop
        self._left = deque(modules)
        self.missing: list[str] = []
        self._when_idle()

    def _when_idle(self) -> None:
        if self._left:
            self._loop.when_idle(self._one)

    def _one(self) -> None:
        if self._left:
            self._load(self._left.popleft())
            self._when_idle()
            self._settle()

    def finish(self) -> None:
        """Import all that is left, now."""
        if self._left:
            while self._left:
                self._load(self._left.popleft())
            self._settle()

    def _load(self, name: str) -> None:
        if name in sys.modules:
            return
        try:
            importlib.import_module(name)
        except Exception as error:  # noqa: BLE001  # whatever it is, PID 1 must live on
            self.missing.append(name)
            say(f"preload: {name}: {type(error).__name__}: {error}")

    def _settle(self) -> None:
        """Once all is there, keep the collector off it: touching pages unshares them."""
        if not self._left:
            if "ssl" in sys.modules:
                warm_tls()
            gc.collect()
            gc.freeze()
