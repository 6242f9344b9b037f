"""System calls that Python's library lacks (before 3.12): namespaces, mounts and the parent-death signal."""

from __future__ import annotations

import ctypes
import errno
import os
import signal
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

CLONE_NEWNS, CLONE_NEWUSER, CLONE_NEWNET = 0x00020000, 0x10000000, 0x40000000
MS_NOSUID, MS_NODEV, MS_MOVE, MS_REC, MS_SLAVE = 0x2, 0x4, 0x2000, 0x4000, 1 << 19
MNT_DETACH = 2
PR_SET_PDEATHSIG = 1
_CAP_NET_ADMIN, _CAP_SYS_ADMIN = 12, 21
_KINDS = {CLONE_NEWNS: "mnt", CLONE_NEWUSER: "user", CLONE_NEWNET: "net"}
_NAMES = {CLONE_NEWNS: "mount", CLONE_NEWUSER: "user", CLONE_NEWNET: "network"}
# Kernel settings that forbid unprivileged users to create namespaces, and the value that does.
_SETTINGS = (
    ("kernel.unprivileged_userns_clone", "0"),
    ("kernel.apparmor_restrict_unprivileged_userns", "1"),
    ("user.max_user_namespaces", "0"),
    ("user.max_net_namespaces", "0"),
    ("user.max_mnt_namespaces", "0"),
)
_libc = ctypes.CDLL(None, use_errno=True)


class NotPossible(Exception):
    """This machine does not support a feature. The message is a clause that says why."""


def has_rights() -> bool:
    """Whether this process may create network and mount namespaces without a user namespace."""
    lines = Path("/proc/self/status").read_text().splitlines()
    rights = next((int(line.split()[1], 16) for line in lines if line.startswith("CapEff:")), 0)
    return all(rights >> number & 1 for number in (_CAP_NET_ADMIN, _CAP_SYS_ADMIN))


def new_namespace(flag: int) -> int:
    """Create and enter a namespace of that kind; return a descriptor of it. Raises NotPossible."""
    try:
        _call("unshare", flag)
    except OSError as error:
        raise NotPossible(f"{_NAMES[flag]} namespaces {_why_unavailable(error)}") from None
    return os.open(f"/proc/self/ns/{_KINDS[flag]}", os.O_RDONLY | os.O_CLOEXEC)


def new_network() -> int:
    """Create and enter a network namespace without IPv6; return a descriptor of it. Raises NotPossible."""
    descriptor = new_namespace(CLONE_NEWNET)
    # The switch carries IPv4 only; with IPv6 off, programs do not wait for its addresses.
    for place in ("all", "default"):
        with suppress(OSError):  # a kernel without IPv6, or a container with a read-only /proc/sys
            Path(f"/proc/sys/net/ipv6/conf/{place}/disable_ipv6").write_text("1")
    return descriptor


def new_user_namespace() -> int:
    """Enter a new user namespace with this user's own ids; return a descriptor of it. Raises NotPossible."""
    user, group = os.getuid(), os.getgid()
    descriptor = new_namespace(CLONE_NEWUSER)
    try:
        Path("/proc/self/setgroups").write_text("deny")
        Path("/proc/self/uid_map").write_text(f"{user} {user} 1")
        Path("/proc/self/gid_map").write_text(f"{group} {group} 1")
    except OSError as error:
        raise NotPossible(f"user namespaces {_why_unavailable(error)}") from None
    return descriptor


def enter(namespace: int) -> None:
    """Raises NotPossible."""
    try:
        _call("setns", namespace, 0)
    except OSError as error:
        raise NotPossible(f"a namespace can't be entered: {reason_of(error)}") from None


def keep_mounts_to_itself() -> None:
    """Hide this namespace's new mounts from others; new mounts outside still appear here."""
    mount("none", "/", flags=MS_REC | MS_SLAVE)


def mount(source: str, target: str, kind: str = "", flags: int = 0, options: str = "") -> None:
    """Raises OSError."""
    _call("mount", *map(os.fsencode, (source, target, kind)), flags, os.fsencode(options))


def detach(target: str) -> None:
    """Unmount; files that are open in it stay open. Raises OSError."""
    _call("umount2", os.fsencode(target), MNT_DETACH)


def die_with_parent(parent: int) -> None:
    """Have the kernel send SIGKILL when the thread that started this process ends; now, if `parent` is gone already."""
    _call("prctl", PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent:
        os.kill(os.getpid(), signal.SIGKILL)


def _why_unavailable(error: OSError) -> str:
    if error.errno in (errno.EINVAL, errno.ENOSYS):
        return "are not supported by this kernel"
    off = [f"{name}={value}" for name, value in _SETTINGS if _setting(name) == value]
    if off:
        return f"are switched off ({', '.join(off)})"
    return f"can't be created: {reason_of(error)}"


def reason_of(error: OSError) -> str:
    """Return the error's text as a clause: it starts in lower case."""
    text = error.strerror or str(error)
    return text[:1].lower() + text[1:]


def _setting(name: str) -> str:
    try:
        return Path("/proc/sys", *name.split(".")).read_text().strip()
    except OSError:
        return ""


def _call(name: str, *arguments: int | bytes) -> None:
    given: Sequence[object] = [ctypes.c_ulong(a) if isinstance(a, int) else a for a in arguments]
    if getattr(_libc, name)(*given) != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
