"""Arbitrary choices: uids and the endings of generated names, truly arbitrary.

Whoever creates objects is handed a chooser, as it is handed a clock, so that a test can
have the same names every time. Five of 27 letters are 14 million endings: enough for the
pods of one ReplicaSet, and short enough to be typed.
"""

from __future__ import annotations

import uuid
from random import Random

from labnet.api.meta import NAME_LETTERS


class RandomChooser:
    """Draws from ``random``; hand in a seeded one for the same choices every time."""

    def __init__(self, random: Random) -> None:
        self._random = random

    def uid(self) -> str:
        """Return a new random UUID as text."""
        return str(uuid.UUID(int=self._random.getrandbits(128), version=4))

    def suffix(self) -> str:
        """Return five of ``NAME_LETTERS``, for generateName."""
        return "".join(self._random.choices(NAME_LETTERS, k=5))
