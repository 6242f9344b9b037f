"""The watcher's channels: what tasks report is passed on in order, and what is overtaken costs next to nothing."""

from __future__ import annotations

import fcntl
import os
import queue
import random
import struct
import termios
import threading
from collections.abc import Iterator
from pathlib import Path, PurePosixPath

import pytest

from clusterkit.backends.local import watcher
from clusterkit.backends.local.reports import Report, parse_report
from clusterkit.backends.local.watcher import Watcher
from clusterkit.text.durations import seconds
from clusterkit.words.events import Checkpointed, Happened, PhaseChanged, Progressed, Ready
from clusterkit.words.job import SHORT_STALL
from clusterkit.words.model import ProgramKind, Task
from tests.histories import build_job, task
from tests.support import wait_until

WORKER = task("worker:0")
FOR_GOOD = 2.0**20  # seconds
Posted = queue.SimpleQueue[Happened]


class Pipe:
    """A task's progress pipe with a watcher at its other end."""

    def __init__(self, path: Path) -> None:
        os.mkfifo(path)
        self.posted = Posted()
        self.watcher = Watcher(self.posted.put, lambda child: False)
        self.watcher.listen(WORKER, PurePosixPath(path))
        self.fd = os.open(path, os.O_WRONLY)

    def report(self, *lines: str) -> None:
        """Write lines at once, as one process that reports fast, or many."""
        os.write(self.fd, "".join(f"{line}\n" for line in lines).encode())

    def next(self) -> Happened:
        """What is passed on next."""
        return self.posted.get(timeout=10)

    def close(self) -> None:
        """End the watcher."""
        self.watcher.stop()
        os.close(self.fd)


@pytest.fixture
def pipe(tmp_path: Path) -> Iterator[Pipe]:
    """A pipe whose watcher is ended after the test."""
    made = Pipe(tmp_path / "progress")
    yield made
    made.close()


def rest_for_good(pipe: Pipe) -> None:
    """After its next look at the pipe the watcher looks no more, unless it has to hurry."""
    pipe.watcher._rest = pipe.watcher._longest_rest = pipe.watcher._every = FOR_GOOD
    pipe.watcher._channels[WORKER].rest = FOR_GOOD


def waits(pipe: Pipe, monkeypatch: pytest.MonkeyPatch) -> list[float | None]:
    """How long the watcher means to wait, each time that it waits from now on; it is between two looks now."""
    seen, begun, turn = list[float | None](), threading.Event(), pipe.watcher._poller._on_turn

    def noted() -> float | None:
        seen.append(turn())
        return seen[-1]

    monkeypatch.setattr(pipe.watcher._poller, "_on_turn", noted)
    pipe.watcher._poller.do(begun.set)
    assert begun.wait(10)
    return seen


def step(number: int, attempt: int = 1) -> str:
    """A report of a step, as `clusterkit.training` writes it."""
    return f'{{"kind":"progress","attempt":{attempt},"step":{number}}}'


def test_of_many_steps_the_first_and_the_newest_are_passed_on(pipe: Pipe) -> None:
    """The first one tells from where an attempt goes on, so it must be the true first."""
    pipe.report(*(step(n) for n in range(5, 1000)))
    assert [pipe.next(), pipe.next()] == [Progressed(WORKER, 1, 5), Progressed(WORKER, 1, 999)]
    pipe.report(*(step(n, attempt=2) for n in range(7, 1000)))
    assert [pipe.next(), pipe.next()] == [Progressed(WORKER, 2, 7), Progressed(WORKER, 2, 999)]


def test_what_was_reported_before_comes_before(pipe: Pipe) -> None:
    """A checkpoint is passed on at once, after the step that it is of."""
    checkpoint, ready = '{"kind":"checkpoint","attempt":1,"step":%d,"path":"c"}', '{"kind":"ready","attempt":1}'
    pipe.report(step(1), step(2), step(3), checkpoint % 3, step(4), step(5), checkpoint % 5, ready)
    assert [pipe.next() for _ in range(6)] == [
        Progressed(WORKER, 1, 1),
        Progressed(WORKER, 1, 3),
        Checkpointed(WORKER, 1, 3, "c"),
        Progressed(WORKER, 1, 5),
        Checkpointed(WORKER, 1, 5, "c"),
        Ready(WORKER, 1),
    ]


@pytest.mark.parametrize(
    ("line", "event"),
    [
        ('{"kind":"phase","attempt":2,"phase":"evaluation","begun":true}', PhaseChanged(WORKER, 2, "evaluation", True)),
        (
            '{"kind":"phase","attempt":2,"phase":"checkpoint","begun":false}',
            PhaseChanged(WORKER, 2, "checkpoint", False),
        ),
        ('{"kind":"phase","attempt":2,"phase":"checkpoint"}', None),
        ('{"kind":"phase","attempt":2,"begun":true}', None),
    ],
)
def test_what_makes_no_steps_is_reported_with_its_begin_and_its_end(line: str, event: PhaseChanged | None) -> None:
    """A message that lacks something is no report."""
    assert parse_report(WORKER, line.encode()) == event


def test_metrics_are_not_lost_with_the_report_that_had_them(pipe: Pipe) -> None:
    """What only the end of an epoch has is passed on with the next step; and what a runtime reports, at once."""
    pipe.watcher._every = FOR_GOOD
    of, ready = '{"kind":"%s","attempt":%d,"step":%d,"metrics":{%s}}', '{"kind":"ready","attempt":1}'
    batch, epoch = '"loss":0.5', '"loss":0.25,"val_loss":1.0'
    steps = [of % ("progress", 1, 3, batch), of % ("progress", 1, 3, epoch), of % ("progress", 1, 4, batch), step(5)]
    pipe.report(step(1), *steps, ready, of % ("metrics", 1, 6, epoch), step(7), of % ("progress", 2, 2, batch))
    assert [pipe.next() for _ in range(5)] == [
        Progressed(WORKER, 1, 1),
        Progressed(WORKER, 1, 5, {"loss": 0.5, "val_loss": 1.0}),
        Ready(WORKER, 1),
        Progressed(WORKER, 1, 6, {"loss": 0.25, "val_loss": 1.0}),
        Progressed(WORKER, 2, 2, {"loss": 0.5}),
    ]


def test_steps_that_others_overtake_are_not_even_read(pipe: Pipe, monkeypatch: pytest.MonkeyPatch) -> None:
    """Eight tasks that report a hundred times a second cost the supervisor a few lines a second."""
    parsed: list[bytes] = []

    def counting(task: Task, line: bytes) -> Report | None:
        parsed.append(line)
        return parse_report(task, line)

    monkeypatch.setattr(watcher, "parse_report", counting)
    pipe.watcher._every = FOR_GOOD  # no step is passed on because time has passed
    pipe.report(step(0))
    pipe.next()
    for n in range(1, 1001, 100):
        pipe.report(*(step(n + i) for i in range(100)))
    pipe.report('{"kind":"ready","attempt":1}')
    assert [pipe.next(), pipe.next()] == [Progressed(WORKER, 1, 1000), Ready(WORKER, 1)]
    assert len(parsed) <= 1 + 10 + 1  # no more than one for each time that the pipe was looked at, and the last one


def test_lines_that_are_no_reports_hide_nothing(pipe: Pipe) -> None:
    """A task may write anything."""
    pipe.report(step(1), "nonsense", step(2), '{"kind":"progress"', "", "[]", step(3), '{"kind":"ready","attempt":1}')
    assert [pipe.next() for _ in range(3)] == [Progressed(WORKER, 1, 1), Progressed(WORKER, 1, 3), Ready(WORKER, 1)]


@pytest.mark.parametrize("number", range(5))
def test_reports_and_noise_may_come_in_any_pieces(pipe: Pipe, number: int) -> None:
    """Each report is passed on, wherever the reads end, and none that noise has damaged."""
    chance = random.Random(number)
    noise = [chance.randbytes(chance.randrange(300)).replace(b"\n", b"") for _ in range(20)]
    reports = [b'{"kind":"checkpoint","attempt":1,"step":%d,"path":"c"}' % step for step in range(20)]
    text = b"".join(b"%b\n%b\n" % pair for pair in zip(noise, reports, strict=True))
    while text:
        size = chance.randrange(1, 60)
        os.write(pipe.fd, text[:size])
        text = text[size:]
        read = threading.Event()
        pipe.watcher._poller.do(read.set)
        assert read.wait(10)
    assert [pipe.next() for _ in range(20)] == [Checkpointed(WORKER, 1, step, "c") for step in range(20)]


def test_the_watcher_sleeps_when_nothing_is_reported_any_more(pipe: Pipe, monkeypatch: pytest.MonkeyPatch) -> None:
    """No pipe is looked at again once it was found empty and its newest step has been passed on."""
    pipe.report(step(1), step(2))
    assert [pipe.next(), pipe.next()] == [Progressed(WORKER, 1, 1), Progressed(WORKER, 1, 2)]
    seen = waits(pipe, monkeypatch)
    # It looks once more, finds the pipe empty, and waits for it.
    wait_until(lambda: seen and seen[-1] is None, 5, "the watcher rests no more")
    before = len(seen)
    threading.Event().wait(1.0)
    assert len(seen) == before


def test_in_a_hurry_each_look_passes_its_newest_step_on(pipe: Pipe) -> None:
    """A fault waits for a step, and must not come a second after it."""
    rest_for_good(pipe)
    pipe.report(step(0))
    assert pipe.next() == Progressed(WORKER, 1, 0)
    pipe.watcher.read_often()
    for n in range(1, 101):
        pipe.report(step(n))
        assert pipe.next() == Progressed(WORKER, 1, n)


def test_a_hurry_ends_the_rest_that_has_begun(pipe: Pipe) -> None:
    """And what was kept back for the end of its second is passed on now."""
    rest_for_good(pipe)
    pipe.report(step(1), step(2), step(3))
    assert pipe.next() == Progressed(WORKER, 1, 1)
    pipe.watcher.read_often()
    assert pipe.next() == Progressed(WORKER, 1, 3)


def test_the_watcher_sleeps_also_in_a_hurry_when_nothing_is_reported(
    pipe: Pipe, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two looks for a report, and then it waits."""
    pipe.watcher.read_often()
    pipe.report(step(1), step(2))
    assert [pipe.next(), pipe.next()] == [Progressed(WORKER, 1, 1), Progressed(WORKER, 1, 2)]
    seen = waits(pipe, monkeypatch)
    wait_until(lambda: seen and seen[-1] is None, 5, "the watcher rests no more")
    before = len(seen)
    threading.Event().wait(0.5)
    assert len(seen) == before


def test_what_is_read_in_one_turn_is_posted_at_its_end(tmp_path: Path) -> None:
    """One directly after the other, so that the loop wakes once for the steps of all tasks."""
    tasks = [task("worker:0"), task("worker:1")]
    posted, unread = Posted(), list[int]()

    def post(event: Happened) -> None:
        unread.append(sum(map(waiting, pipes)))
        posted.put(event)

    one = Watcher(post, lambda child: False)
    one._rest = one._longest_rest = FOR_GOOD
    pipes = list[int]()
    for member in tasks:
        path = tmp_path / str(member)
        os.mkfifo(path)
        one.listen(member, PurePosixPath(path))
        one._channels[member].rest = FOR_GOOD
        pipes.append(os.open(path, os.O_WRONLY))
    try:
        for pipe in pipes:
            os.write(pipe, f"{step(1)}\n".encode())
        assert all(isinstance(posted.get(timeout=10), Progressed) for _ in tasks)
        unread.clear()
        for pipe in pipes:
            os.write(pipe, b'{"kind":"ready","attempt":1}\n')
        one._poller.do(lambda: one._resting.update(dict.fromkeys(one._resting, 0.0)))
        assert [posted.get(timeout=10) for _ in tasks] == [Ready(member, 1) for member in tasks]
        assert unread == [0, 0]
    finally:
        one.stop()
        for pipe in pipes:
            os.close(pipe)


def waiting(pipe: int) -> int:
    """How many bytes nobody has read yet."""
    return struct.unpack("i", fcntl.ioctl(pipe, termios.FIONREAD, b"\0" * 4))[0]  # type: ignore[no-any-return]


@pytest.mark.parametrize(
    ("options", "is_short"),
    [
        ({}, False),
        ({"stall_timeout": "1s"}, True),
        ({"stall_warning": "0.5s"}, True),
        ({"stall_warning": "0", "stall_timeout": "0"}, False),  # no limit
        ({"stall_timeout": "5s", "stall_warning": "5s"}, False),
    ],
)
def test_a_short_limit_for_stalls_needs_every_step(options: dict[str, str], is_short: bool) -> None:
    """Otherwise steps would be told later than such a limit, and healthy training would be a stall."""
    limits = {name: seconds(text) for name, text in options.items()}
    job = build_job({"program": "x.py", "workers": 2, **limits}, ProgramKind.SCRIPT)
    assert job.tells_every_step == is_short
    steps_apart = watcher.EVERY + watcher.LONGEST_REST
    assert 2 * steps_apart < SHORT_STALL
