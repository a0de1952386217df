"""netfilter of the namespace this process is in, through iptables' own programs.

Rules are written with ``iptables-restore --noflush`` (its nf_tables variant where there
is one) and read with ``iptables-save``: the same programs a person uses, so that what
they show is what was meant. One process carries any number of transactions.

Reading back 5,000 services costs about a second. So the state that was written is kept
together with nf_tables' commit count: as long as the count says that nobody else wrote,
memory and kernel agree, and ``observe_netfilter`` answers from memory.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Iterable, Sequence

from labnet.errors import OpFailed, Unsupported
from labnet.kernel.netfilter_netlink import NetfilterSocket
from labnet.plan.conntrack import Connection
from labnet.plan.netfilter import (
    NetfilterState,
    Transaction,
    TransactionRefused,
    TransactionTooLarge,
    parse_save,
)
from labnet.plan.netfilter_effect import applied

_LINE = re.compile(r"(?:^line |at line: |: line )(\d+)", re.MULTILINE)
_MISSING = re.compile(r"Chain '(\S+)' does not exist")
_TOO_LARGE = "Message too long"
_TIMEOUT = 60  # seconds; 10,000 services take about 3


class LinuxNetfilter:
    """The real thing. Nothing is opened before the first call; close it at the end."""

    def __init__(self) -> None:
        self._restore = _program("iptables-nft-restore", "iptables-restore")
        self._save = _program("iptables-nft-save", "iptables-save")
        self._opened: NetfilterSocket | None = None
        self._known: tuple[int, NetfilterState] | None = None  # as of this generation

    def __enter__(self) -> LinuxNetfilter:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Release the netlink socket; rules stay."""
        if self._opened:
            self._opened.close()
            self._opened = None

    @property
    def _netlink(self) -> NetfilterSocket:
        if self._opened is None:
            self._opened = NetfilterSocket()
        return self._opened

    def observe_netfilter(self) -> NetfilterState:
        """Return every table there is, from memory if nobody else wrote since."""
        generation = self._netlink.generation()
        if self._known and self._known[0] == generation:
            return self._known[1]
        state = parse_save(self._run([self._save], "").stdout)
        self._known = None
        if generation is not None and generation == self._netlink.generation():
            self._known = (generation, state)
        return state

    def apply_netfilter(self, transactions: Sequence[Transaction]) -> None:
        """Carry out ``transactions`` with one ``iptables-restore``."""
        before, self._known = self._known, None
        text = "".join(transaction.text() for transaction in transactions)
        done = self._run([self._restore, "--noflush", "-w", "5"], text)
        if done.returncode:
            raise _failure(self._restore, done.stderr, transactions)
        self._remember(before, transactions)

    def generation(self) -> int | None:
        """Return nf_tables' commit count of this namespace, None without nf_tables."""
        return self._netlink.generation()

    def connections(self, protocol: int) -> tuple[Connection, ...]:
        """Return what the connection tracker holds for an IP protocol number."""
        return self._netlink.connections(protocol)

    def forget(self, connections: Iterable[Connection]) -> None:
        """Delete entries of the connection tracker."""
        self._netlink.forget(connections)

    def _remember(
        self, before: tuple[int, NetfilterState] | None, done: Sequence[Transaction]
    ) -> None:
        """Keep what the kernel holds now, unless somebody else wrote in between.

        Every transaction is one commit: a count that grew by more has other writers.
        """
        generation = self._netlink.generation()
        if before and generation == before[0] + len(done):
            self._known = (generation, applied(before[1], done))

    def _run(self, argv: list[str], text: str) -> subprocess.CompletedProcess[str]:
        try:
            return subprocess.run(
                argv, input=text, text=True, capture_output=True, timeout=_TIMEOUT, check=False
            )
        except OSError as error:
            raise OpFailed(f"{argv[0]}: {error.strerror}") from error
        except subprocess.TimeoutExpired as error:
            raise OpFailed(f"{argv[0]}: no end after {_TIMEOUT} s") from error


def _program(*names: str) -> str:
    path = os.environ.get("PATH", "") + ":/usr/sbin:/sbin"
    for name in names:
        found = shutil.which(name, path=path)
        if found:
            return found
    raise Unsupported(f"{names[0]} is not installed", hint="apt-get install iptables")


def _failure(program: str, stderr: str, transactions: Sequence[Transaction]) -> OpFailed:
    """Return the error for a failed restore, with the line that the kernel refused.

    iptables-restore counts the lines of its whole input, from 1.
    """
    message = " ".join(stderr.split()) or "failed without a word"
    if _TOO_LARGE in stderr:
        return TransactionTooLarge(f"{program}: {message}")
    refused, line = _culprit(stderr, transactions)
    if refused is None:
        return OpFailed(f"{program}: {message}")
    return TransactionRefused(
        f"{program}: {refused.table}: {line or 'COMMIT'}: {message}", refused=refused, line=line
    )


def _culprit(
    stderr: str, transactions: Sequence[Transaction]
) -> tuple[Transaction | None, str | None]:
    """Return the transaction and the line that iptables complains about."""
    named = _LINE.search(stderr)
    if not named:
        return None, None
    at = int(named.group(1))
    for transaction in transactions:
        size = len(transaction.lines) + 2
        if at <= size:
            line = transaction.lines[at - 2] if 1 < at < size else None
            return transaction, line or _naming_the_missing_chain(stderr, transaction)
        at -= size
    return None, None


def _naming_the_missing_chain(stderr: str, transaction: Transaction) -> str | None:
    """Return the line that uses the chain iptables misses: it notices only at COMMIT."""
    missing = _MISSING.search(stderr)
    if not missing:
        return None
    return next((line for line in transaction.lines if missing.group(1) in line.split()), None)
