"""Finds out why a run hangs: inspects every live task in a background thread, and writes a report."""

from __future__ import annotations

import linecache
import os
import stat
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial

from clusterkit.backends.local.blocked_threads import StackFrame, doing, main_thread, other_threads
from clusterkit.backends.local.stacks import Dump, collect, dump_for, request_dump
from clusterkit.machine.monitors.stalls import halted_task
from clusterkit.store.directory import RunDirectory
from clusterkit.store.usage import recent_growth
from clusterkit.system import procfs
from clusterkit.system.barrier import join, start_thread
from clusterkit.system.files import end_of
from clusterkit.system.meter import Meter
from clusterkit.system.process import AttemptChild
from clusterkit.system.procfs import TcpConnection, established
from clusterkit.text.lines import PEER_GONE, last_exception
from clusterkit.text.noise import without_noise
from clusterkit.words.errors import CannotLook
from clusterkit.words.events import Crashed, Inspected, Look, Vitals
from clusterkit.words.model import Task

SAMPLES_APART = 0.5  # seconds between the samples, which show the tasks' CPU use, and whether a disk wait lasts
LONGEST_PROGRAM = 4 << 20  # bytes; larger source files are not read
STACKS_TIMEOUT = 3.0  # seconds; how long to wait for the tasks to write their stacks
LOG_END = 1 << 16  # bytes; the part of a log in which an exception is searched
AFTER_ERROR = 3  # an exception is the end of a log if at most this many lines begin with it and follow it
LONGEST_ERROR = 200  # characters
STATES = {"R": "running", "S": "asleep", "D": "in a disk wait", "T": "stopped", "t": "stopped by a debugger"}
Post = Callable[[Inspected | Crashed], None]


@dataclass(slots=True)
class InspectedAttempt:
    """A live attempt, and the findings about it. `endpoint` is the address that its peers connect to."""

    task: Task
    attempt: int
    child: AttemptChild
    vitals: Vitals
    endpoint: str | None = None
    dump: Dump | None = None
    cpu: float | None = None  # percent of one core; None if unknown
    connections: list[TcpConnection] = field(default_factory=list)
    ports: frozenset[int] = frozenset()  # ports that the process listens on


class HangInspector:
    """Runs each inspection of the tasks in a separate thread."""

    def __init__(self, run: RunDirectory, post: Post) -> None:
        self._run = run
        self._post = post
        self._ended = threading.Event()
        self._threads: list[threading.Thread] = []

    def begin(self, look: Look, why: str, subjects: Sequence[InspectedAttempt]) -> None:
        """Start an inspection, which posts Inspected. Reap no attempt before `begin` returns. Raises OSError."""
        for subject in subjects:
            subject.dump = dump_for(self._run, subject.task, subject.attempt, why)
            request_dump(subject.dump, subject.child.pid)
        self._threads = [thread for thread in self._threads if thread.is_alive()]
        self._threads.append(start_thread("look", partial(self._inspect, look, why, subjects), self._post))

    def stop(self) -> None:
        """End all inspections early."""
        self._ended.set()
        for thread in self._threads:
            join(thread)

    def _inspect(self, look: Look, why: str, subjects: Sequence[InspectedAttempt]) -> None:
        report: str | None = None
        try:
            with suppress(CannotLook):  # the report then contains the findings up to the error
                self._sample_twice(subjects)
            _add_activities(subjects)
            for subject in subjects:
                with suppress(OSError):
                    log = end_of(self._run.log(subject.task, subject.attempt), LOG_END)
                    subject.vitals = replace(subject.vitals, error=last_error(log))
                growth = recent_growth(self._run.usage, subject.task)
                subject.vitals = replace(subject.vitals, growth="" if growth is None else str(growth))
            with suppress(OSError):
                number = len(list(self._run.all_stacks.glob(f"{look.value}-*.txt"))) + 1
                path = self._run.all_stacks / f"{look.value}-{number}.txt"
                path.write_text(report_of(why, subjects))
                report = str(path)
        finally:  # even after an exception, since the state machine waits for Inspected
            self._post(Inspected({subject.task: subject.vitals for subject in subjects}, look, report))

    def _sample_twice(self, subjects: Sequence[InspectedAttempt]) -> None:
        """Sample the tasks' state twice; in between, wait for stack dumps of the tasks that are not stopped."""
        meter, begun = Meter(), time.monotonic()
        pids = {subject.task: subject.child.pid for subject in subjects}
        meter.sample(pids)
        collect([s.dump for s in subjects if s.dump and s.vitals.state not in "Tt"], STACKS_TIMEOUT, self._ended)
        self._ended.wait(max(0.0, begun + SAMPLES_APART - time.monotonic()))
        used = meter.sample(pids)
        for subject in subjects:
            subject.cpu = used[subject.task][0] if subject.task in used else None
            subject.connections = established(subject.child.pid)
            subject.ports = procfs.listening_ports_of(subject.child.pid, subject.child.pid)
            seen = procfs.stat(subject.child.pid)
            state = seen[0] if seen else "X"
            if state == "D" != subject.vitals.state:  # a short disk wait is normal
                state = "S"
            subject.vitals = replace(subject.vitals, state=state)


def _add_activities(subjects: Sequence[InspectedAttempt]) -> None:
    for subject in subjects:
        frames = main_thread(subject.dump.text) if subject.dump else ()
        source = _source_of(frames[0]) if frames else ""
        if activity := doing(frames, source):
            subject.vitals = replace(subject.vitals, doing=activity.text, own=activity.own, connects=activity.connects)
    linecache.clearcache()


def last_error(log: bytes) -> str:
    """Return the exception with which the end of a log ends; "" if other output follows, or if it names a lost peer.

    A thread may have died of it while the main thread waits, or the program may be stuck in its handling.
    """
    lines = [line for line in without_noise(log.decode("utf-8", "replace").splitlines()) if line.strip()]
    error = last_exception(lines)
    if error is None or PEER_GONE.search(error):
        return ""
    first = error.split("\n", 1)[0]
    is_at_end = any(line.strip().startswith(first) for line in lines[-AFTER_ERROR:])
    return first[:LONGEST_ERROR] if is_at_end else ""


def _source_of(frame: StackFrame) -> str:
    """Return the frame's line of code, or "" if the file can't be a program: the task may have forged the name."""
    try:
        seen = os.stat(frame.file)
    except (OSError, ValueError):
        return ""
    is_program = stat.S_ISREG(seen.st_mode) and seen.st_size <= LONGEST_PROGRAM
    return linecache.getline(frame.file, frame.line) if is_program else ""


def report_of(why: str, subjects: Sequence[InspectedAttempt]) -> str:
    """Return the report with a section for every task."""
    endpoints = {subject.endpoint: subject.task for subject in subjects if subject.endpoint}
    addresses = {
        connection.local: subject.task for subject in subjects for connection in subject.connections
    } | endpoints
    return "\n".join(
        [f"{time.strftime('%Y-%m-%d %H:%M:%S')}: {why}\n", *(_section(s, addresses, endpoints) for s in subjects)]
    )


def _section(subject: InspectedAttempt, addresses: Mapping[str, Task], endpoints: Mapping[str, Task]) -> str:
    vitals = subject.vitals
    halted = halted_task([subject.task], {subject.task: vitals})
    state = STATES.get(vitals.state, "gone")
    cpu = "unknown" if subject.cpu is None else f"{subject.cpu:.0f} % of a core"
    frames = main_thread(subject.dump.text) if subject.dump else ()
    stack = [f"    {frame.file}:{frame.line} in {frame.function}" for frame in frames]
    return "\n".join([
        f"{subject.task} {halted[1] if halted else vitals.doing or 'reports no stacks'}",
        f"  process      attempt {subject.attempt}, pid {subject.child.pid}, {state} ({vitals.state})",
        f"  CPU          {cpu}",
        f"  endpoint     {subject.endpoint or 'none'}{'' if vitals.listening else ', not listening'}",
        f"  connections  {_connections_text(subject.connections, addresses)}",
        f"  listens      {_ports_text(subject, endpoints) or 'nowhere'}",
        *(f"  thread at    {frame}" for frame in (other_threads(subject.dump.text) if subject.dump else ())),
        *(["  main thread, innermost first", *stack] if stack else ["  no stacks: stopped, or no Python program"]),
        "",
    ])  # fmt: skip


def _ports_text(subject: InspectedAttempt, endpoints: Mapping[str, Task]) -> str:
    """Return the ports that the process listens on, with endpoints as their tasks, such as `worker:0, port 2222`."""
    host = (subject.endpoint or "").rpartition(":")[0]
    return ", ".join(str(endpoints.get(f"{host}:{port}", f"port {port}")) for port in sorted(subject.ports))


def _connections_text(connections: Sequence[TcpConnection], addresses: Mapping[str, Task]) -> str:
    """Return the peers of the connections with their counts, such as `worker:0 (2), ps:0, 10.0.0.1:443`."""
    counts = Counter(str(addresses.get(connection.remote, connection.remote)) for connection in connections)
    return ", ".join(f"{name} ({n})" if n > 1 else name for name, n in sorted(counts.items())) or "none"
