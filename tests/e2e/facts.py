"""A laboratory for TensorFlow's own behaviour: jobs that clusterkit starts, breaks, and then leaves alone."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil

from clusterkit import Cluster
from clusterkit.words.events import Failed, FaultTook, Verb
from clusterkit.words.outcome import Exit
from tests.support import CHILDREN, processes_of, wait_until

PATIENCE = 120.0
LAST_LINES = 6  # of a task's log, in the message of a test that waited in vain

PS_JOB = {"program": CHILDREN / "facts_ps.py", "workers": 2, "ps": 1}
GANG = {"program": CHILDREN / "facts_gang.py", "workers": 2, "args": [1000]}
ENDING = {**PS_JOB, "program": CHILDREN / "facts_end.py"}
# All-reduces of one number: worker:1 fetches it from worker:0, which has nothing to fetch, and waits to be asked.
SENDER = {**GANG, "args": [1]}
# On a virtual network, where packets can get lost. With a third worker there are two sides: one, and the others.
CUT_PS_JOB = {**PS_JOB, "network": "virtual"}
CUT_GANG = {**GANG, "workers": 3, "network": "virtual"}
# What TensorFlow writes of a task that fails or does not answer. Logs have more in them, which comes and goes with the
# version and the moment: facts are not about that.
COMPLAINTS = ("failed with", "unavailable", "deadline", "unhealthy", "heartbeat", "connection", "traceback", "died")
# What failed stays down, and its peers are not ended for it; nor is anybody for the training that stands still. Steps
# would let it restart at once, so none are seen.
ALONE = {
    "restart_scope": "task", "restart_backoff": "1h", "restart_backoff_max": "1h", "stall_warning": 0,
    "progress_regex": r"never step (\d+)",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Round:
    """Steps that a task said were done: when, up to which one, and by which workers where it can tell."""

    task: str
    at: float
    step: int
    by: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class End:
    """How a task ended by itself: how many seconds after the disturbance, with which exception, what it had written."""

    after: float
    exit: Exit
    exception: str
    log: str


@dataclass(slots=True)
class Seen:
    """What came of a disturbance."""

    since: float
    rounds: list[Round] = field(default_factory=list)  # of each task after the one that was under way when it began
    said: dict[str, str] = field(default_factory=dict)  # what tasks wrote meanwhile, apart from rounds
    ends: dict[str, End] = field(default_factory=dict)  # the tasks that ended by themselves
    alive: set[str] = field(default_factory=set)  # the tasks that were there at its end
    lasted: float = 0.0
    next: Round | None = None  # the first round after its end

    @property
    def complaints(self) -> dict[str, list[str]]:
        """What tasks wrote of one that fails or does not answer."""
        lines = {task: [line for line in text.splitlines() if is_complaint(line)] for task, text in self.said.items()}
        return {task: found for task, found in lines.items() if found}


@dataclass(frozen=True, slots=True)
class Slow:
    """What was seen of disturbances that take their time, by the task that was disturbed."""

    ps_job: dict[str, Seen]
    gang_briefly: dict[str, Seen]
    gang: dict[str, Seen]  # until its peer ended
    gang_thawed: dict[str, Seen]
    sender: Seen


@dataclass(frozen=True, slots=True)
class Cuts:
    """What was seen of tasks that were cut off from the rest, by the task."""

    ps_job: dict[str, Seen]
    gang_briefly: dict[str, Seen]
    gang: dict[str, Seen]  # until all had ended


class Lab:
    """A job that trains until it is broken."""

    def __init__(self, cluster: Cluster, took_part: int) -> None:
        self.cluster = cluster
        self._written: dict[str, int] = {}  # by each task before the newest disturbance
        self._ended: set[str] = set()  # by then
        self.first_round(took_part)

    def freeze(self, task: str) -> Seen:
        """Stop a task."""
        return self._begin(self.cluster.tasks[task].pause)

    def thaw(self, task: str) -> Seen:
        """Let it go on."""
        return self._begin(self.cluster.tasks[task].unpause)

    def kill(self, task: str) -> Seen:
        """Kill a task with SIGKILL."""
        return self._begin(self.cluster.tasks[task].kill)

    def cut(self, task: str) -> Seen:
        """Lose every packet between a task and the rest."""
        return self._begin(lambda: self._inject(f"partition {task}"))

    def heal(self) -> Seen:
        """Lose no more packets."""
        return self._begin(self.cluster.heal)

    def reset(self, task: str, noticed: Callable[[], object]) -> Seen:
        """Reset every connection between a task and the rest, once a second until it hits one that is in use."""
        seen = self._begin(lambda: self.cluster.fault(f"reset {task}"))
        last = seen.since

        def again() -> bool:
            nonlocal last
            if noticed():
                return True
            if time.monotonic() > last + 1:  # sooner it would hit the connections that are being made again
                last = time.monotonic()
                self.cluster.fault(f"reset {task}")
            return False

        wait_until(again, PATIENCE, lambda: f"a reset that is noticed; {self._standing()}")
        return seen

    def ended(self) -> set[str]:
        """The tasks that have ended by themselves, or were killed here."""
        return set(self._failed())

    def stacks(self, task: str) -> str:
        """Where the task's threads are now."""
        handle = self.cluster.tasks[task]
        path = self.cluster.directory / "stacks" / f"{task}.attempt-1.txt"
        self.cluster.ask(Verb.STACKS, handle.task)
        wait_until(lambda: path.is_file() and path.read_text(), PATIENCE, "the stacks")
        return path.read_text()

    def reached(self, task: str, function: str) -> None:
        """Wait until one of the task's threads is in a function."""
        wait_until(lambda: f"in {function}\n" in self.stacks(task), PATIENCE, f"{task} in {function}")

    def rounds(self) -> list[Round]:
        """Every round so far, of all tasks, in order."""
        lines = [(task, line) for task, text in self._texts().items() for line in text.split("\n")[:-1]]
        told = [(task, json.loads(line)) for task, line in lines if is_round(line)]
        return sorted((Round(task, r["at"], r["step"], tuple(r["by"])) for task, r in told), key=lambda one: one.at)

    def first_round(self, workers: int) -> None:
        """Wait until at least so many workers took part in a round, as far as rounds tell."""
        wait_until(
            lambda: any(len(one.by) >= workers for one in self.rounds()), PATIENCE,
            lambda: f"a round of {workers} workers; {self._standing()}",
        )  # fmt: skip

    def next_round(self, after: float) -> Round:
        """The first round that was done later than a moment."""

        def found() -> list[Round]:
            return [one for one in self.rounds() if one.at > after]

        first: Round = wait_until(found, PATIENCE, lambda: f"a round; {self._standing()}")[0]
        return first

    def lasting(self, seen: Seen, seconds: float) -> Seen:
        """What has come of it, once it has lasted that long."""
        wait_until(lambda: time.monotonic() > seen.since + seconds, 2 * seconds + 1, "the time to pass")
        return self._look(seen)

    def ending(self, seen: Seen, *tasks: str) -> Seen:
        """What has come of it, once these tasks have ended by themselves."""
        wait_until(
            lambda: {*tasks} <= self._failed().keys(), PATIENCE, lambda: f"the end of {tasks}; {self._standing()}"
        )
        return self._look(seen)

    def over(self, seen: Seen, mended: Seen) -> Seen:
        """What came of it, now that it was mended, once training goes on."""
        seen.lasted = mended.since - seen.since
        seen.next = self.next_round(mended.since)
        return seen

    def _begin(self, disturb: Callable[[], None]) -> Seen:
        self._written = {task: len(text) for task, text in self._texts().items()}
        self._ended = set(self._failed())
        disturb()
        return Seen(time.monotonic())

    def _inject(self, fault: str) -> None:
        """Return once it is done: the answer only says that it will be."""
        before = self._done()
        self.cluster.fault(fault)
        wait_until(lambda: self._done() > before, PATIENCE, fault)

    def _done(self) -> int:
        return sum(isinstance(event, FaultTook) and event.done for event in self.cluster.events())

    def _look(self, seen: Seen) -> Seen:
        later = [one for one in self.rounds() if one.at > seen.since]
        under_way = {one.task: one for one in reversed(later)}
        seen.rounds = [one for one in later if one is not under_way[one.task]]
        new = {task: text[self._written.get(task, 0) :] for task, text in self._texts().items()}
        said = {task: [line for line in text.splitlines() if not is_round(line)] for task, text in new.items()}
        seen.said = {task: "\n".join(lines) for task, lines in said.items() if lines}
        failed = {task: event.failure for task, event in self._failed().items()}
        seen.ends = {
            task: End(one.at - seen.since, one.exit, one.exception or "", self._texts()[task])
            for task, one in failed.items()
            if task not in self._ended
        }
        seen.alive = {name for name, task in self.cluster.tasks.items() if task.pid is not None}
        return seen

    def _standing(self) -> str:
        """What each task has done last, and where its threads are now, in lines that a shortened report still has."""
        now, rounds, failed = time.monotonic(), self.rounds(), self._failed()
        lines = ["the tasks:"]
        for name, text in self._texts().items():
            mine = [one for one in rounds if one.task == name]
            last = f"step {mine[-1].step}, {now - mine[-1].at:.1f} s ago" if mine else "no round"
            failure = failed[name].failure if name in failed else None
            end = "not ended" if failure is None else f"ended: {failure.exception or failure.exit}"
            lines += [f"{name}: {last}; {end}"]
            lines += [f"  | {line[:200]}" for line in text.splitlines() if not is_round(line)][-LAST_LINES:]
            if failure is None:
                lines += self._threads(name)
        return "\n".join(lines)

    def _threads(self, task: str) -> list[str]:
        """The state of a task's process, and the innermost functions of its threads in Python."""
        try:
            state = psutil.Process(self.cluster.tasks[task].pid).status()
            threads = self.stacks(task).split("\n\n")
        except (psutil.Error, AssertionError, OSError) as error:
            return [f"  stacks: {str(error)[:200]}"]
        return [f"  process: {state}", *(f"  {' < '.join(thread.split(chr(10))[:4])[:300]}" for thread in threads)]

    def _failed(self) -> dict[str, Failed]:
        return {str(e.failure.task): e for e in self.cluster.events() if isinstance(e, Failed)}

    def _texts(self) -> dict[str, str]:
        return {name: task.logs() for name, task in self.cluster.tasks.items()}


def is_round(line: str) -> bool:
    """Whether a task's line tells of a round."""
    return line.startswith('{"at":')


def is_complaint(line: str) -> bool:
    """Whether a task's line tells of a task that fails or does not answer."""
    return any(word in line.lower() for word in COMPLAINTS)


@contextmanager
def laboratory(home: Path) -> Iterator[Callable[..., Lab]]:
    """Start jobs that train; at the end they are ended, and nothing of them is left."""
    with ExitStack() as ends:

        def start(job: dict[str, Any], took_part: int | None = None, **options: Any) -> Lab:
            options = {**job, **ALONE, "grace_period": 0, **options}
            if took_part is None:  # each worker has to be connected to the ps before it is frozen
                took_part = 2 if job in (PS_JOB, CUT_PS_JOB) else 0
            return Lab(ends.enter_context(Cluster(home=home, patience=PATIENCE, **options)), took_part)

        yield start
    assert processes_of(home) == {}


def lines_with(phrases: Sequence[str], text: str) -> list[str]:
    """The lines of a log that have all of these phrases."""
    return [line for line in text.splitlines() if all(phrase in line for phrase in phrases)]
