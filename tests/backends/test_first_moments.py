"""A signal in the first milliseconds of a task acts as on a program that was started plainly: none is lost."""

from __future__ import annotations

import os
import queue
import random
import select
import signal
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from clusterkit.backends.local.family import ProcessFamily
from clusterkit.job.plan import Start, TaskPlan
from clusterkit.system.process import AttemptChild, exit_of, reap, signal_group
from clusterkit.warm.fork_client import ForkServer, Launch, begin
from clusterkit.warm.servable import Preload
from clusterkit.words.model import ProgramKind, Task, TaskType
from clusterkit.words.outcome import Exit

pytestmark = [pytest.mark.process, pytest.mark.slow, pytest.mark.timeout(60), pytest.mark.usefixtures("subreaper")]

STARTS = 63  # of each of the four ways, from each of the two callers
GONE_WITHIN = 20.0  # seconds; one whose signal was lost runs for a minute or longer
ENDING = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGUSR1, signal.SIGALRM)
IGNORED = (signal.SIGINT, signal.SIGHUP, signal.SIGUSR1)
# Python notices a signal that comes just before it sleeps only when it wakes.
WAITS = "import time\nwhile True:\n    time.sleep(0.01)\n"
OURS = ("entry.py", "fork_server.py", "clusterkit")


class Starter:
    """Starts attempts as a run does, from a fork server or without, and tells how each one ended."""

    def __init__(self, place: Path, kind: ProgramKind, warm: bool) -> None:
        (place / "program.py").write_text(WAITS)
        target, *args = ["program.py"] if kind is ProgramKind.SCRIPT else ["sleep", "60"]
        self.plan = TaskPlan(Task(TaskType.WORKER, 0), kind, sys.executable, target, tuple(args), str(place), {})
        self.env = {**os.environ, "PYTHONUNBUFFERED": "1"}
        self.log = place / "task.log"
        self.family = ProcessFamily("run-1")
        self.server = self._server(place) if warm else None

    def start(self) -> AttemptChild:
        """An attempt; `Spawned` is posted when this has returned."""
        with self.log.open("wb") as output, self.log.with_name("stacks").open("ab") as stacks:
            start = Start(self.plan, self.env, output.fileno(), stacks.fileno())
            return self.family.finish(self.family.begin(start, self.server))

    def ended(self, child: AttemptChild) -> Exit | None:
        """How the attempt has ended, reaped; None where it has not, and is killed."""
        gone = select.select([child.pidfd], [], [], GONE_WITHIN)[0]
        if not gone:
            os.kill(child.pid, signal.SIGKILL)
            select.select([child.pidfd], [], [])
        how = exit_of(child)
        del self.family._leaders[child.pid]
        reap(child)
        return how if gone else None

    def stop(self) -> None:
        """End the server."""
        if self.server is not None:
            self.server.stop()

    def _server(self, place: Path) -> ForkServer:
        posted = queue.SimpleQueue[Any]()
        launch = Launch(sys.executable, self.env, Preload(tensorflow=False), str(place / "server.log"))
        server = ForkServer(begin(launch), posted.put, 1)
        assert "is ready" in str(posted.get(timeout=20))
        return server


@pytest.fixture(params=["in the foreground", "by nohup and worse"])
def caller(request: pytest.FixtureRequest) -> Iterator[None]:
    """Who started clusterkit: nobody who minds signals, or somebody who ignores some of them and blocks another."""
    if request.param == "in the foreground":
        yield
        return
    before = {number: signal.signal(number, signal.SIG_IGN) for number in IGNORED}
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM])
    yield
    signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGTERM])
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.fixture
def starter(request: pytest.FixtureRequest, caller: None, tmp_path: Path) -> Iterator[Starter]:
    """One of the four ways."""
    made = Starter(tmp_path, *request.param)
    yield made
    made.stop()


WAYS = {
    "warm program": (ProgramKind.SCRIPT, True),
    "cold program": (ProgramKind.SCRIPT, False),
    "warm command": (ProgramKind.COMMAND, True),
    "cold command": (ProgramKind.COMMAND, False),
}
each_way = pytest.mark.parametrize("starter", WAYS.values(), ids=WAYS.keys(), indirect=True)


def end(starter: Starter, number: signal.Signals, later: float, paused: bool) -> None:
    """Start an attempt, signal it so many seconds later, and see that it dies of that, without a word of ours."""
    child = starter.start()
    time.sleep(later)  # the moment is the test's subject
    for each in (signal.SIGSTOP, number, signal.SIGCONT) if paused else (number,):
        signal_group(child, each)
    how, said = starter.ended(child), starter.log.read_text()
    told = f"{number.name} after {later * 1000:.2f} ms{', paused' * paused}: {how}; {said}"
    assert how == Exit(signal=number), told
    assert not [name for name in OURS if name in said], told


@each_way
def test_a_signal_in_the_first_milliseconds_ends_the_task(starter: Starter) -> None:
    """At once and by that signal, with nothing of clusterkit's in its log."""
    seed = random.randrange(1 << 32)
    print(f"seed {seed}")
    rng = random.Random(seed)
    # Python ignores SIGPIPE; an interpreter that starts throws away one that came before, also where it is blocked.
    keeps_pipe = starter.plan.kind is ProgramKind.COMMAND and starter.server is not None
    for _ in range(STARTS):
        number = rng.choice([*ENDING, signal.SIGPIPE] if keeps_pipe else ENDING)
        end(starter, number, rng.choice((0.0, rng.uniform(0.0, 0.005))), rng.random() < 0.2)


@each_way
def test_a_signal_while_an_interpreter_starts_ends_the_task(starter: Starter) -> None:
    """Later than that, too, where the entry gives way to the program."""
    for moment in range(25):
        end(starter, signal.SIGINT, moment * 0.002, False)
