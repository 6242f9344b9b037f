"""What the process tests and the e2e tests share: a `clusterkit` command that runs beside the test."""

from __future__ import annotations

import importlib
import importlib.util
import json
import os
import re
import resource
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import Any

from clusterkit.system import procfs
from tests.environment import ROOT as ROOT
from tests.environment import clean_environment

CHILDREN = Path(__file__).parent / "children"
WORKLOADS = ROOT / "workloads"


class Lazily:
    """A module that is imported when it is first used: each of pytest's workers collects all files, and runs a few."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, attribute: str) -> Any:
        if attribute.startswith(("_", "pytest")):  # pytest asks every object of a file whether it is a test
            raise AttributeError(attribute)
        return getattr(importlib.import_module(self._name), attribute)


def load(name: str) -> ModuleType:
    """A file of clusterkit, such as `task/patches/hook`, as the `load` of entry.py returns it."""
    return importlib.import_module(f"clusterkit.{name.replace('/', '.')}")


def module_at(path: Path) -> ModuleType:
    """A file that is in no package, as a module."""
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def checkpoint_number(path: str) -> int:
    """The number in a checkpoint's name, `…/ckpt-250`."""
    return int(re.findall(r"ckpt-(\d+)", path)[-1])


def wait_until(
    condition: Callable[[], Any], deadline: float, what: str | Callable[[], str], pause: float = 0.01
) -> Any:
    """Return the first true value of `condition`, looked at every `pause` seconds; fail after `deadline` seconds.

    `what` says what was waited for; a function where that is dear to say.
    """
    until = time.monotonic() + deadline
    never = threading.Event()
    while True:
        is_over = time.monotonic() > until  # before the look: whoever was held for so long looks once more
        if value := condition():
            return value
        if is_over:
            raise AssertionError(f"not within {deadline:g} s: {what if isinstance(what, str) else what()}")
        never.wait(pause)


@contextmanager
def no_descriptors() -> Iterator[None]:
    """In the block this process can open nothing more, as where it has used up what `ulimit -n` allows."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    lowest = os.dup(0)  # the kernel gives the lowest one that is free, and none from the limit on
    os.close(lowest)
    resource.setrlimit(resource.RLIMIT_NOFILE, (lowest, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


@dataclass
class Command:
    """A `clusterkit` command in its own session, its output collected in a file."""

    home: Path
    args: tuple[str, ...]
    env: dict[str, str] = field(default_factory=dict)
    cwd: Path | None = None

    def __post_init__(self) -> None:
        self.home.mkdir(parents=True, exist_ok=True)
        self.output_file = self.home / f"output-{len(list(self.home.glob('output-*')))}.txt"
        with self.output_file.open("wb") as out:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "clusterkit", *self.args],
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=subprocess.STDOUT,
                cwd=self.cwd or ROOT,
                env={**clean_environment(self.home), **self.env},
                start_new_session=True,
            )

    @property
    def output(self) -> str:
        """What the command has printed so far, on both streams."""
        return self.output_file.read_text(errors="replace")

    def wait(self, deadline: float) -> int:
        """The exit code; the test fails where it does not come in time."""
        try:
            return self.process.wait(deadline)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"still running after {deadline:g} s; it printed:\n{self.output[-4000:]}") from None

    def signal(self, number: int) -> None:
        """Signal the command's first process, which is the guardian."""
        self.process.send_signal(number)

    def end(self) -> None:
        """Kill it, if it still runs."""
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait(10)


class Up(Command):
    """A running `clusterkit up`, and what its run directory tells."""

    @property
    def run(self) -> Path:
        """The run's directory, once it is there."""

        def found() -> Path | None:
            runs = self.home / "runs"
            present = sorted(runs.iterdir()) if runs.is_dir() else []
            mine = [run for run in present if self._is_mine(run)]
            return mine[-1] if mine else None

        run: Path = wait_until(found, 20, lambda: f"a run directory; the command printed {self.output!r}")
        return run

    @property
    def job(self) -> dict[str, Any]:
        """job.json."""
        loaded: dict[str, Any] = json.loads((self.run / "job.json").read_text())
        return loaded

    @property
    def result(self) -> dict[str, Any]:
        """result.json."""
        loaded: dict[str, Any] = json.loads((self.run / "result.json").read_text())
        return loaded

    @property
    def supervisor(self) -> int:
        """The supervisor's pid."""
        pid: int = self.job["pid"]
        return pid

    def events(self, kind: str | None = None, **fields: Any) -> list[dict[str, Any]]:
        """The journal so far: events of a kind with the given fields."""
        found = list(self._journal())
        if kind is not None:
            found = [{**event, **more(event)} for event in found if event["event"] == kind]
        return [event for event in found if all(event.get(key) == value for key, value in fields.items())]

    def wait_for(self, kind: str, deadline: float = 60, count: int = 1, **fields: Any) -> dict[str, Any]:
        """The count-th event of that kind; the test fails where the run ends without it."""

        def found() -> dict[str, Any] | None:
            over = self.process.poll() is not None
            events = self.events(kind, **fields)
            if len(events) < count and over:
                raise AssertionError(f"the run ended without {kind} {fields}; it printed:\n{self.output[-4000:]}")
            return events[count - 1] if len(events) >= count else None

        event: dict[str, Any] = wait_until(
            found, deadline, lambda: f"{kind} {fields}; it printed:\n{self.output[-4000:]}"
        )
        return event

    def wait_for_step(self, step: int, deadline: float = 60, task: str | None = None, after: float = 0.0) -> None:
        """Wait until the journal has a progress report of at least that step, later than `after` (journal's m)."""

        def found() -> bool:
            over = self.process.poll() is not None
            reached = any(
                e["step"] >= step and e["m"] > after and task in (None, e["task"]) for e in self.events("Progressed")
            )
            if over and not reached:
                raise AssertionError(f"the run ended before step {step}; it printed:\n{self.output[-4000:]}")
            return reached

        wait_until(found, deadline, lambda: f"step {step}; it printed:\n{self.output[-4000:]}")

    def pids(self) -> dict[str, list[int]]:
        """Task to the pids of its attempts, in order."""
        pids: dict[str, list[int]] = {}
        for event in self.events("Spawned"):
            pids.setdefault(event["task"], []).append(event["pid"])
        return pids

    def kill(self, task: str, number: int = signal.SIGKILL) -> int:
        """Signal a task's newest attempt, where that has ended the next one; return its pid."""

        def live() -> int | None:
            newest = self.events("Spawned", task=task)[-1:]
            return next((e["pid"] for e in newest if not self.events("Exited", task=task, attempt=e["attempt"])), None)

        pid: int = wait_until(live, 20, f"a live attempt of {task}")
        os.kill(pid, number)
        return pid

    def fork_server(self, count: int = 1) -> int:
        """The pid of the count-th fork server that was ready."""
        return int(self.wait_for("Noted", count=count, server="ready")["pid"])

    def ports(self) -> set[int]:
        """The ports of the run."""
        return {int(endpoint.rpartition(":")[2]) for endpoint in self.job["endpoints"].values()}

    def log(self, task: str, attempt: int = 1) -> bytes:
        """What an attempt wrote."""
        return (self.run / "tasks" / task / f"attempt-{attempt}.log").read_bytes()

    def _is_mine(self, run: Path) -> bool:
        # One home, one command at a time in nearly every test; where there are more, they name their runs.
        named = [self.args[i + 1] for i, arg in enumerate(self.args) if arg == "--run-id"]
        return (run / "job.json").exists() and run.name in (named or [run.name])

    def _journal(self) -> Iterator[dict[str, Any]]:
        file = self.run / "journal.jsonl"
        for line in file.read_bytes().split(b"\n")[:-1] if file.exists() else ():
            yield json.loads(line)


def more(event: dict[str, Any]) -> dict[str, Any]:
    """What the words of an event say: an attempt's pid, or what became of a fork server."""
    match event["event"]:
        case "Spawned":
            return {"pid": int(event["where"].rpartition("pid ")[2])}  # of its host, on several
        case "Noted":
            return server_news(event["text"])
    return {}


def server_news(text: str) -> dict[str, Any]:
    """That a fork server is `ready`, and its pid; that it is `lost`, why, and whether there is another; or `cold`."""
    if ready := re.fullmatch(r"The fork server is ready after [\d.]+ s \(pid (?P<pid>\d+)\)\.", text):
        return {"server": "ready", **ready.groupdict()}
    if lost := re.fullmatch(r"The fork server is gone \((?P<why>.*)\); (?P<then>.*)\.", text):
        return {"server": "lost", "why": lost["why"], "again": lost["then"].startswith("another one starts")}
    return {"server": "cold"} if " starts cold: " in text else {}


def processes_of(home: Path) -> dict[int, str]:
    """Live processes of any run below a home: their pids and commands."""
    found = {}
    for pid in procfs.all_pids():
        env = procfs.environ(pid)
        ours = env.get("CLUSTERKIT_HOME") == str(home) or env.get("CLUSTERKIT_RUN_DIR", "").startswith(str(home))
        if ours and pid != os.getpid() and not procfs.is_zombie(pid):
            with suppress(OSError):
                found[pid] = Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
    return found


def fork_server_of(home: Path) -> int | None:
    """The live fork server of the runs below a home, ready or not; None where there is none.

    For a moment a fork still looks like the server, which is older.
    """
    found = [pid for pid in processes_of(home) if procfs.environ(pid).get("CLUSTERKIT_TASK") == "fork-server"]
    return min(found, default=None)


def is_fork_of(pid: int, server: int) -> bool:
    """Whether a process is a fork of another: the kernel puts what it maps elsewhere for each new program."""
    places = [_place_of(one, "[vdso]") for one in (pid, server)]
    return None not in places and places[0] == places[1]


def _place_of(pid: int, name: str) -> str | None:
    lines = Path(f"/proc/{pid}/maps").read_text().splitlines()
    return next((line.partition(" ")[0] for line in lines if line.endswith(name)), None)
