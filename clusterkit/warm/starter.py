"""Starts: which attempts a fork server makes, which wait until it can, and which begin with a fresh interpreter."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import NamedTuple

from clusterkit.job.plan import BUILTIN_SERVER, TaskPlan
from clusterkit.warm.run_server import TRIES, ForkServer, ForkServerLost, ForkServerReady, Launch
from clusterkit.warm.servable import differing, shadowed
from clusterkit.words.events import Crashed, Noted
from clusterkit.words.model import ProgramKind

Post = Callable[[Noted | Crashed], None]


class Inherited(NamedTuple):
    """A fork server that was there before this process: its pid, and the descriptors that lead to it."""

    pid: int
    channel: int
    lifeline: int


class Warmth(NamedTuple):
    """From what a run's fork servers are made; without `launch` there is none. `inherited` is the first, if any."""

    launch: Launch | None = None
    inherited: Inherited | None = None


class WarmStarter:
    """A run's fork servers, one after the other.

    `changed` is called, in any thread, when a server is ready or gone: `settle`, in the thread that starts tasks, then
    sees to what comes next.
    """

    def __init__(self, warmth: Warmth, post: Post, changed: Callable[[], None]) -> None:
        self._launch, inherited = warmth
        self._post = post
        self._changed = changed
        self._server: ForkServer | None = None
        self._first = True
        if inherited is not None:
            channel = socket.socket(fileno=inherited.channel)
            self._server = ForkServer(channel, inherited.lifeline, inherited.pid, self._heard)
        else:
            self._begin(TRIES)

    def has_to_wait(self, plan: TaskPlan, env: Mapping[str, str]) -> bool:
        """Whether the attempt should start when the first server is ready. Later ones are not waited for."""
        server = self._server
        waits = self._first and server is not None and not server.ready and not server.gone
        return waits and self._difference(plan, env) is None

    def server_for(self, plan: TaskPlan, env: Mapping[str, str]) -> tuple[ForkServer | None, str | None]:
        """The server that can fork the attempt now, and why none does although there is one."""
        server = self._server
        if server is None or server.gone:
            return None, None
        why_cold = self._difference(plan, env) or self._shadows(plan)
        return (server if server.ready and not why_cold else None), why_cold

    def settle(self) -> None:
        """The server is ready, or gone: then another is begun, unless that has no prospect."""
        server = self._server
        if server is None or not server.gone:
            return
        self._first = False
        server.stop()
        self._server = None
        if server.tries > 0:
            self._begin(server.tries)

    def stop(self) -> None:
        """End the server."""
        if self._server is not None:
            self._server.stop()
            self._server = None

    def _begin(self, tries: int) -> None:
        if self._launch is None:
            return
        try:
            self._server = ForkServer.start(self._launch, self._heard, tries)
        except OSError as error:
            self._heard(ForkServerLost(f"it could not be made: {error.strerror}", was_ready=False, again=False))

    def _heard(self, news: ForkServerReady | ForkServerLost | Crashed) -> None:
        if isinstance(news, Crashed):
            self._post(news)
            return
        self._post(Noted(news.sentence, minor=isinstance(news, ForkServerReady)))
        self._changed()

    def _difference(self, plan: TaskPlan, env: Mapping[str, str]) -> str | None:
        assert self._launch is not None
        if plan.kind is ProgramKind.COMMAND:
            return None
        if plan.python != self._launch.python:
            return f"it has an interpreter of its own, {plan.python}"
        if names := differing(self._launch.env, env):
            verb = "differs" if len(names) == 1 else "differ"
            return f"its {', '.join(names)} {verb} from the fork server's, and counts when TensorFlow is imported"
        return None

    def _shadows(self, plan: TaskPlan) -> str | None:
        """Looked up each time: between two attempts a file may have come."""
        assert self._server is not None
        if plan.kind is ProgramKind.COMMAND or plan.target == BUILTIN_SERVER:  # it imports nothing from its directory
            return None
        cwd = Path(plan.cwd or ".").absolute()
        directory = cwd if plan.kind is ProgramKind.MODULE else Path(os.path.realpath(cwd / plan.target)).parent
        found = shadowed(self._server.modules, str(directory), _modules_in(directory))
        return f"{directory} has modules with names of imported ones: {', '.join(found)}" if found else None


def _modules_in(directory: Path) -> list[str]:
    """What `import` finds there before it looks elsewhere; a directory without `__init__.py` comes last of all."""
    try:
        with os.scandir(directory) as entries:
            return [
                entry.name.removesuffix(".py")
                for entry in entries
                if entry.name.endswith(".py") or Path(entry.path, "__init__.py").is_file()
            ]
    except OSError:
        return []
