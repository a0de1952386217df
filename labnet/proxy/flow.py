"""Where does this packet end up? Rules followed by hand, without a kernel.

Given a node's netfilter, as planned or as observed, :func:`trace` follows the first packet
of a connection through the hooks in the kernel's order and returns every way it can go;
more than one where dice decide. It reads the rules' own text, so it says what the rules
do and not what their planner meant. The same rows of packets are sent through a real
kernel in ``tests/flow``.

    from outside or a pod:  nat PREROUTING → to this node?  filter INPUT
                                           → elsewhere:     filter FORWARD → nat POSTROUTING
    from the node itself:   nat OUTPUT → filter OUTPUT → elsewhere: nat POSTROUTING
                                                       → to itself: filter INPUT

A match this module does not know raises ``Unsupported`` rather than being guessed.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, replace
from functools import lru_cache
from ipaddress import IPv4Address, IPv4Network

from labnet.errors import Unsupported
from labnet.plan.netfilter import Chains, NetfilterState

_COMMENT = re.compile(r'-m comment --comment (?:"[^"]*"|\S+)')
_RECENT_SET = re.compile(r"-m recent --set --name \S+")  # remembers, restricts nothing


@dataclass(frozen=True, slots=True)
class Packet:
    """The first packet of a flow, and what has happened to it so far."""

    source: IPv4Address
    destination: IPv4Address
    port: int
    protocol: str = "tcp"
    mark: int = 0
    translated: bool = False
    masqueraded: bool = False
    state: str = "NEW"  # or INVALID, ESTABLISHED, RELATED


@dataclass(frozen=True, slots=True)
class Node:
    """What the kernel knows besides the rules.

    ``remembered`` are the lists of the ``recent`` match that hold the packet's source.
    """

    addresses: frozenset[IPv4Address]
    remembered: frozenset[str] = frozenset()

    def has(self, address: IPv4Address) -> bool:
        """Whether ``address`` is this node's own."""
        return address in self.addresses or address.is_loopback


@dataclass(frozen=True, slots=True, order=True)
class Outcome:
    """One way a packet can go: let through to ``destination``, or stopped."""

    verdict: str  # ACCEPT, DROP, REJECT
    destination: str = ""  # address:port
    masqueraded: bool = False


def trace(state: NetfilterState, packet: Packet, node: Node) -> frozenset[Outcome]:
    """Return every way ``packet`` can go on ``node``."""
    from_here = node.has(packet.source)
    outcomes: set[Outcome] = set()
    for _, routed in _walk(state.chains("nat"), _FIRST[from_here], packet, node):
        to_here = node.has(routed.destination)
        for verdict, passed in _filtered(state, _hooks(from_here, to_here), routed, node):
            if verdict in ("DROP", "REJECT"):
                outcomes.add(Outcome(verdict))
            elif to_here:
                outcomes.add(_let_through(passed))
            else:
                left = _walk(state.chains("nat"), "POSTROUTING", passed, node)
                outcomes |= {_let_through(last) for _, last in left}
    return frozenset(outcomes)


def _hooks(from_here: bool, to_here: bool) -> tuple[str, ...]:
    if from_here:
        return ("OUTPUT", "INPUT") if to_here else ("OUTPUT",)
    return ("INPUT",) if to_here else ("FORWARD",)


def _filtered(
    state: NetfilterState, hooks: tuple[str, ...], packet: Packet, node: Node
) -> Iterator[tuple[str, Packet]]:
    """Walk filter's chains of ``hooks``, one after the other, until one refuses."""
    for verdict, passed in _walk(state.chains("filter"), hooks[0], packet, node):
        if verdict in ("DROP", "REJECT") or len(hooks) == 1:
            yield verdict, passed
        else:
            yield from _filtered(state, hooks[1:], passed, node)


_FIRST = {True: "OUTPUT", False: "PREROUTING"}


def _let_through(packet: Packet) -> Outcome:
    return Outcome("ACCEPT", f"{packet.destination}:{packet.port}", packet.masqueraded)


def _walk(
    chains: Chains, chain: str, packet: Packet, node: Node, start: int = 0
) -> Iterator[tuple[str, Packet]]:
    """Yield (verdict, packet) for each way out of ``chain``; "" is its end."""
    rules = chains.get(chain, ())
    for number in range(start, len(rules)):
        rule = parsed(rules[number])
        if not rule.matches(packet, node):
            continue
        if rule.by_chance:  # the dice may also say no
            yield from _walk(chains, chain, packet, node, number + 1)
        if rule.target in chains:
            for verdict, after in _walk(chains, rule.target, packet, node):
                if verdict:
                    yield verdict, after
                else:
                    yield from _walk(chains, chain, after, node, number + 1)
            return
        verdict, packet = rule.act(packet)
        if verdict:
            yield ("" if verdict == "RETURN" else verdict), packet
            return
    yield "", packet


Match = Callable[[Packet, Node], bool]


@dataclass(frozen=True, slots=True)
class Rule:
    """A rule, taken apart."""

    conditions: tuple[Match, ...]
    by_chance: bool
    target: str
    options: tuple[str, ...]

    def matches(self, packet: Packet, node: Node) -> bool:
        """Whether ``packet`` meets every condition (dice aside)."""
        return all(condition(packet, node) for condition in self.conditions)

    def act(self, packet: Packet) -> tuple[str, Packet]:
        """Return the verdict, "" to go on, and the packet as the target leaves it."""
        match self.target:
            case "MARK":
                value, mask = (int(x, 16) for x in self.options[1].split("/"))
                return "", replace(packet, mark=(packet.mark & ~mask) ^ value)
            case "DNAT":
                address, _, port = self.options[1].partition(":")
                return "ACCEPT", replace(
                    packet, destination=IPv4Address(address), port=int(port), translated=True
                )
            case "MASQUERADE":
                return "ACCEPT", replace(packet, masqueraded=True)
            case "" | "ACCEPT" | "DROP" | "REJECT" | "RETURN":
                return self.target, packet
            case _:
                raise Unsupported(f"target {self.target} cannot be followed")


@lru_cache(maxsize=65536)
def parsed(text: str) -> Rule:
    """Return the rule that ``text`` (iptables-save's spelling) stands for."""
    body, _, jump = f" {_RECENT_SET.sub('', _COMMENT.sub('', text))}".partition(" -j ")
    target, *options = jump.split() or [""]
    words = body.split()
    conditions: list[Match] = []
    by_chance = False
    while words:
        negated = words[0] == "!"
        option = words[int(negated)]
        arguments, words = _arguments(words[int(negated) + 1 :])
        if option == "-m":
            by_chance |= arguments[0] == "statistic"
            continue
        condition = _condition(option, arguments)
        if condition:
            conditions.append(_not(condition) if negated else condition)
    return Rule(tuple(conditions), by_chance, target, tuple(options))


def _arguments(words: list[str]) -> tuple[list[str], list[str]]:
    end = next((n for n, w in enumerate(words) if w == "!" or w.startswith("-")), len(words))
    return words[:end], words[end:]


def _not(condition: Match) -> Match:
    return lambda packet, node: not condition(packet, node)


_NO_CONDITION = {
    "--mode",
    "--probability",
    "--rcheck",
    "--seconds",
    "--reap",
    "--mask",
    "--rsource",
}


def _condition(option: str, arguments: Collection[str]) -> Match | None:
    value = next(iter(arguments), "")
    if option in _NO_CONDITION:
        return None
    make = _CONDITIONS.get(option)
    if make is None:
        raise Unsupported(f"match {option} {value} cannot be followed")
    return make(value)


def _marked(value: str) -> Match:
    wanted, mask = (int(x, 16) for x in value.split("/"))
    return lambda packet, _: packet.mark & mask == wanted


def _in_state(value: str) -> Match:
    states = set(value.split(","))
    return lambda packet, _: packet.state in states or (packet.translated and "DNAT" in states)


def _from(value: str) -> Match:
    network = IPv4Network(value)
    return lambda packet, _: packet.source in network


def _to(value: str) -> Match:
    network = IPv4Network(value)
    return lambda packet, _: packet.destination in network


_CONDITIONS: dict[str, Callable[[str], Match]] = {
    "-s": _from,
    "-d": _to,
    "-p": lambda value: lambda packet, _: packet.protocol == value,
    "--dport": lambda value: lambda packet, _: packet.port == int(value),
    "--mark": _marked,
    "--ctstate": _in_state,
    "--src-type": lambda value: lambda packet, node: value == "LOCAL" and node.has(packet.source),
    "--dst-type": lambda value: (
        lambda packet, node: value == "LOCAL" and node.has(packet.destination)
    ),
    "--name": lambda value: lambda _, node: value in node.remembered,
}
