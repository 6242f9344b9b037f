"""This process's session: what its runs share until it ends.

Nothing is started or held open here. The first run that can be warm starts the session's warm server, which watches
this process: however it ends, the server and its directory go too. A fork of it has a session of its own.
"""

from __future__ import annotations

import atexit
import os

from clusterkit.warm.session import Session

_sessions: dict[int, Session] = {}  # by pid: a fork finds its parent's, and must not take it for its own


def session() -> Session:
    """The session. The first call also notes where the user's own warm servers are, before a test changes that."""
    pid = os.getpid()
    return _sessions.get(pid) or _sessions.setdefault(pid, Session.new())  # in one step: threads start runs too


@atexit.register
def _end() -> None:
    if (mine := _sessions.get(os.getpid())) is not None:
        mine.remove_directory()
