"""The system: namespaces, mounts and the tie to the parent, which Python's library has no words for before 3.12."""

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
# Where systems say that people without rights can make no namespaces, and the value with which they say it.
_SWITCHES = (
    ("kernel.unprivileged_userns_clone", "0"),
    ("kernel.apparmor_restrict_unprivileged_userns", "1"),
    ("user.max_user_namespaces", "0"),
    ("user.max_net_namespaces", "0"),
    ("user.max_mnt_namespaces", "0"),
)
_libc = ctypes.CDLL(None, use_errno=True)


class NotPossible(Exception):
    """This machine can't do it; the text is a clause that says why."""


def has_rights() -> bool:
    """Whether this process may make network and mount namespaces without a user namespace."""
    lines = Path("/proc/self/status").read_text().splitlines()
    rights = next((int(line.split()[1], 16) for line in lines if line.startswith("CapEff:")), 0)
    return all(rights >> number & 1 for number in (_CAP_NET_ADMIN, _CAP_SYS_ADMIN))


def new_namespace(flag: int) -> int:
    """Go into a new namespace of that kind; return a descriptor of it. Raises NotPossible."""
    try:
        _call("unshare", flag)
    except OSError as error:
        raise NotPossible(f"{_NAMES[flag]} namespaces {_why_none(error)}") from None
    return os.open(f"/proc/self/ns/{_KINDS[flag]}", os.O_RDONLY | os.O_CLOEXEC)


def new_network() -> int:
    """Go into a new network namespace; return a descriptor of it. Raises NotPossible."""
    descriptor = new_namespace(CLONE_NEWNET)
    # Nothing carries IPv6 there; a program that is told so at once tries no address of it.
    for place in ("all", "default"):
        with suppress(OSError):  # a kernel without it, or a container with a /proc/sys that can't be written
            Path(f"/proc/sys/net/ipv6/conf/{place}/disable_ipv6").write_text("1")
    return descriptor


def new_user_namespace() -> int:
    """Go into a user namespace in which this user is the same, but may make others. Raises NotPossible."""
    user, group = os.getuid(), os.getgid()
    descriptor = new_namespace(CLONE_NEWUSER)
    try:
        Path("/proc/self/setgroups").write_text("deny")
        Path("/proc/self/uid_map").write_text(f"{user} {user} 1")
        Path("/proc/self/gid_map").write_text(f"{group} {group} 1")
    except OSError as error:
        raise NotPossible(f"user namespaces {_why_none(error)}") from None
    return descriptor


def enter(namespace: int) -> None:
    """Go into a namespace that is open. Raises NotPossible."""
    try:
        _call("setns", namespace, 0)
    except OSError as error:
        raise NotPossible(f"a namespace can't be entered: {said(error)}") from None


def keep_mounts_to_itself() -> None:
    """What is mounted here from now on is not seen outside; what is mounted outside still is here."""
    mount("none", "/", flags=MS_REC | MS_SLAVE)


def mount(source: str, target: str, kind: str = "", flags: int = 0, options: str = "") -> None:
    """mount(2). Raises OSError."""
    _call("mount", *map(os.fsencode, (source, target, kind)), flags, os.fsencode(options))


def detach(target: str) -> None:
    """Unmount; what is open in it stays as it is. Raises OSError."""
    _call("umount2", os.fsencode(target), MNT_DETACH)


def die_with_parent(parent: int) -> None:
    """Get SIGKILL when the thread that started this process is gone; now, if its process is gone already."""
    _call("prctl", PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent:
        os.kill(os.getpid(), signal.SIGKILL)


def _why_none(error: OSError) -> str:
    if error.errno in (errno.EINVAL, errno.ENOSYS):
        return "are not in this kernel"
    off = [f"{name}={value}" for name, value in _SWITCHES if _setting(name) == value]
    if off:
        return f"are switched off ({', '.join(off)})"
    return f"can't be made: {said(error)}"


def said(error: OSError) -> str:
    """What went wrong, in the words of a clause."""
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
