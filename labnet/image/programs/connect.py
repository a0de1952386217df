"""``agnhost connect``: can a connection be opened, and if not, why not.

The last word tells apart what a packet filter can do to you: REFUSED is a reset or a
REJECT, TIMEOUT a DROP or a missing route back, DNS a name nobody knows. Network policy
tests read exactly these words (kubernetes ``test/images/agnhost/connect``).
"""

from __future__ import annotations

import os
import re
import socket

UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}


def seconds(text: str) -> float:
    """Return a Go duration (``1s``, ``1m30s``, ``500ms``) in seconds; ValueError if none."""
    parts = re.findall(r"(\d+(?:\.\d+)?)(ms|s|m|h)", text)
    if not parts or "".join(n + u for n, u in parts) != text:
        raise ValueError(f"time: invalid duration {text!r}")
    return sum(float(number) * UNITS[unit] for number, unit in parts)


def verdict(target: str, timeout: float, protocol: str) -> str:
    """Return "" when ``target`` (host:port) answered, else the word for why it did not."""
    host, _, port = target.rpartition(":")
    if not port.isdigit():
        return f"OTHER: address {target}: missing port in address"
    kind = socket.SOCK_DGRAM if protocol == "udp" else socket.SOCK_STREAM
    try:
        family, _, _, _, address = socket.getaddrinfo(host.strip("[]"), int(port), type=kind)[0]
    except socket.gaierror as error:
        return f"DNS: {error.strerror}"
    with socket.socket(family, kind) as sock:
        sock.settimeout(timeout)
        try:
            sock.connect(address)
            if kind is socket.SOCK_DGRAM:
                sock.send(b"hostname\n")
                sock.recv(4096)
        except TimeoutError:
            return "TIMEOUT"
        except ConnectionRefusedError:
            return "REFUSED"
        except OSError as error:
            return f"OTHER: {error.strerror}"
    return ""


def report(target: str, timeout: float, protocol: str) -> int:
    """Say why ``target`` could not be reached, on standard error; return the exit code."""
    if protocol not in ("tcp", "udp"):
        os.write(2, f"unsupported protocol {protocol!r}: tcp and udp are there\n".encode())
        return 1
    if word := verdict(target, timeout, protocol):
        os.write(2, word.encode() + b"\n")
        return 1
    return 0
