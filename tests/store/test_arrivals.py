"""Log pieces and lines: read back in the order in which they came."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from clusterkit.store.arrivals import MOST_OPEN, Arrivals, Piece
from clusterkit.store.directory import RunDirectory
from clusterkit.views.loglines import LineMaker, LogLine
from tests.histories import task

W0, W1 = task("worker:0"), task("worker:1")


class Run:
    """A run directory in which tasks write."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.clock = 0.0
        (path / "tasks").mkdir(parents=True)

    def writes(self, name: str, data: bytes, attempt: int = 1, noted: bool = True) -> None:
        """A task writes a chunk, which the supervisor notes unless it is killed just then."""
        self.clock += 1.0
        log = self.path / "tasks" / name / f"attempt-{attempt}.log"
        log.parent.mkdir(exist_ok=True)
        with log.open("ab") as file:
            file.write(data)
        if noted:
            with (self.path / "tasks/arrivals").open("ab") as file:
                file.write(b"%.6f %b %d %d\n" % (self.clock, name.encode(), attempt, log.stat().st_size))


@pytest.fixture
def run(tmp_path: Path) -> Run:
    """An empty one."""
    return Run(tmp_path / "run")


@pytest.fixture
def arrivals(run: Run) -> Iterator[Arrivals]:
    """The reader of its logs."""
    reader = Arrivals(RunDirectory(run.path))
    yield reader
    reader.close()


def test_pieces_come_in_the_order_of_arrival(run: Run, arrivals: Arrivals) -> None:
    """Each once, with its time, its task and its bytes."""
    assert arrivals.new() == []
    run.writes("worker:0", b"a")
    run.writes("worker:1", b"bb\n")
    run.writes("worker:0", b"c\n")
    pieces = arrivals.new()
    assert [(p.at, p.task, p.start, p.end) for p in pieces] == [(1.0, W0, 0, 1), (2.0, W1, 0, 3), (3.0, W0, 1, 3)]
    assert [arrivals.read(piece) for piece in pieces] == [b"a", b"bb\n", b"c\n"]
    assert arrivals.new() == []
    run.writes("worker:0", b"again", attempt=2)
    assert [(p.attempt, arrivals.read(p)) for p in arrivals.new()] == [(2, b"again")]


def test_what_was_not_noted_any_more_comes_at_the_end(run: Run, arrivals: Arrivals) -> None:
    """The log is there even where the supervisor died before it noted the arrival."""
    run.writes("worker:0", b"noted\n")
    run.writes("worker:0", b"not noted\n", noted=False)
    with (run.path / "tasks/arrivals").open("ab") as file:
        file.write(b"17.0 worker:0 1")
    assert [arrivals.read(piece) for piece in arrivals.new()] == [b"noted\n"]
    assert [arrivals.read(piece) for piece in arrivals.rest()] == [b"not noted\n"]
    assert arrivals.rest() == []


def test_the_last_lines_begin_where_a_line_begins(run: Run, arrivals: Arrivals) -> None:
    """Also where its beginning came long before its end."""
    run.writes("worker:0", b"one\ntwo\nthr")
    run.writes("worker:1", b"x" * 10_000)
    run.writes("worker:1", b"x\ny\n")
    run.writes("worker:0", b"ee\nfour\n")
    pieces = arrivals.new()

    def last(count: int) -> list[bytes]:
        return [arrivals.read(piece) for piece in arrivals.last_lines(pieces, count)]

    assert last(1) == [b"four\n"]
    assert last(2) == [b"three\nfour\n"]
    assert last(3) == [b"y\n", b"three\nfour\n"]
    assert last(4) == [b"thr", b"x" * 10_000, b"x\ny\n", b"ee\nfour\n"]
    assert last(100) == [b"one\ntwo\nthr", b"x" * 10_000, b"x\ny\n", b"ee\nfour\n"]


def lines_of(*chunks: tuple[float, str, int, bytes]) -> list[tuple[float, str]]:
    """What the chunks are as lines."""
    maker = LineMaker()
    made = [line for at, name, attempt, data in chunks for line in maker.feed(at, task(name), attempt, data)]
    return [(line.at, line.text) for line in [*made, *maker.end_all()]]


def test_a_line_is_where_its_end_is() -> None:
    """Among the lines of the others; what has no end comes last."""
    assert lines_of(
        (1.0, "worker:0", 1, b"he"), (2.0, "worker:1", 1, b"there\nhalf"), (3.0, "worker:0", 1, b"re\n")
    ) == [(2.0, "there"), (3.0, "here"), (2.0, "half")]  # fmt: skip


def test_a_new_attempt_ends_the_line_of_the_old_one() -> None:
    """The two do not run together, and characters cut in two stay apart."""
    assert lines_of((1.0, "worker:0", 1, b"old\xe2\x82"), (2.0, "worker:0", 2, b"\xacnew\n")) == [
        (1.0, "old�"), (2.0, "�new")
    ]  # fmt: skip


def test_of_a_progress_bar_the_last_state_is_shown() -> None:
    """It is overwritten by what follows, and stays where nothing does."""
    assert lines_of((1.0, "worker:0", 1, b"1/3\r2/3\r3/3\ndone\n")) == [(1.0, "3/3"), (1.0, "done")]
    assert lines_of((1.0, "worker:0", 1, b"1/3\r2/3\r")) == [(1.0, "2/3")]


def test_the_state_of_a_bar_is_shown_after_a_while() -> None:
    """To those who follow a run; what is complete then is not shown twice."""
    maker = LineMaker()
    assert list(maker.feed(1.0, task("worker:0"), 1, b"1/3\r2/3")) == []
    assert list(maker.due(10.9)) == []
    assert [(line.at, line.text) for line in maker.due(11.0)] == [(1.0, "2/3")]
    assert list(maker.feed(12.0, task("worker:0"), 1, b"\n")) == []


def test_the_logs_of_very_many_attempts_are_not_all_open(run: Run, arrivals: Arrivals) -> None:
    """A process may have few descriptors; the output of those beyond that would be missing."""
    count, before = MOST_OPEN + 20, len(set(Path("/proc/self/fd").iterdir()))
    for attempt in range(1, count + 1):
        run.writes("worker:0", b"%d\n" % attempt, attempt)
    pieces = arrivals.new()
    for _ in range(2):
        assert b"".join(map(arrivals.read, pieces)) == b"".join(b"%d\n" % n for n in range(1, count + 1))
    assert len(set(Path("/proc/self/fd").iterdir())) <= before + MOST_OPEN


@pytest.mark.timeout(20)
def test_a_log_that_was_emptied_has_no_lines(run: Run, arrivals: Arrivals) -> None:
    """Such as one of a long run, to make room; looking for the beginning of a line there has an end."""
    run.writes("worker:0", b"a long line")
    run.writes("worker:0", b", and its end\n")
    (run.path / "tasks/worker:0/attempt-1.log").write_bytes(b"")
    pieces = arrivals.whole_lines(arrivals.new()[1:])
    assert b"".join(map(arrivals.read, pieces)) == b""


@pytest.mark.timeout(20)
@pytest.mark.parametrize("noted", [False, True])
def test_what_is_no_log_is_not_read(run: Run, arrivals: Arrivals, tmp_path: Path, noted: bool) -> None:
    """A task can put a pipe in the place of one, which nobody waits for, or a link to another file."""
    (tmp_path / "secret").write_text("secret\n")
    for attempt in range(1, 5):
        run.writes("worker:0", b"output\n", attempt, noted)
    pipe, link, broken = (run.path / f"tasks/worker:0/attempt-{attempt}.log" for attempt in (1, 2, 3))
    for log in (pipe, link, broken):
        log.unlink()
    os.mkfifo(pipe)
    link.symlink_to(tmp_path / "secret")
    broken.symlink_to(tmp_path / "nowhere")
    pieces = arrivals.whole_lines([*arrivals.new(), *arrivals.rest()])
    assert b"".join(map(arrivals.read, pieces)) == b"output\n"


@pytest.mark.parametrize(
    "line",
    [
        b"1.0 worker:0 1 -5", b"nan worker:0 1 9", b"1e300 worker:0 1 9", b"-1 worker:0 1 9", b"1.0 worker:0 1 2",
        b"1.0 worker:0 1 999999999999999", b"1.0 worker:0 1 %d" % 10**30, b"1.0 worker:0", b"\xff \xff \xff \xff",
    ],
)  # fmt: skip
def test_a_damaged_line_is_no_error(run: Run, arrivals: Arrivals, line: bytes) -> None:
    """And what the logs contain is read nevertheless, once."""
    run.writes("worker:0", b"a\nb\n")
    with (run.path / "tasks/arrivals").open("ab") as file:
        file.write(line + b"\n")
    run.writes("worker:0", b"c\n")
    pieces = [*arrivals.new(), *arrivals.rest()]
    assert b"".join(map(arrivals.read, pieces)) == b"a\nb\nc\n"
    assert all(0 <= piece.at < 1e11 for piece in pieces)


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    chunks=st.lists(
        st.tuples(st.sampled_from(["worker:0", "worker:1"]), st.text("ab\n", min_size=1, max_size=6)), max_size=12
    ),
    count=st.integers(1, 6),
)
def test_the_last_lines_are_the_last_of_all_lines(
    tmp_path_factory: pytest.TempPathFactory, chunks: list[tuple[str, str]], count: int
) -> None:
    """Whatever the chunks: reading the end only makes the same lines as reading everything."""
    run = Run(tmp_path_factory.mktemp("runs") / "run")
    for name, text in chunks:
        run.writes(name, text.encode())
    arrivals = Arrivals(RunDirectory(run.path))
    pieces = arrivals.new()

    def made(of: list[Piece]) -> list[LogLine]:
        maker = LineMaker()
        return [line for p in of for line in maker.feed(p.at, p.task, p.attempt, arrivals.read(p))][-count:]

    everything, end = made(pieces), made(arrivals.last_lines(pieces, count))
    arrivals.close()
    assert end == everything
