"""Every error labnet shows to a person.

LabnetError                 anything labnet can explain; the CLI prints it
├── ScenarioError           the lab file is wrong (carries every problem found)
├── NotFound                the named lab, node, pod, container or key is not there
├── AlreadyExists           it is there already
├── Exhausted               an address pool, port range or name space is full
├── Conflict                somebody else changed the object first
├── Unavailable             a component does not answer (yet, or any more)
├── Unsupported             this machine's kernel or packages lack what is needed
└── OpFailed                the kernel refused one operation of a plan

A message says *what* could not be done and to *which object*; ``hint`` says what
to try next; ``__cause__`` keeps the original exception for ``labnet --debug``.
``retryable`` tells a loop whether the same request may succeed a moment later.
"""

from __future__ import annotations


class LabnetError(Exception):
    """An error with a message for the user and, where there is one, a next step."""

    exit_code = 1
    retryable = False

    def __init__(self, message: str, *, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint


class ScenarioError(LabnetError):
    """A lab file that cannot be used; ``message`` has one line per problem."""


class NotFound(LabnetError):
    """The object named is not there."""


class AlreadyExists(LabnetError):
    """An object of that name is there already."""


class Exhausted(LabnetError):
    """A pool has nothing left to hand out."""


class Conflict(LabnetError):
    """The object was changed by somebody else; read it again and retry."""

    retryable = True


class Unavailable(LabnetError):
    """A component does not answer; it may a moment later."""

    retryable = True


class Unsupported(LabnetError):
    """This machine lacks a capability; ``hint`` names the command that gives it."""


class OpFailed(LabnetError):
    """The kernel refused one operation; the operations before it took effect."""
