"""The interface between plans and the machine they are carried out on.

A component is handed a :class:`Kernel` that works in the network namespace the
component lives in. The real one is ``labnet.kernel.linux.LinuxKernel``, its twin for
tests and dry runs ``labnet.kernel.fake.FakeKernel``; one contract suite keeps them
alike (``tests/contract/test_kernel.py``).
"""

from __future__ import annotations

from typing import Protocol

from labnet.plan.ops import Attach, Op, Plan
from labnet.plan.state import NodeState, Scope


class Kernel(Protocol):
    """One node's network stack. Every method may be called from any thread."""

    def observe(self, scope: Scope) -> NodeState:
        """Return what is there now of what ``scope`` covers."""

    def apply(self, op: Op) -> None:
        """Carry out ``op`` or raise :class:`labnet.errors.OpFailed`."""

    def apply_all(self, plan: Plan) -> None:
        """Carry out ``plan`` in order, many operations per system call.

        The kernel goes on after an operation it refuses; the error raised at the end
        names the first one.
        """

    def attach(self, op: Attach, netns: int) -> None:
        """Lay a cable to the network namespace open as file descriptor ``netns``.

        All or nothing: where a step fails the pair is removed again. Raises
        ``OpFailed``, ``Exhausted`` where the bridge has its 1,023 ports.
        """
