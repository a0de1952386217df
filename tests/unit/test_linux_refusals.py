"""Why a machine refuses namespaces is told apart, with the command that allows them."""

from __future__ import annotations

import errno
import struct

import pytest

from labnet.errors import LabnetError, Unsupported
from labnet.linux import capabilities, seccomp
from labnet.linux.userns import refusal

MAX, CLONE, APPARMOR = (
    "user.max_user_namespaces",
    "kernel.unprivileged_userns_clone",
    "kernel.apparmor_restrict_unprivileged_userns",
)


@pytest.mark.parametrize(
    ("code", "settings", "names", "command"),
    [
        (errno.ENOSPC, {MAX: 0}, f"{MAX} = 0", f"sudo sysctl -w {MAX}=15000"),
        (errno.EPERM, {CLONE: 0, MAX: 100}, f"{CLONE} = 0", f"sudo sysctl -w {CLONE}=1"),
        (errno.EPERM, {APPARMOR: 1}, "AppArmor", f"sudo sysctl -w {APPARMOR}=0"),
        (errno.EACCES, {APPARMOR: 1, CLONE: 1}, "AppArmor", f"sudo sysctl -w {APPARMOR}=0"),
        (errno.EPERM, {CLONE: 1, MAX: 9}, "Operation not permitted", "--privileged"),
    ],
)
def test_a_refusal_names_the_setting_and_the_command(
    code: int, settings: dict[str, int], names: str, command: str
) -> None:
    error = OSError(code, "Operation not permitted", "new user namespace")
    found = refusal(error, settings.get)
    assert isinstance(found, Unsupported)
    assert names in found.message
    assert command in found.hint


# -- capabilities -----------------------------------------------------------------------


def test_a_mask_has_one_bit_per_capability() -> None:
    assert capabilities.mask(("CHOWN", "NET_ADMIN")) == 1 | 1 << 12
    assert capabilities.NAMES[40] == "CHECKPOINT_RESTORE"


def test_an_unknown_capability_is_named() -> None:
    with pytest.raises(LabnetError, match="no capability CAP_CHOWN"):
        capabilities.mask(("CAP_CHOWN",))


# -- the filter -------------------------------------------------------------------------

X86, ARM = 0xC000003E, 0xC00000B7


def verdict(program: bytes, number: int, arch: int) -> int:
    """Run classic BPF over one system call, as the kernel does."""
    code = list(struct.iter_unpack("HBBI", program))
    data, accumulator, at = struct.pack("II", number, arch), 0, 0
    while True:
        kind, if_true, if_false, value = code[at]
        if kind == 0x06:
            return int(value)
        if kind == 0x20:
            accumulator = struct.unpack_from("I", data, value)[0]
            at += 1
        else:
            at += 1 + (if_true if accumulator == value else if_false)


@pytest.mark.parametrize(
    ("machine", "arch", "setuid", "setgroups"),
    [("x86_64", X86, 105, 116), ("aarch64", ARM, 146, 159)],
)
def test_changes_of_user_are_answered_with_success_and_nothing_else_is_touched(
    machine: str, arch: int, setuid: int, setgroups: int
) -> None:
    program = seccomp.program(machine)
    pretended = {number for number in range(600) if verdict(program, number, arch) == 0x50000}
    assert {setuid, setgroups} <= pretended
    assert len(pretended) == 7
    assert verdict(program, 59, arch) == 0x7FFF0000


def test_another_architectures_calls_pass() -> None:
    assert verdict(seccomp.program("x86_64"), 105, 0x40000003) == 0x7FFF0000


def test_an_unknown_machine_gets_no_filter() -> None:
    assert seccomp.program("riscv64") == b""
