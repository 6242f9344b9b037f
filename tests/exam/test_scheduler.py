"""How many experiments run at a time, in which order, and what has the machine to itself."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager

import pytest

from clusterkit.exam.breaking import Interruption
from clusterkit.exam.model import Cell, Chapter
from clusterkit.exam.plan import Experiment, Reading, StopAndResume
from clusterkit.exam.runs import ExaminedRun
from clusterkit.exam.scheduler import Runs, Scheduler
from clusterkit.store.directory import RunDirectory
from clusterkit.words.model import Task, TaskType

DEADLINE = 20.0  # seconds


def named(name: str) -> Experiment:
    """An experiment that needs no other's run."""
    return Experiment((Cell(Chapter.SURVIVAL, name),), Reading())


def stopping(name: str) -> Experiment:
    """One that continues a run which is stopped after step 7."""
    return Experiment((Cell(Chapter.RESUME, name),), StopAndResume(Interruption(Task(TaskType.WORKER, 0), 7)))


class Bench:
    """Runs experiments that end when they are told to."""

    def __init__(self, slots: int, until: float = float("inf")) -> None:
        self.changed = threading.Condition()
        self.running: list[str] = []
        self.begun: list[str] = []
        self.most = 0
        self.told: set[str] = set()
        self.scheduler = Scheduler(self.execute, slots, until, self.end_all)

    def execute(self, one: Experiment) -> Runs:
        """Run until `end` names the experiment."""
        name = one.cells[0].name
        with self.changed:
            self.running.append(name)
            self.begun.append(name)
            self.most = max(self.most, len(self.running))
            self.changed.notify_all()
            assert self.changed.wait_for(lambda: {name, "all"} & self.told, DEADLINE)
            self.running.remove(name)
            self.changed.notify_all()
        if name == "broken":
            raise RuntimeError("the disk is full")
        return ()

    def end(self, *names: str) -> None:
        """Let these experiments end."""
        with self.changed:
            self.told.update(names)
            self.changed.notify_all()

    def end_all(self) -> None:
        """As the end of all live runs does."""
        self.end("all")

    def wait_for(self, *names: str) -> None:
        """Wait until these experiments run."""
        with self.changed:
            assert self.changed.wait_for(lambda: set(self.running) == set(names), DEADLINE), self.running


@contextmanager
def followed(bench: Bench, *experiments: Experiment) -> Iterator[list[tuple[str, bool]]]:
    """Read what the scheduler yields in a thread; the name of each experiment, and whether it was alone."""
    seen = list[tuple[str, bool]]()

    def read() -> None:
        with closing(bench.scheduler.run(experiments)) as ended:
            seen.extend((done.experiment.cells[0].name, done.was_alone) for done in ended)

    reader = threading.Thread(target=read)
    reader.start()
    try:
        yield seen
    finally:
        bench.end_all()
        reader.join(DEADLINE)
        assert not reader.is_alive()


def test_so_many_run_at_a_time_and_the_next_begins_when_one_has_ended() -> None:
    """In order, whichever ends first."""
    bench = Bench(2)
    with followed(bench, *map(named, "abcd")) as seen:
        bench.wait_for("a", "b")
        bench.end("b")
        bench.wait_for("a", "c")
        bench.end("a", "c")
        bench.wait_for("d")
        bench.end("d")
    assert bench.begun == ["a", "b", "c", "d"]
    assert bench.most == 2
    assert seen[0] == ("b", False)
    assert {("a", False), ("c", False)} < set(seen)


def test_one_at_a_time_is_always_alone() -> None:
    """Its failure needs no confirmation."""
    bench = Bench(1)
    bench.end_all()
    with followed(bench, *map(named, "abc")) as seen:
        pass
    assert seen == [("a", True), ("b", True), ("c", True)]


def test_what_needs_a_run_that_another_makes_begins_after_it() -> None:
    """Others begin meanwhile, so that no thread only waits."""
    bench = Bench(2)
    with followed(bench, stopping("same"), stopping("fewer"), named("a")):
        bench.wait_for("same", "a")
        bench.end("same")
        bench.wait_for("fewer", "a")


def test_nothing_begins_when_the_time_is_up() -> None:
    """What had not begun is yielded without runs."""
    scheduler = Scheduler(lambda one: (), 2, time.monotonic() - 1, lambda: None)
    assert [done.runs for done in scheduler.run([named("a"), named("b")])] == [None, None]


def test_a_run_that_needs_the_machine_to_itself_waits_for_the_others() -> None:
    """And none begins before it has ended."""
    bench, seen = Bench(2), list[object]()
    with closing(bench.scheduler.run([*map(named, "abc")])) as ended:
        bench.end("a")
        assert next(ended).experiment == named("a")

        def alone() -> Runs:
            seen.append((list(bench.running), list(bench.begun)))
            return ()

        threading.Timer(0.05, bench.end, ["b"]).start()
        assert bench.scheduler.alone(alone) == ()
        assert seen == [([], ["a", "b"])]
        bench.end_all()
        assert {done.experiment.cells[0].name for done in ended} == {"b", "c"}


def test_fewer_at_a_time_from_now_on() -> None:
    """As after runs that disturbed each other."""
    bench = Bench(2)
    with followed(bench, *map(named, "abcd")) as seen:
        bench.wait_for("a", "b")
        bench.scheduler.slots = 1
        bench.end("a")
        bench.wait_for("b")
        bench.end("b")
        bench.wait_for("c")
    assert dict(seen)["d"] is True


def test_an_error_ends_what_is_live() -> None:
    """And reaches the caller."""
    bench = Bench(2)
    bench.end("broken")
    with pytest.raises(RuntimeError, match="disk"):
        list(bench.scheduler.run([named("a"), named("broken"), named("c")]))
    assert bench.told >= {"all"}
    assert bench.running == []


def test_a_caller_that_gives_up_ends_what_is_live() -> None:
    """As after Ctrl-C."""
    bench = Bench(2)
    bench.end("a")
    running = bench.scheduler.run([named("a"), named("b")])
    next(running)
    running.close()
    assert bench.running == []


def test_a_run_is_a_run() -> None:
    """What an experiment returns is what is yielded."""
    run = ExaminedRun(RunDirectory.__new__(RunDirectory), None, [], [])
    (done,) = Scheduler(lambda one: (run,), 1, float("inf"), lambda: None).run([named("a")])
    assert done.runs == (run,)
    assert done.was_alone
