"""Decides whether an attempt is forked from the fork server, waits for this server, or starts cold (without a fork)."""

from __future__ import annotations

import glob
import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from clusterkit.job.plan import BUILTIN_SERVER, TaskPlan
from clusterkit.store.paths import RunPaths
from clusterkit.warm.choice import launch_for
from clusterkit.warm.fork_client import TRIES, ForkServer, Launch, StartedServer, begin, lost_event
from clusterkit.warm.servable import differing_variables, shadowed
from clusterkit.words.events import Crashed, Noted
from clusterkit.words.job import JobSpec
from clusterkit.words.model import ProgramKind

Post = Callable[[Noted | Crashed], None]


class ForkServerSettings(NamedTuple):
    """The settings with which a run starts its fork servers."""

    launch: Launch | None = None  # how to start a fork server; None if the run has none
    running_server: StartedServer | None = None  # the run's first fork server if it was forked from a warm server


class WarmStarter:
    """Manages a run's fork servers, of which only one is alive at any time.

    `on_change` is called, in any thread, when a server becomes ready or is lost. The thread that starts tasks then has
    to call `replace_lost`.
    """

    def __init__(self, settings: ForkServerSettings, post: Post, on_change: Callable[[], None]) -> None:
        self._launch, inherited = settings
        self._post = post
        self._on_change = on_change
        self._server: ForkServer | None = None
        self._is_first = True
        if inherited is not None:
            self._server = ForkServer(inherited, self._report)
        else:
            self._start_server(TRIES)

    def has_to_wait(self, plan: TaskPlan, env: Mapping[str, str]) -> bool:
        """Return whether the attempt should wait until the fork server is ready.

        Attempts wait only for the run's first server, and for the first server after `replace_outdated`, but not for a
        server that replaces a lost server.
        """
        server = self._server
        waits = self._is_first and server is not None and not server.ready and not server.is_gone
        return waits and self._difference(plan, env) is None

    def server_for(self, plan: TaskPlan, env: Mapping[str, str]) -> tuple[ForkServer | None, str | None]:
        """Return (server, reason). `server` can fork the attempt now; if it is None, the attempt has to start cold.

        If a live server will never be able to fork the attempt, `reason` says why; in all other cases, `reason` is
        None. Raises FileNotFoundError if the attempt would run in the current directory and that directory has been
        deleted.
        """
        server = self._server
        if server is None or server.is_gone:
            return None, None
        why_cold = self._difference(plan, env) or self._shadows(plan)
        return (server if server.ready and not why_cold else None), why_cold

    def replace_lost(self) -> None:
        """If the server is lost, reap it and start another one, unless too many servers in a row have failed."""
        server = self._server
        if server is None or not server.is_gone:
            return
        self._is_first = False
        server.stop()
        self._server = None
        if server.tries > 0:
            self._start_server(server.tries)

    def replace_outdated(self, job: JobSpec, paths: RunPaths, files: Sequence[str]) -> None:
        """Replace the fork server if it has imported one of the changed `files`, or if it no longer suits the job.

        Must be called while no task of the program runs. Attempts then wait for the new server.
        """
        from clusterkit.check.imports import program_of  # imported here, since few runs watch their program

        changed = [program_of(job)[1] / name for name in files]
        for file in changed:
            _remove_bytecode(file)
        old, server, launch = self._launch, self._server, launch_for(job, paths)
        if isinstance(launch, str):
            if old is not None:
                self._post(Noted(f"Tasks start cold: {launch}."))
            launch = None
        why = _why_outdated(old, launch) or (server is not None and _why_imported(server, changed, old))
        if not why:
            return
        self._launch, self._server, self._is_first = launch, None, True
        if server is not None:
            server.retire(str(why))
        self._start_server(TRIES)

    def stop(self) -> None:
        if self._server is not None:
            self._server.stop()
            self._server = None

    def _start_server(self, tries: int) -> None:
        if self._launch is None:
            return
        try:
            self._server = ForkServer(begin(self._launch), self._report, tries)
        except OSError as error:
            self._report(lost_event(f"it could not start: {error.strerror}", again=False))

    def _report(self, event: Noted | Crashed) -> None:
        self._post(event)
        if isinstance(event, Noted):
            self._on_change()

    def _difference(self, plan: TaskPlan, env: Mapping[str, str]) -> str | None:
        assert self._launch is not None
        if plan.kind is ProgramKind.COMMAND:
            return None
        if plan.python != self._launch.python:
            return f"it runs with another interpreter, {plan.python}"
        if names := differing_variables(self._launch.env, env):
            differs, is_read = ("differs", "is") if len(names) == 1 else ("differ", "are")
            return f"its {', '.join(names)} {differs} from the fork server's, and {is_read} read at import"
        return None

    def _shadows(self, plan: TaskPlan) -> str | None:
        """Return a clause if modules in the program's directory would hide modules that the server has imported."""
        assert self._server is not None
        # Commands and the built-in server import no modules from the directory.
        if plan.kind is ProgramKind.COMMAND or plan.target == BUILTIN_SERVER:
            return None
        cwd = _directory(plan)
        directory = cwd if plan.kind is ProgramKind.MODULE else Path(os.path.realpath(cwd / plan.target)).parent
        names = shadowed(self._server.modules, str(directory), _modules_in(directory))
        return f"{directory} has modules with the names of preloaded ones: {', '.join(names)}" if names else None


def _directory(plan: TaskPlan) -> Path:
    try:
        return Path(plan.cwd or ".").absolute()
    except FileNotFoundError as error:
        raise FileNotFoundError(error.errno, error.strerror, os.readlink("/proc/self/cwd")) from None


def _why_outdated(old: Launch | None, new: Launch | None) -> str:
    """Return why a server that was launched with `old` can't fork the tasks for `new`; "" if it can."""
    if old is None or new is None:
        return "" if old is new else "the changed program starts in another way"
    same = (old.python, old.preload, old.own_variables) == (new.python, new.preload, new.own_variables)
    return "" if same else "the changed program sets or imports something else first"


def _why_imported(server: ForkServer, changed: Sequence[Path], launch: Launch | None) -> str:
    """Return a clause if the server has imported, or may have imported, a changed file; otherwise ""."""
    if not server.ready and launch is not None and launch.preload.modules:
        return "what it preloads may have changed"
    for file in changed:
        for name, place in server.modules.items():
            if place and (file == Path(place, f"{name}.py") or file.is_relative_to(Path(place, name))):
                return f"{file.name} has changed, which it had imported"
    return ""


def _remove_bytecode(file: Path) -> None:
    """Remove a module's bytecode, which Python would still use if the source's size and mtime (in s) are unchanged."""
    for cached in glob.glob(f"{glob.escape(file.stem)}.*.pyc", root_dir=file.parent / "__pycache__"):
        with suppress(OSError):
            (file.parent / "__pycache__" / cached).unlink()


def _modules_in(directory: Path) -> list[str]:
    """Return the names of the modules in a directory, except namespace packages, which can't hide other modules."""
    try:
        with os.scandir(directory) as entries:
            return [
                entry.name.removesuffix(".py")
                for entry in entries
                if entry.name.endswith(".py") or Path(entry.path, "__init__.py").is_file()
            ]
    except OSError:
        return []
