"""The console: a real descriptor, a real thread, and what comes out of them."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from clusterkit.text import redraws
from clusterkit.text.printable import Chunk
from clusterkit.views import console as console_module
from clusterkit.views import repeats
from clusterkit.views.console import Console, Show
from clusterkit.views.prefixed import Prefixer
from tests.histories import job, task

TASKS = job(workers=2, ps=1, evaluator=1).tasks
NOISE = b"I0000 00:00:1763700000.1 1 port.cc:153] oneDNN custom operations are on.\n"


@dataclass
class Screen:
    """A console that writes into a file, and what it has written once it is closed."""

    console: Console
    descriptor: int
    path: Path

    def text(self) -> str:
        """Close the console and read everything."""
        self.console.close()
        return self.path.read_text()

    def lines(self) -> list[str]:
        """The same as lines, without the width of the prefix."""
        return [" ".join(part.rstrip() for part in line.split(" │ ", 1)) for line in self.text().splitlines()]


@pytest.fixture
def screen(tmp_path: Path) -> Iterator[Callable[..., Screen]]:
    """Make a console that shows what is asked for."""
    made: list[Screen] = []

    def make(show: Show | None = None) -> Screen:
        path = tmp_path / f"screen-{len(made)}"
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT, 0o600)
        made.append(Screen(Console(descriptor, TASKS, show or Show()), descriptor, path))
        return made[-1]

    yield make
    for one in made:
        one.console.close()
        os.close(one.descriptor)


def read_to_the_end(console: Console, source: int, sink: int) -> bytes:
    """Read, from now on, what a console writes into a pipe, until it is closed."""
    read: list[bytes] = []
    reader = threading.Thread(target=lambda: read.extend(iter(lambda: os.read(source, 1 << 16), b"")))
    reader.start()
    console.close()
    os.close(sink)
    reader.join()
    os.close(source)
    return b"".join(read)


def write(screen: Screen, name: str, *chunks: bytes, attempt: int = 1, end: bool = True) -> None:
    """A task writes chunks, and ends its output."""
    for chunk in chunks:
        screen.console.output(task(name), attempt, chunk)
    if end:
        screen.console.output(task(name), attempt, b"")


def test_each_line_has_its_task_before_it(screen: Callable[..., Screen]) -> None:
    """Prefixes are as wide as the longest name, and what was taken first is shown first."""
    shown = screen()
    write(shown, "worker:0", b"hello\nwor", b"ld\n", end=False)
    write(shown, "ps:0", b"serving\n")
    shown.console.say("two\nlines")
    write(shown, "worker:0", b"no newline at the end")
    assert shown.text().splitlines() == [
        "worker:0    │ hello",
        "worker:0    │ world",
        "ps:0        │ serving",
        "clusterkit  │ two",
        "clusterkit  │ lines",
        "worker:0    │ no newline at the end",
    ]


def test_lines_of_two_tasks_are_never_mixed(screen: Callable[..., Screen]) -> None:
    """A half line waits for its other half, whoever writes meanwhile, also over attempts."""
    shown = screen()
    write(shown, "worker:0", b"fir", end=False)
    write(shown, "worker:1", b"other\n", end=False)
    write(shown, "worker:0", b"second attempt\n", attempt=2)
    write(shown, "worker:0", b"st\n")
    assert shown.lines() == ["worker:1 other", "worker:0 second attempt", "worker:0 first"]


@pytest.mark.parametrize(
    ("only", "seen"),
    [
        (set(), {"chief:0", "worker:0", "worker:1", "ps:0", "evaluator:0"}),
        ({"worker"}, {"worker:0", "worker:1"}),
        ({"worker:1", "ps"}, {"worker:1", "ps:0"}),
        ({"worker:7"}, set()),
    ],
)
def test_only_shows_the_tasks_that_are_named(screen: Callable[..., Screen], only: set[str], seen: set[str]) -> None:
    """By task or by type; the supervisor's own sentences are always shown."""
    shown = screen(Show(only=frozenset(only)))
    for one in TASKS:
        write(shown, str(one), b"x\n")
    shown.console.say("always")
    assert {line.split()[0] for line in shown.lines()} == seen | {"clusterkit"}


def test_quiet_shows_no_task(screen: Callable[..., Screen]) -> None:
    """Sentences and the report are left."""
    shown = screen(Show(tasks=False))
    write(shown, "worker:0", b"x\n")
    shown.console.say("told", bad=True)
    shown.console.block("report")
    assert shown.text() == "clusterkit  │ told\nreport\n"


@pytest.mark.parametrize(("noise", "count"), [(False, 1), (True, 2)])
def test_noise_is_hidden_unless_it_is_asked_for(screen: Callable[..., Screen], noise: bool, count: int) -> None:
    """TensorFlow's start-up lines stay in the log file."""
    shown = screen(Show(noise=noise))
    write(shown, "worker:0", NOISE, b"step 1\n")
    assert len(shown.lines()) == count


def test_hidden_lines_are_counted_once_before_the_report(screen: Callable[..., Screen]) -> None:
    """Of all attempts, whether they have ended or not; nothing is said where nothing was hidden."""
    shown = screen()
    write(shown, "worker:0", NOISE * 2)
    write(shown, "worker:1", NOISE, b"step 1\n")
    shown.console.block("report")
    shown.console.block("more")
    hidden = "clusterkit 3 lines of TensorFlow's own are hidden; --all-output shows them, and the logs have them."
    assert shown.lines() == ["worker:1 step 1", hidden, "report", "more"]


@pytest.mark.parametrize("noise", [False, True])
def test_a_traceback_of_two_tasks_is_shown_once(screen: Callable[..., Screen], noise: bool) -> None:
    """Unless everything is asked for."""
    shown = screen(Show(noise=noise))
    lines = [b"Traceback (most recent call last):\n", b'  File "x.py", line 1, in f\n', b"E: 1\n"]
    write(shown, "worker:0", *lines)
    write(shown, "worker:1", *lines)
    of_worker_1 = [line.removeprefix("worker:1 ") for line in shown.lines() if line.startswith("worker:1")]
    folded = ["E … 2 lines of traceback as above"]
    assert of_worker_1 == ([line.decode().rstrip() for line in lines] if noise else folded)


def test_of_a_progress_bar_its_last_state_is_shown(screen: Callable[..., Screen]) -> None:
    """Also of one that has no end."""
    shown = screen()
    write(shown, "worker:0", b"".join(b"%d%%\r" % percent for percent in range(100)), b"100%\ndone\n")
    write(shown, "worker:1", b"".join(b"%d%%\b\b\b" % percent for percent in range(100)))
    assert shown.lines() == ["worker:0 100%", "worker:0 done", "worker:1 99%"]


def test_the_state_of_a_bar_that_stops_is_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    """The console wakes by itself: nothing else may ever come."""
    monkeypatch.setattr(redraws, "SHOW_EVERY", 0.1)
    source, sink = os.pipe()
    console = Console(sink, TASKS, Show())
    console.output(task("worker:0"), 1, b"\r1/3\b\b\b\r2/3")
    assert os.read(source, 1 << 16).decode() == "worker:0    │ 2/3\n"
    console.output(task("worker:0"), 1, b"\n")
    console.output(task("worker:0"), 1, b"done\n")
    assert read_to_the_end(console, source, sink).decode() == "worker:0    │ done\n"


def test_who_writes_whole_lines_is_not_looked_at_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """With thousands of tasks, a look at each of them for each line would be all that a run does."""
    looks = list[Prefixer]()
    due = Prefixer.due

    def counted(prefixer: Prefixer, now: float) -> list[Chunk]:
        looks.append(prefixer)
        return due(prefixer, now)

    monkeypatch.setattr(Prefixer, "due", counted)
    monkeypatch.setattr(redraws, "SHOW_EVERY", 0.1)
    tasks = job(workers=300).tasks
    source, sink = os.pipe()
    console = Console(sink, tasks, Show())
    for number, one in enumerate(tasks):
        console.output(one, 1, b"a line\n")
        assert os.read(source, 1 << 16).decode().endswith("a line\n"), number
    console.output(tasks[0], 1, b"a bar: 1/3\r2/3")
    assert os.read(source, 1 << 16).decode() == "worker:0   │ 2/3ar: 1/3\n"
    read_to_the_end(console, source, sink)
    assert 0 < len(looks) < 10


def test_control_characters_and_bytes_that_are_no_text_do_no_harm(screen: Callable[..., Screen]) -> None:
    """The bell is a picture, what is no UTF-8 a replacement character, a character over two chunks whole."""
    shown = screen()
    write(shown, "worker:0", b"ding\x07 \xff\xfe \xe2\x82", b"\xac\n")
    assert shown.lines() == ["worker:0 ding␇ �� €"]


def test_colors_are_shown_only_where_they_are_wanted(screen: Callable[..., Screen]) -> None:
    """Each type of task has its own; without them there is no escape sequence."""
    plain, colored = screen(), screen(Show(color=True))
    for shown in (plain, colored):
        for one in TASKS:
            write(shown, str(one), b"x\n")
        shown.console.say("bad", bad=True)
    assert "\x1b" not in plain.text()
    starts = [line.split("m")[0] for line in colored.text().splitlines()]
    assert all(start.startswith("\x1b[") for start in starts)
    assert len(set(starts)) == 6
    assert starts[-1] == "\x1b[0;31"


def test_a_reader_that_went_away_does_not_disturb(screen: Callable[..., Screen]) -> None:
    """The run goes on: nothing raises, nothing waits."""
    source, sink = os.pipe()
    console = Console(sink, TASKS, Show())
    os.close(source)
    for _ in range(3):
        console.output(task("worker:0"), 1, b"x" * 200_000 + b"\n")
    console.say("still here")
    console.close()
    os.close(sink)


def test_a_descriptor_that_does_not_block_gets_everything() -> None:
    """A terminal that another program made non-blocking loses no line."""
    source, sink = os.pipe()
    os.set_blocking(sink, False)
    console = Console(sink, TASKS, Show())
    console.output(task("worker:0"), 1, b"x\n" * 50_000)
    assert read_to_the_end(console, source, sink) == "worker:0    │ x\n".encode() * 50_000


def test_what_a_slow_terminal_can_not_take_is_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tasks never wait for the terminal; once it reads again it is told how many lines it missed."""
    monkeypatch.setattr(console_module, "BACKLOG", 100_000)
    source, sink = os.pipe()
    console = Console(sink, TASKS, Show())
    chunk = b"x" * 99 + b"\n"
    for _ in range(5_000):  # nobody reads yet: the pipe is full long before the end
        console.output(task("worker:0"), 1, chunk)
    console.output(task("worker:0"), 1, b"")
    lines = read_to_the_end(console, source, sink).decode().splitlines()
    told = [line for line in lines if "lines are not shown, since this terminal is too slow" in line]
    dropped = sum(int(line.split(" │ ")[1].split()[0]) for line in told)
    assert dropped > 1000
    assert len(lines) - len(told) + dropped == 5_000


def test_nothing_is_lost_at_the_end(screen: Callable[..., Screen]) -> None:
    """close writes what waits, also a report that came last."""
    shown = screen()
    write(shown, "worker:0", b"line\n" * 10_000)
    shown.console.block("the report\n")
    text = shown.text()
    assert text.count("line\n") == 10_000
    assert text.endswith("the report\n")


@pytest.mark.parametrize(
    ("show", "merged"), [(Show(group=1), True), (Show(), False), (Show(group=1, noise=True), False)]
)
def test_what_all_workers_print_is_shown_once_on_a_terminal(
    screen: Callable[..., Screen], monkeypatch: pytest.MonkeyPatch, show: Show, merged: bool
) -> None:
    """With the time that the first one took; what one of them says alone keeps its place. --all-output shows all."""
    monkeypatch.setattr(repeats, "WITHIN", 60.0)
    shown = screen(show)
    for parts in ((b"first\n", b"second\n"), (b"Epoch 1\n",) * 2, (b"\r8/8 3s 1ms/step\n", b"\r8/8 4s 9ms/step\n")):
        for index, part in enumerate(parts):
            write(shown, f"worker:{index}", part, end=False)
    lines = [line for line in shown.lines() if line.startswith("worker")]
    own = {"worker:0 first", "worker:1 second"}
    if merged:
        assert ({*lines[:2]}, lines[2:]) == (own, ["worker:* Epoch 1", "worker:* 8/8 3s 1ms/step"])
    else:
        assert {*lines} >= {*own, "worker:0 Epoch 1", "worker:1 Epoch 1", "worker:1 8/8 4s 9ms/step"}
