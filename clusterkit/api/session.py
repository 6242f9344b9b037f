"""This process's session: what its runs share until it ends. Temporary directories end with it, too.

Nothing is started or held open here. The first run that can be warm starts the session's warm server, which watches
this process: however it ends, the server and its directory go too. A fork of it has a session of its own.
"""

from __future__ import annotations

import atexit
import os
import shutil
import tempfile
import weakref
from pathlib import Path

from clusterkit.warm.warm_client import Session

_sessions: dict[int, Session] = {}  # by pid: a fork finds its parent's, and must not take it for its own


def session() -> Session:
    """The session. The first call also notes where the user's own warm servers are, before a test changes that."""
    pid = os.getpid()
    return _sessions.get(pid) or _sessions.setdefault(pid, Session.new())  # in one step: threads start runs too


@atexit.register
def _end() -> None:
    if (mine := _sessions.get(os.getpid())) is not None:
        mine.remove_directory()


class Temporary:
    """A temporary directory; `remove` removes it, as does the end of this process.

    Why not `tempfile.TemporaryDirectory`: at its exit a fork would remove the files that its parent's tasks read.
    """

    def __init__(self) -> None:
        self.path = Path(tempfile.mkdtemp(prefix="clusterkit-"))
        self.remove = weakref.finalize(self, _remove, self.path, os.getpid())


def _remove(directory: Path, owner: int) -> None:
    if os.getpid() == owner:
        shutil.rmtree(directory, ignore_errors=True)
