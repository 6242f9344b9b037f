"""Agents without processes, in memory: any number of hosts whose tasks start, report and end as they are told to.

The supervisor is real from the frames that arrive on: backend, machine, loop, inbox, journal. There is no socket, no
TLS and no other process.
"""

from __future__ import annotations

import functools
import queue
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import assert_never

from clusterkit.backends.link import messages as ms
from clusterkit.backends.link.connection import AgentEvents
from clusterkit.backends.link.frames import JSON, FrameParser, numbered
from clusterkit.backends.link.session import message_text
from clusterkit.backends.link.stream import FileRange
from clusterkit.words import actions as ac
from clusterkit.words import events as ev
from clusterkit.words.model import Task
from clusterkit.words.outcome import Exit

LINE = b"a line of output\n"
BASE_PORT = 20_000
Answer = tuple[ms.FromAgent, bytes]


@dataclass(eq=False)
class SimulatedHost:
    """One host with its agent. As a Connection, it is the supervisor's way to that agent."""

    host: str
    address: str
    deliver: Callable[[SimulatedHost, bytes], None]
    running: dict[Task, int] = field(default_factory=dict)  # the attempts that have a process
    ports: dict[Task, int] = field(default_factory=dict)
    parser: FrameParser = field(default_factory=FrameParser)
    sent: int = 0
    orders: int = 0
    lost: bool = False
    is_full: bool = False  # it has no port left
    room: int = 1 << 20  # tasks that it can hold
    unfit_until: int = 0  # attempts after the first and before this one can't start there
    dies_of: type[ms.ToAgent] | None = None  # the host is lost when it gets such an order

    def send(self, message: Mapping[str, JSON], body: bytes | FileRange = b"") -> None:
        """Take a message of the supervisor's, as text: what making it takes is the supervisor's."""
        self.deliver(self, message_text(message, body))

    def send_text(self, text: bytes) -> None:
        """Take a message that is text already."""
        self.deliver(self, text)

    def close(self, why: str) -> None:
        """The run is over, or the host is given up."""

    def answers(self, order: ms.ToAgent) -> Iterator[Answer]:
        """What an agent says to an order."""
        self.orders += 1
        match order:
            case ms.Open():
                yield ms.Opened((), self.address), b""
            case ms.Claim() if self.is_full:
                yield ms.Claimed({}, "No free TCP port was found."), b""
            case ms.Claim(_, here) if len(here) > self.room:
                yield ms.Claimed({}, f"There is room for {self.room} tasks."), b""
            case ms.Claim(tasks):
                self.ports |= {task: BASE_PORT + len(self.ports) + n for n, task in enumerate(tasks)}
                yield ms.Claimed({task: self.ports[task] for task in tasks}), b""
            case ac.Spawn(task, attempt) if 1 < attempt < self.unfit_until:
                yield ev.SpawnFailed(task, attempt, "only 3 MB are free in /tmp", unfit=True), b""
            case ac.Spawn(task, attempt):
                self.running[task] = attempt
                yield ev.Spawned(task, attempt, f"pid {self.ports[task]}", forked=True), b""
                yield ms.Output(task, attempt, time.time()), LINE
                yield ev.Ready(task, attempt), b""
            case ac.Signal(task, attempt, number):
                yield from self.exits(task, attempt, Exit(signal=number))
            case ac.Sweep(task, attempt):
                yield ev.Swept(task, attempt), b""
                yield ev.Drained(task, attempt, (LINE.decode().strip(),)), b""
            case ac.Inspect(look):
                yield (
                    ev.Inspected({task: ev.Vitals(number, True, "S") for task, number in self.running.items()}, look),
                    b"",
                )
            case ac.Inject(number):
                yield ev.FaultTook(number, "it was asked for"), b""
            case ms.Shut():
                yield ms.Gone(), b""
            case ms.Endpoints() | ms.KeepRunning() | ms.Drain() | ms.StopAgent():
                pass
            case ac.CloseOutput() | ac.DumpStacks() | ac.Heal() | ac.HurrySteps():
                pass
            case ac.BeginProfile() | ac.EndProfile() | ac.Avoid() | ac.Refresh():
                pass
            case _:
                assert_never(order)

    def exits(self, task: Task, attempt: int, how: Exit) -> Iterator[Answer]:
        """What an agent says when a task's process is gone; nothing where it was gone before."""
        if self.running.get(task) == attempt:
            del self.running[task]
            reached = () if how.signal is None else (how.signal,)
            yield ev.Exited(task, attempt, how, reached), b""

    def frame(self, answer: Answer) -> bytes:
        """An answer as it arrives at the supervisor."""
        said, body = answer
        self.sent += 1
        return numbered(self.sent, self.orders, message_text(ms.encode(said), body), body)


class SimulatedHosts:
    """An engine whose hosts are all there at once. One thread does their work, as the listener's does at a supervisor.

    `receiving` is the processor time, in seconds, that this thread took for what a listener has to do as well: finding
    the frames, reading them, handing them over.
    """

    address = "127.0.0.1"
    port = 0  # nobody connects

    def __init__(self, count: int) -> None:
        self.hosts = [
            SimulatedHost(f"n{n}", f"10.{n >> 16}.{n >> 8 & 255}.{n & 255}", self._take) for n in range(count)
        ]
        self.receiving = 0.0
        self.failed_with: Exception | None = None
        self.others_come = False  # besides those that there are
        self._work = queue.SimpleQueue[Callable[[], None] | None]()
        self._thread = threading.Thread(target=self._run, name="simulated hosts", daemon=True)
        self.supervisor: AgentEvents

    def listener(self, pem: Path, address: str, timeout: float, post: object, agents: AgentEvents) -> SimulatedHosts:
        """Be the supervisor's listener, in place of the real one."""
        self.supervisor = agents
        return self

    def start(self, endpoint: str, key: Path) -> None:
        """They connect."""
        self._thread.start()
        for host in self.hosts:
            self.supervisor.connected(host, host.host)

    def failed(self) -> str | None:
        """Why there are no more hosts."""
        if self.failed_with is not None:
            return repr(self.failed_with)
        return "all of them came" if any(host.lost for host in self.hosts) and not self.others_come else None

    def ending(self, signal: int, elsewhere: bool = False) -> None:
        """Nobody takes them away."""

    def request_next(self) -> None:
        """There are no others."""

    def stop(self) -> None:
        """End the thread, which is the listener's and the engine's."""
        self._work.put(None)
        self._thread.join()

    def progress(self, step: int) -> None:
        """Each task that runs reports a step."""
        for host in self.hosts:
            self._work.put(functools.partial(self._say, host, self._reports(host, step)))

    def finish(self) -> None:
        """Each task exits with code 0."""
        for host in self.hosts:
            self._work.put(functools.partial(self._say, host, self._ends(host)))

    def kill(self, host: SimulatedHost) -> None:
        """The first task that runs there is killed."""
        task, attempt = next(iter(host.running.items()))
        self._work.put(functools.partial(self._say, host, host.exits(task, attempt, Exit(signal=9))))

    def drain(self, host: SimulatedHost) -> None:
        """A host's agent gets SIGTERM."""
        self._work.put(functools.partial(self._say, host, iter([(ms.SignalReceived(15), b"")])))

    def join(self) -> None:
        """One more comes, which needs no listener."""
        number = len(self.hosts)
        self.hosts.append(SimulatedHost(f"n{number}", f"10.0.1.{number}", self._take))
        self._work.put(lambda: self.supervisor.connected(self.hosts[number], f"n{number}"))

    def lose(self, host: SimulatedHost) -> None:
        """A host is lost with all its tasks."""
        self._work.put(functools.partial(self._lose, host))

    def _lose(self, host: SimulatedHost) -> None:
        if not host.lost:
            host.lost = True
            host.running.clear()
            self.supervisor.lost(host, f"Nothing was received from {host.host} for 30.0 s.")

    def _reports(self, host: SimulatedHost, step: int) -> Iterator[Answer]:
        for task, attempt in host.running.items():
            yield ev.Progressed(task, attempt, step, {"loss": 1 / (step + 1)}), b""

    def _ends(self, host: SimulatedHost) -> Iterator[Answer]:
        for task, attempt in list(host.running.items()):
            yield from host.exits(task, attempt, Exit(code=0))

    def _take(self, host: SimulatedHost, text: bytes) -> None:
        self._work.put(functools.partial(self._obey, host, text))

    def _obey(self, host: SimulatedHost, text: bytes) -> None:
        order = understood(text)
        if type(order) is host.dies_of:
            self._lose(host)
        if isinstance(order, ms.StopAgent) and not host.lost:
            assert not host.running, "it was sent away with its tasks"
            host.lost = True
            self.supervisor.lost(host, "Its agent ended: it got SIGTERM.")
        self._say(host, host.answers(order))

    def _say(self, host: SimulatedHost, answers: Iterator[Answer]) -> None:
        if host.lost:
            return
        data = b"".join(map(host.frame, answers))
        before = time.thread_time()
        for frame in host.parser.feed(data):
            self.supervisor.message(host, frame.object("message"), frame.body)
        self.receiving += time.thread_time() - before

    def _run(self) -> None:
        try:
            while (work := self._work.get()) is not None:
                work()
        except Exception as error:
            self.failed_with = error
            raise


@functools.lru_cache(maxsize=4)
def understood(text: bytes) -> ms.ToAgent:
    """An order as an agent reads it. What all hosts get is read once: real hosts would do so beside each other."""
    (frame,) = FrameParser().feed(numbered(1, 0, text, b""))
    return ms.for_agent(frame.object("message"))
