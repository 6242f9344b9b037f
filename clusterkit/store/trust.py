"""Refuses state directories and runs that other users own or can write to, with a sentence that says what to do."""

from __future__ import annotations

import os
import pwd
from pathlib import Path

from clusterkit.store.paths import TRUSTED_HOME, Paths
from clusterkit.system.ownership import is_trusted, is_writable_by_others, owner_of, user_name
from clusterkit.words.errors import RunDirectoryError

# The directories of a state directory from which clusterkit reads what it acts on.
PARTS = ("runs", "warm", "campaigns", "submitted", "verified", "removed")


def why_untrusted(home: Path) -> str:
    """Return why a state directory can't be trusted, as sentences; empty if it can be, or does not exist."""
    if is_trusted_home(home):
        return ""
    for path in (home, *(home / name for name in PARTS)):
        if why := _why(path, home, sticky=path == home):
            return why
    return ""


def is_trusted_home(home: Path) -> bool:
    """Return whether the user has said that everybody who can write to this state directory is trusted."""
    named = os.environ.get(TRUSTED_HOME)
    return bool(named) and Path(str(named)).absolute() == home


def refuse_untrusted(home: Path) -> None:
    """Raise RunDirectoryError if a state directory belongs to another user, or can be written by others."""
    if why := why_untrusted(home):
        raise RunDirectoryError(why)


def refuse_untrusted_parent(run: Paths[Path]) -> None:
    """Raise RunDirectoryError if other users could replace the files of a run that is about to be created."""
    place = run.path.parent
    if not is_trusted_home(place.parent) and (why := _why(place, place.parent, sticky=False)):
        raise RunDirectoryError(why)


def refuse_foreign(run: Paths[Path]) -> None:
    """Raise RunDirectoryError unless a run's directory belongs to this user or root, and only they can write to it.

    Files of any run may be read, but nothing is sent to a process, or signalled, because another user's files say so.
    """
    if is_trusted_home(run.path.parent.parent):
        return
    owner = owner_of(run.path)
    if owner is not None and not is_trusted(owner):
        raise RunDirectoryError(f"The run {run.run_id} belongs to {user_name(owner)}, who alone can control it.")
    if is_writable_by_others(run.path):
        raise RunDirectoryError(
            f"Other users can write to the run's directory {run.path}, so it may not be what it seems, and clusterkit "
            f"sends nothing to its processes. If you trust its files: chmod go-w {_quoted(run.path)}"
        )


def _why(path: Path, home: Path, sticky: bool) -> str:
    owner = owner_of(path)
    if owner is None:
        return ""
    if not is_trusted(owner):
        return (
            f"The directory {path} belongs to {user_name(owner)}, who could run code as you through files in it. "
            f"Set CLUSTERKIT_HOME to a directory of your own. {_trust(home)}"
        )
    if not is_writable_by_others(path, sticky):
        return ""
    mend = f"If it is for you alone: chmod go-w {_quoted(path)}. " if owner == os.geteuid() else ""
    return (
        f"Other users can write to the directory {path}, and could run code as you through files in it. {mend}"
        f"Otherwise set CLUSTERKIT_HOME to a directory of your own, such as {home / _own_name()}. {_trust(home)}"
    )


def _trust(home: Path) -> str:
    return f"To use it all the same: {TRUSTED_HOME}={_quoted(home)}"


def _quoted(path: Path) -> str:
    """Return a path as a word for a shell."""
    import shlex  # imported here, for errors only

    return shlex.quote(str(path))


def _own_name() -> str:
    """Return this user's name, for an example."""
    try:
        return pwd.getpwuid(os.geteuid()).pw_name
    except KeyError:
        return str(os.geteuid())
