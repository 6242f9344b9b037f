"""Every channel that a task or a client can write to, fed with 100,000 random and hostile inputs: no thread ends."""

from __future__ import annotations

import fcntl
import json
import os
import queue
import re
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path, PurePosixPath

import pytest

from clusterkit.backends.local.blocked_threads import main_thread
from clusterkit.backends.local.hang_inspector import InspectedAttempt, _add_activities, report_of
from clusterkit.backends.local.logs import LogPump
from clusterkit.backends.local.stacks import dump_for
from clusterkit.backends.local.step_reader import StepReader
from clusterkit.backends.local.watcher import Watcher
from clusterkit.job.step_regex import problem_of
from clusterkit.ledger.ledger import Ledger
from clusterkit.store.control import Client, connect
from clusterkit.store.directory import RunDirectory
from clusterkit.store.journal import JournalReader
from clusterkit.supervisor.control import ControlServer
from clusterkit.supervisor.loop import Journal
from clusterkit.system.exchange import parse_line
from clusterkit.system.process import AttemptChild
from clusterkit.views.console import Console, Show
from clusterkit.views.narrate import sentence
from clusterkit.words.events import Crashed, Drained, Happened, Progressed, Ready, Verb, Vitals
from tests.histories import History, job, task
from tests.noise import Noise
from tests.support import wait_until

pytestmark = [pytest.mark.process, pytest.mark.slow, pytest.mark.timeout(300)]
WORKER = task("worker:0")
SEEDS = [11, *(pytest.param(seed, marks=pytest.mark.soak) for seed in range(100, 120))]
REPORTS, CHUNKS, REQUESTS, DUMPS, ANSWERS = 45_000, 20_000, 20_000, 5_000, 10_000  # 100,000 in all


@pytest.fixture(params=SEEDS)
def noise(request: pytest.FixtureRequest) -> Noise:
    """Prints its seed, which pytest shows of a test that fails."""
    return Noise(request.param)


def report(noise: Noise) -> bytes:
    """A line on the progress pipe."""
    if noise.random.random() < 0.15:
        return noise.bytes(200).replace(b"\n", b"")
    kind = noise.pick("progress", "progress", "checkpoint", "resumed", "phase", "profiled", "ready", "x")
    return noise.fields(
        kind=kind, attempt=1, step=noise.random.randrange(1000), path="x", phase="x", begun=noise.pick(True, False),
        request=1, steps=1, why="x", metrics={"x": 1, str(noise.value())[:99]: noise.value()},
    )  # fmt: skip


class Posted:
    """What threads post; whether one of them has crashed."""

    def __init__(self) -> None:
        self.events: list[Happened] = []
        self._queue = queue.SimpleQueue[Happened]()

    def put(self, event: Happened) -> None:
        """For the threads."""
        self._queue.put(event)

    def take_until(self, last: Callable[[Happened], bool], within: float = 60) -> None:
        """Take everything up to an event; fails where it does not come, or something crashed."""
        until = time.monotonic() + within
        while True:
            event = self._queue.get(timeout=max(0.01, until - time.monotonic()))
            assert not isinstance(event, Crashed), event.traceback
            self.events.append(event)
            if last(event):
                return


def test_the_progress_pipe(tmp_path: Path, noise: Noise) -> None:
    """And all that takes what was reported: the machine, the journal, the fold of recoveries and the sentences."""
    os.mkfifo(tmp_path / "progress")
    posted = Posted()
    watcher = Watcher(posted.put, lambda child: False)
    watcher.listen(WORKER, PurePosixPath(tmp_path / "progress"))
    watcher.read_often()
    lines = [report(noise) for _ in range(REPORTS)]
    with (tmp_path / "progress").open("wb", buffering=0) as pipe:
        for start in range(0, REPORTS, 300):
            pipe.write(b"\n".join(lines[start : start + 300]) + b"\n")
        pipe.write(b'{"kind":"ready","attempt":77}\n')
    posted.take_until(lambda event: event == Ready(WORKER, 77))
    watcher.stop()
    assert len(posted.events) > REPORTS / 20
    take_in(posted.events, tmp_path / "taken")


def take_in(events: list[Happened], directory: Path) -> None:
    """What the supervisor's loop does with events."""
    run, fold = History(job(workers=1)), Ledger(job(workers=1))
    directory.mkdir()
    journal = Journal(directory / "journal.jsonl", time.time, lambda error: pytest.fail(error))

    def observe(event: object, now: float) -> None:
        journal.write(event, now)  # type: ignore[arg-type]
        fold.add(now, event)  # type: ignore[arg-type]
        sentence(event)  # type: ignore[arg-type]

    run.observe = observe
    run.begin()
    for event in events:
        run.send(event)
    if "worker:0" in run.live:  # a client may have ended it
        run.exits("worker:0", code=0)
    run.after(60)
    journal.close()
    fold.account()
    assert run.over
    read = [event for _, event in JournalReader(RunDirectory(directory)).events("m")]
    assert [event for event in read if any(event == one for one in events[:50])][:50] == events[:50]


@pytest.fixture
def stdout(tmp_path: Path) -> Iterator[int]:
    """A descriptor of a file for the console."""
    descriptor = os.open(tmp_path / "console.txt", os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC)
    yield descriptor
    os.close(descriptor)


def output(noise: Noise) -> bytes:
    """A chunk of what a task prints."""
    number = noise.pick(b"9" * 5000, b"-1", b"\xd9\xa3", b"1e9", b"", b"12", b"0x1", b"\xc2\xb2")
    return b"".join(
        noise.pick(
            noise.bytes(300), b"step " + number + b"\n", b"epoch " + number, b"\r", b"\n", b"\x1b[2J\x1b]0;x\x07",
            b"Traceback (most recent call last):\n  x\nError: " + number + b"\n", b"\xf0\x9f", b"\xed\xa0\x80\n",
            b"x" * 3000,
        )
        for _ in range(3)
    )  # fmt: skip


def test_the_output(tmp_path: Path, noise: Noise, stdout: int) -> None:
    """The log has every byte; the steps' reader, which needs none of them, and the console go on."""
    posted = Posted()
    console = Console(stdout, [WORKER], Show(), posted.put)
    steps = StepReader(r"step (\S*)|epoch (\S*)", posted.put, every=0.0)
    steps.start()

    def view(*chunk: object) -> None:
        console.output(*chunk)  # type: ignore[arg-type]
        steps.feed(*chunk)  # type: ignore[arg-type]

    pump = LogPump(posted.put, view, PurePosixPath(tmp_path / "arrivals"))
    chunks = [output(noise) for _ in range(CHUNKS)] + [b"\nstep 17\n"]
    sink = pump.open(WORKER, 1, PurePosixPath(tmp_path / "log"))
    with os.fdopen(sink, "wb", buffering=0) as task_output:
        for chunk in chunks:
            task_output.write(chunk)
    posted.take_until(lambda event: isinstance(event, Drained))
    pump.stop()
    steps.close()
    console.close()
    assert (tmp_path / "log").read_bytes() == b"".join(chunks)
    assert [event.step for event in posted.events if isinstance(event, Progressed)][-1] == 17
    shown = (tmp_path / "console.txt").read_bytes()
    assert shown.endswith(b"step 17\n")
    assert not re.search(rb"[\x00-\x08\x0b-\x1a\x1c-\x1f\x7f]", shown)


def request(noise: Noise) -> bytes:
    """A line to the control socket: mostly one that gets an answer, since another one ends the connection."""
    method = noise.pick(*Verb, "hello")
    names = noise.pick("tasks", "signal", "steps", "seconds", "fault", "force"), "x"
    params = {name: noise.value() for name in names}
    call = {"jsonrpc": "2.0", "id": noise.pick(1, 2**70, "x", "\ud800"), "method": method, "params": params}
    return json.dumps(call).encode() if noise.random.random() < 0.97 else noise.fields(**call)


def test_the_control_socket(tmp_path: Path, noise: Noise) -> None:
    """A thousand strangers, some of whom hang up in the midst of a line; the next client is served."""
    posted = Posted()
    with (tmp_path / "lock").open("wb") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        server = ControlServer(RunDirectory(tmp_path), {"run_id": "r"}, posted.put)
        for _ in range(REQUESTS // 20):
            lines = [request(noise) for _ in range(20)]
            with connect(RunDirectory(tmp_path), 10) as stranger, suppress(BrokenPipeError, ConnectionResetError):
                stranger.sendall(b"\n".join(lines) + noise.pick(b"\n", b"", noise.bytes(100)))
                if noise.random.random() < 0.3:
                    stranger.recv(100)
        with Client(RunDirectory(tmp_path)) as client:
            assert client.call("hello")["run_id"] == "r"
        server.stop()
        posted.put(Ready(WORKER, 77))
        posted.take_until(lambda event: event == Ready(WORKER, 77))
    take_in(posted.events, tmp_path / "taken")


def stacks(noise: Noise) -> bytes:
    """What a task wrote where its stacks should be."""
    number = noise.pick(b"9" * 5000, b"7", b"0", b"\xd9\xa3", b"-1", b"x")
    file = noise.pick(b"/dev/zero", b"\0", b"/", b"x" * 5000, __file__.encode(), b"<string>", noise.bytes(30))
    frame = b'  File "' + file + b'", line ' + number + b" in " + noise.pick(b"<module>", b"f", b"wait", noise.bytes(9))
    begin = noise.pick(b"Current thread 0x00 (most recent call first):\n", b"Thread 0x01:\n", noise.bytes(20))
    frames = [frame] * (300 if noise.random.random() < 0.01 else noise.pick(0, 1, 2))
    return begin + b"\n".join(frames) + noise.pick(b"", b"\n", b"\n--- ", noise.bytes(99))


def test_the_stacks(tmp_path: Path, noise: Noise) -> None:
    """A report comes of them, whatever they are."""
    (tmp_path / "stacks").mkdir()
    child = AttemptChild(os.getpid(), -1, "", 0, None)
    for number in range(0, DUMPS, 10):
        subjects = []
        for index in range(10):
            dump = dump_for(RunDirectory(tmp_path), task(f"worker:{index}"), 1, str(number))
            dump.path.write_bytes(noise.pick(b"", dump.header) + dump.header + stacks(noise))
            dump.read()
            main_thread(dump.text)
            subjects.append(InspectedAttempt(task(f"worker:{index}"), 1, child, Vitals(1, True, "S"), dump=dump))
        _add_activities(subjects)
        report_of("why", subjects).encode(errors="strict" if number % 2 else "replace")
        assert all(len(subject.vitals.doing) < 6000 for subject in subjects)


def test_stacks_that_are_no_file_or_have_no_end(tmp_path: Path) -> None:
    """A pipe is not waited for, and of a file that is too large the end is read."""
    (tmp_path / "stacks").mkdir()
    dump = dump_for(RunDirectory(tmp_path), task("worker:0"), 1, "why")
    os.mkfifo(dump.path)
    assert dump.read()
    dump.path.unlink()
    with dump.path.open("wb") as file:
        file.truncate(1 << 40)
        file.seek(0, os.SEEK_END)
        file.write(dump.header + b"Thread 0x01:\n")
    dump.read()
    assert (dump.is_requested, dump.text) == (True, "Thread 0x01:\n")


def test_what_a_fork_server_answers(noise: Noise) -> None:
    """Its line is JSON, or nothing; test_warm_answers has a run beside it."""
    for _ in range(ANSWERS):
        parse_line(noise.fields(pid=1, errno=None, why="x"))


def test_the_threads_are_gone() -> None:
    """Those of the tests above were alive until they were told to end."""
    names = {"watcher", "logs", "control", "console"}
    wait_until(lambda: not names & {thread.name for thread in threading.enumerate()}, 5, "the ends of the threads")
    assert REPORTS + CHUNKS + REQUESTS + DUMPS + ANSWERS == 100_000
    assert problem_of(r"step (\S*)|epoch (\S*)") is None
