"""The text of an iptables rule, in the spelling of ``iptables-save``.

iptables prints a rule in its own order whatever order it was typed in: addresses,
protocol, the matches as they came, target. It prints ``/32`` behind a single address and
quotes a comment unless it is one plain word. Rules written like this from the start can
be compared with what the kernel reports, letter by letter. Two proxy modes write such
rules: iptables, and userspace to lead packets to its process.
"""

from __future__ import annotations

import re
from ipaddress import IPv4Address

TO_NODE = "-m addrtype --dst-type LOCAL"

_PLAIN = re.compile(r"[A-Za-z0-9_-]+\Z")


def comment(text: str) -> str:
    """Return a comment match."""
    quoted = text if _PLAIN.match(text) else f'"{text}"'
    return f"-m comment --comment {quoted}"


def to_address(address: IPv4Address, protocol: str, port: int, remark: str) -> str:
    """Match packets to one address and port."""
    p = protocol.lower()
    return f"-d {address}/32 -p {p} {comment(remark)} -m {p} --dport {port}"


def to_node_port(protocol: str, port: int, remark: str) -> str:
    """Match packets to a port, where something else has said it is this node's."""
    p = protocol.lower()
    return f"-p {p} {comment(remark)} -m {p} --dport {port}"
