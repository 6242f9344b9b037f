"""The driver of the battery: a small supervisor, which starts each program plainly, cold and warm.

    python -m tests.warm.parity

A request is a line of JSON, so is each answer. It is a process of its own because it has to be a subreaper, and because
the parent of all three has to be the same.
"""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

from clusterkit.backends.local.family import spawn
from clusterkit.job.plan import Start, TaskPlan
from clusterkit.system import procfs
from clusterkit.system.process import become_subreaper
from clusterkit.task.entry import STACKS_SIGNAL
from clusterkit.warm.fork_client import ForkServer, Launch, begin
from clusterkit.warm.servable import Preload
from clusterkit.words.events import Crashed, Noted
from clusterkit.words.model import ProgramKind, Task, TaskType

Starter = Callable[[Start], int]


class Servers:
    """Fork servers: one for each set of options, started when it is first needed."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._servers: dict[str, ForkServer] = {}
        self.pids: set[int] = set()

    def get(self, env: Mapping[str, str], tensorflow: bool, path: str, modules: tuple[str, ...]) -> ForkServer:
        """Return a ready server."""
        key = json.dumps([sorted(env.items()), tensorflow, modules])
        if key not in self._servers:
            self._servers[key] = self._begin(env, Preload(tensorflow, modules, path))
        return self._servers[key]

    def stop(self) -> None:
        """End all servers."""
        for server in self._servers.values():
            server.stop()

    def _begin(self, env: Mapping[str, str], preload: Preload) -> ForkServer:
        told, tell = os.pipe()
        lost: list[str] = []

        def post(event: Noted | Crashed) -> None:
            if not (isinstance(event, Noted) and event.minor):
                lost.append(str(event))
            with suppress(OSError):
                os.write(tell, b".")

        log = str(self._directory / f"server-{len(self._servers)}.log")
        env = {**env, "ONLY_THE_SERVER": "has this", "DIFFERENT": "in the server", "TZ": "Asia/Tokyo"}
        begun = begin(Launch(sys.executable, env, preload, log))
        self.pids.add(begun.pid)
        server = ForkServer(begun, post, 1)
        if not os.read(told, 1) or lost:
            raise SystemExit(f"no fork server: {lost}; it wrote {Path(log).read_text()!r}")
        os.close(told)
        return server


def plainly(start: Start) -> int:
    """Start a program as a user does."""
    process = subprocess.Popen(
        start.plan.command, stdin=subprocess.DEVNULL, stdout=start.output, stderr=start.output, cwd=start.plan.cwd,
        env=start.env, start_new_session=True,
    )  # fmt: skip
    process.returncode = 0  # waited for here
    return process.pid


def coldly(start: Start) -> int:
    """Start a program as the supervisor does without a fork server."""
    process = spawn(start)
    process.returncode = 0
    return process.pid


def perform(starter: Starter, plan: TaskPlan, request: Mapping[str, Any]) -> dict[str, Any]:
    """Start a program once; return how it ended and what it wrote."""
    read, write = os.pipe()
    # A number that no program uses, so that one that looks at its descriptors sees no more than in a plain start.
    stacks = os.memfd_create("stacks")
    if request["deaf"]:
        os.close(read)
    try:
        pid = starter(Start(plan, request["env"], write, stacks))
    finally:
        os.close(write)
    until = time.monotonic() + request["deadline"]
    pidfd = os.pidfd_open(pid)
    if request["dump"]:
        dump_stacks(pid, until)
    output, late = (b"", False) if request["deaf"] else drain(read, until)
    late = not select.select([pidfd], [], [], max(0.0, until - time.monotonic()))[0] or late
    if late:
        os.killpg(pid, signal.SIGKILL)
    _, status = os.waitpid(pid, 0)
    written = os.pread(stacks, 1 << 20, 0)
    for descriptor in (pidfd, stacks):
        os.close(descriptor)
    code = os.waitstatus_to_exitcode(status)
    return {"code": code, "output": output.decode("latin-1"), "stacks": written.decode("latin-1"), "late": late}


def drain(read: int, until: float) -> tuple[bytes, bool]:
    """Read until the end of file; return the data, and whether the end did not come in time."""
    parts: list[bytes] = []
    try:
        while select.select([read], [], [], max(0.0, until - time.monotonic()))[0]:
            if not (part := os.read(read, 1 << 16)):
                return b"".join(parts), False
            parts.append(part)
        return b"".join(parts), True
    finally:
        os.close(read)


def dump_stacks(pid: int, until: float) -> None:
    """Ask for a stack dump as soon as the program handles SIGTERM, then send that.

    A program has to wait in short sleeps: a signal just before a long one is dealt with after it.
    """
    while time.monotonic() < until:
        if procfs.has_handler(pid, signal.SIGTERM) and procfs.has_handler(pid, STACKS_SIGNAL):
            os.kill(pid, STACKS_SIGNAL)
            os.kill(pid, signal.SIGTERM)
            return
        time.sleep(0.005)


def left_over(servers: set[int], until: float) -> list[str]:
    """Kill and return the processes that the program left; those that end by themselves soon do not count."""
    while time.monotonic() < until:
        with suppress(ChildProcessError):
            for pid in set(procfs.children(os.getpid())) - servers:
                os.waitpid(pid, os.WNOHANG)
        left = [pid for pid in procfs.descendants(os.getpid()) if pid not in servers]
        if not left:
            return []
        time.sleep(0.005)
    for pid in left:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    return [str(pid) for pid in left]


def answer(servers: Servers, request: dict[str, Any]) -> dict[str, Any]:
    """Run a program in each of the requested ways."""
    task = Task(TaskType.WORKER, 0)
    kind, args = ProgramKind(request["how"]), tuple(request["args"])
    plan = TaskPlan(task, kind, sys.executable, request["target"], args, request["cwd"], {})
    told: dict[str, Any] = {}
    for way in request["ways"]:
        if way.startswith("warm"):
            server = servers.get(
                request["server_env"], request["tensorflow"], request["path"], tuple(request["modules"])
            )
            starter: Starter = partial(forked, server)
        else:
            starter = {"plain": plainly, "cold": coldly}[way]
        told[way] = perform(starter, plan, request)
        told[way]["left"] = left_over(servers.pids, time.monotonic() + 5)
    return told


def forked(server: ForkServer, start: Start) -> int:
    """Fork a task as a run does."""
    return server.finish_fork(server.request_fork(start))


def main() -> None:
    """Answer requests until the input ends."""
    become_subreaper()
    servers = Servers(Path(sys.argv[1]))
    try:
        for line in sys.stdin:
            print(json.dumps(answer(servers, json.loads(line))), flush=True)
    finally:
        servers.stop()


if __name__ == "__main__":
    main()
