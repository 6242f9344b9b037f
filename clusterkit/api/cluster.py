"""The class `Cluster`, with which Python code starts, watches and ends a run, and injects faults into the run."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, Self, TypeVar, Unpack, overload

from clusterkit.api.options import (
    RUNNER,
    check_names,
    gathered,
    name_of,
    pickle_call,
    read_returns,
    with_options_in_help,
)
from clusterkit.api.result import ClusterFailed, Result, RunEnded, StillRunning, WaitTimeout, preformatted, read_result
from clusterkit.api.supervisor import Supervisor, Temporary
from clusterkit.api.tasks import TaskHistory, Tasks, Wanted, known, matcher, told
from clusterkit.job.options import GivenOptions, Options
from clusterkit.store.control import Client, NotLive
from clusterkit.store.journal import JournalReader, follow
from clusterkit.store.store import RUN_ID, RunStore, new_run_id, state_path
from clusterkit.store.trust import refuse_untrusted
from clusterkit.task import call
from clusterkit.words import events as ev
from clusterkit.words.errors import ClusterkitError, RunDirectoryError
from clusterkit.words.model import PICKLED, Task
from clusterkit.words.outcome import SIGKILL, RunState

__tracebackhide__ = True  # pytest shows the test's own line instead of frames of this module
LOOK = 0.03  # seconds between two reads of the journal while a method waits
STARTUP = 60.0  # seconds; the timeout for the start of all tasks
LAST = 5.0  # seconds; the time limit for a supervisor to exit after it has stopped answering requests
STOP = 60.0  # seconds; the default time for a clean shutdown before the run is killed

Form = Literal["plain", "pickle"]
Program = str | os.PathLike[str] | Callable[..., Any]
E = TypeVar("E", bound=ev.Event)


class Cluster:
    """A running cluster. The constructor returns once all tasks have been started; leaving a `with` block ends the run.

    Methods block, and can be called from any thread. In a coroutine, use `await asyncio.to_thread(cluster.wait)`.
    The run ends if this process ends for any reason. A fork of this process can neither wait for the run nor end it.
    """

    __module__ = "clusterkit"

    @with_options_in_help
    def __init__(
        self,
        program: Program | None = None,
        *,
        args: Sequence[object] = (),
        kwargs: Mapping[str, Any] | None = None,
        home: str | os.PathLike[str] | None = None,
        patience: float | None = None,
        returns: Form | None = None,
        **options: Unpack[Options],
    ) -> None:
        """Start a job. Raises BadJob, which lists all problems, if the job can't run with these options.

        `program` is a file, or a function that every task calls with `args` and `kwargs`; `home`, the state directory;
        `patience`, the default timeout of waits in seconds (None: none); `returns`, the form of return values: `pickle`
        or, by default from hosts, `plain`. Others are options of `clusterkit up`, ignored if None; '1m30s' is 90.0 s.
        """
        check_names(options)
        self.patience, self._returns = patience, returns
        self.run_id = options["run_id"] = str(options.get("run_id") or new_run_id())
        root = Path(home).absolute() if home is not None else state_path()
        refuse_untrusted(root)
        self._run = RunStore(root).run(self.run_id)
        self.directory = self._run.path
        if RUN_ID.fullmatch(self.run_id) and self.directory.exists():
            raise RunDirectoryError(f"There is already a run {self.run_id} in {root}. Choose another run_id.")
        self._lock = threading.Lock()
        self._result: Result | None = None
        self._stopping = False
        self._history = TaskHistory(self._run)
        self.tasks = Tasks((), self._history, self.ask)
        self._temporary = Temporary()
        try:
            job = self._job(program, args, kwargs, options)
            self._supervisor = Supervisor(job, self.run_id, root, self._temporary.path / "console")
        except BaseException:
            self._temporary.remove()
            raise
        try:
            self._wait_for_start()
        except BaseException:
            self._supervisor.end(0.0)
            self._close()
            raise
        live.add(self)

    def __repr__(self) -> str:
        return f"<Cluster {self.run_id} in {self.directory}>"

    def _repr_html_(self) -> str:
        """Return the HTML that a notebook shows: the run's state and a line for each task."""
        state = "running" if self.running else self.result.state
        return preformatted(f"run {self.run_id}: {state}\n{known(self.tasks)}")

    @property
    def running(self) -> bool:
        """True until the run has ended."""
        return self._result is None and self._supervisor.exit_code is None

    @property
    def result(self) -> Result:
        """The result of the run. Raises StillRunning if the run has not ended yet."""
        if self.running:
            raise StillRunning(f"The run {self.run_id} is still running.")
        with self._lock:
            if self._result is None:
                result = read_result(self._run, self._supervisor.exit_code or 0)
                self._close()
                self._result = Result.of(result, self._run, read_returns(result, self.directory, self._form()))
        return self._result

    def events(self, follow: bool = False) -> Iterator[ev.Event]:
        """Yield the events of the run so far; with `follow`, also yield new events until the run ends."""
        if not follow:
            yield from (event for _, event in JournalReader(self._run).events())
            return
        yield from self._follow(None, "the end of the run")

    @overload
    def wait_for_event(self, wanted: type[E], timeout: float | None = None, **fields: Any) -> E: ...

    @overload
    def wait_for_event(self, wanted: Wanted, timeout: float | None = None, **fields: Any) -> ev.Event: ...

    def wait_for_event(self, wanted: Wanted, timeout: float | None = None, **fields: Any) -> ev.Event:
        """Wait for an event of the wanted kind with these fields, and return the first such event of the run.

        `wanted` is an event class such as `clusterkit.Spawned`, the name of a class, or a function that returns true
        for wanted events. `fields` are keywords such as `task="worker:1"`. Returns at once if such an event has already
        happened. Raises WaitTimeout, or ClusterFailed or RunEnded if the run ends without such an event.
        """
        fits, what = matcher(wanted, fields), told(wanted, fields)
        for event in self._follow(timeout, what):
            if fits(event):
                return event
        raise self._ended(f"The run was over without {what}.")

    def wait_for_step(
        self, step: int, timeout: float | None = None, task: str | None = None, attempt: int | None = None
    ) -> int:
        """Wait until a task reports that it has reached `step` or a later step, and return the reported step.

        If `task` or `attempt` is given, only reports of this task or attempt count. Use `attempt` if a restarted task
        may report the same steps again. Tasks report once a second. Raises the same exceptions as `wait_for_event`.
        """
        fields = {name: value for name, value in (("task", task), ("attempt", attempt)) if value is not None}
        fits, what = matcher(ev.Progressed, fields), told(f"step {step}", fields)
        for event in self._follow(timeout, what):
            if fits(event) and isinstance(event, ev.Progressed) and event.step >= step:
                return event.step
        raise self._ended(f"The run was over before {what}.")

    def wait(self, timeout: float | None = None) -> Result:
        """Wait for the end of the run and return its result. Raises WaitTimeout, or ClusterFailed if the job failed."""
        for _ in self._follow(timeout, "the end of the run"):
            pass
        if not self.result.ok and not self._stopping:
            raise self._ended(f"The run {self.run_id} {self.result.state}: {self.result.reason}.")
        return self.result

    def stop(self, timeout: float = STOP) -> Result:
        """End the run, if it is live, and return its result.

        Tasks get their grace period. If the run has not ended after `timeout` seconds, it is killed.
        """
        self._stopping = True
        if self._result is None:
            self._supervisor.end(timeout)
        return self.result

    def fault(self, fault: str) -> None:
        """Inject a fault, as `clusterkit fault` does: `run.fault("stop worker:1 for=10s @ step=100")`.

        A fault without a trigger is injected at once. Raises Refused, with the reason, if the fault is not possible;
        ClusterFailed or RunEnded if the run is over.
        """
        self._call(ev.Verb.FAULT, f"{fault!r} could be injected", fault=fault)

    def heal(self) -> None:
        """Heal all faults. Raises the same exceptions as `fault`."""
        self._call(ev.Verb.HEAL, "its faults could be healed")

    def ask(self, verb: ev.Verb, task: Task, signal: int = SIGKILL) -> None:
        """Ask the supervisor to act on a task, for example to kill it. Raises the same exceptions as `fault`."""
        self._call(verb, f"{task} could be asked to {verb}", tasks=[str(task)], signal=int(signal))

    def _call(self, verb: ev.Verb, what: str, **params: Any) -> None:
        try:
            with Client(self._run) as client:
                client.call(verb, **params)
        except NotLive:
            if not self._supervisor.wait(LAST):  # a supervisor releases the run's lock just before it exits
                raise
            raise self._ended(f"The run was over before {what}.") from None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        try:
            self.stop()
        except ClusterkitError:
            if kind is None:  # do not mask an exception of the `with` block
                raise

    def _job(
        self, program: Program | None, args: Sequence[object], kwargs: Mapping[str, Any] | None, options: Options
    ) -> GivenOptions:
        problems = []
        if self._returns not in (None, *call.ENDINGS):
            problems.append(f"returns={self._returns!r}: it has to be 'plain' or 'pickle'.")
        if isinstance(args, str | bytes) or not isinstance(args, Iterable):
            problems.append(f"args={args!r}: it has to be a list.")
            args = ()
        if not callable(program):
            if kwargs:
                problems.append("kwargs are for functions. A program gets args.")
            if not isinstance(program, str | os.PathLike | None):
                problems.append(f"program={program!r}: it has to be a path or a function.")
            return gathered(program, args, options, problems)
        if options.get("python") is not None:
            problems.append("A function is called by the interpreter that it comes from: leave python= out.")
        if options.get("watch") or options.get("watch_fresh"):
            problems.append("A function has no file of its own that could change: leave watch= out.")
        path = self._temporary.path / f"{name_of(program)}{PICKLED}"
        pickle_call(program, args, kwargs or {}, path, Path.cwd())
        return gathered(RUNNER, [path, *([self._returns] if self._returns else [])], options, problems)

    def _form(self) -> str:
        """Return the form in which return values are read: not pickles from hosts, unless the caller trusts them."""
        info = self._run.info()
        return self._returns or (call.PLAIN if info is None or info.job.hosts.count else call.PICKLE)

    def _wait_for_start(self) -> None:
        """Wait until all tasks have been started or have failed to start."""
        started = set[Task]()
        for event in self._follow(STARTUP, "the start of every task"):
            if not self.tasks:
                info = self._run.info()
                self.tasks = Tasks(info.job.tasks if info is not None else (), self._history, self.ask)
            if isinstance(event, ev.Spawned | ev.SpawnFailed):
                started.add(event.task)
            if len(started) == len(self.tasks):
                return
        if not self.tasks:
            raise self._supervisor.refusal()

    def _follow(self, timeout: float | None, what: str) -> Iterator[ev.Event]:
        """Yield every event from the first until the end of the run. Raises WaitTimeout.

        Events are read from the journal's file, not requested from the supervisor. So a supervisor that hangs can't
        block this process.
        """
        seconds = self.patience if timeout is None else timeout
        try:
            for events in follow(JournalReader(self._run).events, self._supervisor.wait, LOOK, seconds):
                for watch in watchers:
                    watch(self)
                yield from (event for _, event in events)
        except TimeoutError:
            raise WaitTimeout(what, seconds or 0.0, known(self.tasks), self.run_id) from None

    def _ended(self, what: str) -> RunEnded:
        result = self.result
        failed = result.state in (RunState.FAILED, RunState.TIMED_OUT)
        return ClusterFailed(what, result) if failed else RunEnded(what, result)

    def _close(self) -> None:
        live.discard(self)
        self._supervisor.close(self._run)
        self._temporary.remove()


# As with Popen, a run continues even after its object is no longer referenced. This set keeps the object alive, so that
# its temporary files, which tasks may still read, are not deleted.
live: set[Cluster] = set()
watchers: list[Callable[[Cluster], None]] = []  # functions to call while a method waits, and when the run has ended
