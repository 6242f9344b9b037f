"""The world of the tests: the same whoever starts them, by hand, from nohup or from cron."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterable, Mapping
from pathlib import Path
from types import FrameType

ROOT = Path(__file__).parent.parent
# What a person's shell and a cron job differ in stays outside. PATH is kept, and what is needed beside it is added.
KEPT = {"LD_LIBRARY_PATH", "LOGNAME", "PATH", "USER", "PYTEST_CURRENT_TEST", "PYTEST_DEBUG_TEMPROOT", "PYTEST_VERSION"}
KEPT_FAMILY = ("PYTEST_XDIST_", "TABLES_")
USUAL = {"LANG": "C.UTF-8", "SHELL": "/bin/sh", "TERM": "xterm"}
SYSTEM = ("/usr/local/sbin", "/usr/local/bin", "/usr/sbin", "/usr/bin", "/sbin", "/bin")
# Of a `clusterkit` that a test calls; the rest of them is what tests set for themselves.
FOREIGN = ("CLUSTERKIT", "TF_")
IGNORABLE = (signal.SIGHUP, signal.SIGINT, signal.SIGQUIT)


def settle(place: Path, ignored: Iterable[int] = ()) -> None:
    """Make this process's world the tests' own; what it starts inherits that. Temporary files go below `place`.

    `ignored` are signals that the session's leader was to ignore, when this is one of its workers.
    """
    open_standard_descriptors()
    catch_ignored_signals({*ignored, *ignored_signals()})
    signal.pthread_sigmask(signal.SIG_SETMASK, [])
    os.umask(0o022)
    environment = tests_environment(os.environ, place)
    for name in os.environ.keys() - environment.keys():
        del os.environ[name]
    os.environ.update(environment)


def tests_environment(given: Mapping[str, str], place: Path) -> dict[str, str]:
    """The variables that a test sees where this is what its session was given."""
    kept = {name: value for name, value in given.items() if name in KEPT or name.startswith(KEPT_FAMILY)}
    paths = [path for path in kept.get("PATH", "").split(os.pathsep) if path]
    path = os.pathsep.join(dict.fromkeys([*paths, *SYSTEM]))
    return {**USUAL, **kept, "PATH": path, "HOME": str(place / "home"), "TMPDIR": str(place)}


def clean_environment(home: Path) -> dict[str, str]:
    """Of a `clusterkit` whose state directory this is."""
    clean = {name: value for name, value in os.environ.items() if not name.startswith(FOREIGN)}
    return {**clean, "CLUSTERKIT_HOME": str(home), "PYTHONPATH": str(ROOT)}


def open_standard_descriptors() -> None:
    """Where one was closed, the next file that is opened would be the standard input of everything started later."""
    for number in (0, 1, 2):
        try:
            os.fstat(number)
        except OSError:
            opened = os.open(os.devnull, os.O_RDWR)
            if opened != number:
                os.dup2(opened, number)
                os.close(opened)
            os.set_inheritable(number, True)


def ignored_signals() -> list[int]:
    """Those that whoever started the session wanted ignored, as nohup does, also when they are caught by now."""
    return [int(number) for number in IGNORABLE if signal.getsignal(number) in (signal.SIG_IGN, _nothing)]


def catch_ignored_signals(numbers: Iterable[int]) -> None:
    """Catch them, and do nothing: a program that is started has them as usual then.

    Why not as usual here too: whoever said `nohup` wants these processes to live on.
    """
    for number in numbers:
        signal.signal(number, _nothing)


def _nothing(_number: int, _frame: FrameType | None) -> None: ...
