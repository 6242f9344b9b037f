"""Commands on a real terminal: the status line, and its absence elsewhere."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.environment import ROOT, clean_environment
from tests.support import CHILDREN, processes_of, wait_until
from tests.terminal import Terminal, frames, on_terminal, resize

pytestmark = [pytest.mark.process, pytest.mark.slow]

STEPPING = CHILDREN / "stepping.py"
STATUS = r"2 running · step [ \d]\d of 60 · ━+─+ +\d+%( · \d+\.\d steps/s)? · \d+ s"


def seen(text: str, columns: int = 80) -> list[str]:
    """What is to be seen on a terminal in the end."""
    *_, last = frames(text, columns)
    return last


def test_a_status_line_stays_below_the_output_until_the_end(home: Path) -> None:
    """With a bar, since the number of steps is known; in the end, only lines are left."""
    go = home.parent / "go"
    with on_terminal(home, "up", "--workers", "2", STEPPING, "60", "--until", go) as up:
        up.read_until(lambda text: re.fullmatch(STATUS, (seen(text) or [""])[-1]))
        go.touch()
        text = up.finish()
        assert up.process.returncode == 0
    left = seen(text)
    assert not [line for line in left if "running" in line]
    for worker in ("worker:0", "worker:1"):
        lines = [line for line in left if line.startswith((worker, "worker:*"))]  # what both print comes once
        assert [line.partition(" │ ")[2] for line in lines] == [f"line {n}" for n in range(1, 61)]


@pytest.mark.parametrize("term", ["dumb", ""])
def test_a_terminal_that_can_not_overwrite_has_none(home: Path, term: str) -> None:
    """Nor has one that nobody knows."""
    with on_terminal(home, "up", "--no-color", STEPPING, "10", TERM=term) as up:
        text = up.finish()
    assert "line 10" in text
    assert "\x1b" not in text
    assert "\r" not in text
    assert "running" not in text


def test_a_pipe_has_none(home: Path) -> None:
    """Nor has the output of a run in the background."""
    ran = subprocess.run(
        [sys.executable, "-m", "clusterkit", "up", STEPPING, "10"],
        stdin=subprocess.DEVNULL, capture_output=True, text=True, cwd=ROOT, env=clean_environment(home), timeout=30,
    )  # fmt: skip
    assert "line 10" in ran.stdout
    assert not re.search("\x1b|\r|running", ran.stdout)


def test_the_answer_to_ctrl_c_stays_as_long_as_it_waits(home: Path) -> None:
    """Lines that come meanwhile do not scroll it away; the ^C that the terminal writes breaks nothing."""
    waits = "Waiting up to 10 s for worker:0; Ctrl-C again kills."
    with on_terminal(home, "up", "--no-color", STEPPING, "600", "ignore") as up:
        up.read_until(lambda text: "line 5\n" in text)
        up.press(b"\x03")
        text = up.read_until(lambda text: waits in text)
        more = up.read_until(lambda now: now[len(text) :].count("│ line") > 20 and now.endswith(waits))
        assert seen(more)[-1] == waits
        resize(up.master, 40)
        up.press(b"\x03")
        last = up.finish()
        assert up.process.returncode == 130
    before, up_a_row, after = last.partition("\r\x1b[1A")  # the answer has two rows from now on
    assert up_a_row
    terminal = Terminal(80)
    terminal.write(before)
    terminal.resize(40)
    terminal.write(up_a_row + after)
    left = terminal.lines()
    assert not [line for line in left if line.startswith(("Waiting up", "1 running"))]
    numbers = [int(line.rpartition(" ")[2]) for line in left if "│ line" in line]
    assert numbers == list(range(1, len(numbers) + 1))


def test_attach_has_one_as_well(home: Path) -> None:
    """From the events before it came."""
    with on_terminal(home, "up", "-d", "--run-id", "r", STEPPING, "200") as up:
        assert "running" not in up.finish().partition("\nr\n")[2]
    with on_terminal(home, "attach", "r") as attach:
        attach.read_until(lambda text: re.search(r"1 running · step +\d+ of 200 · ", text))
        attach.press(b"\x03")
        assert "continues. Stop it with" in attach.finish().splitlines()[-1]
    with on_terminal(home, "down", "r", "--kill") as down:
        down.finish()
    wait_until(lambda: not processes_of(home), 5, "the guardian's end")


@pytest.mark.slow
def test_a_campaign_has_a_line_for_each_run_and_a_bar_below(home: Path) -> None:
    """In the end there are the lines alone."""
    command = (
        "chaos",
        "--runs",
        "2",
        "--seed",
        "20",
        "--actions",
        "kill",
        "--restart-backoff",
        "0.1",
        "--workers",
        "2",
    )
    program = (CHILDREN / "mimic.py", "--steps", "20", "--every", "10")
    with on_terminal(home, *command, *program) as chaos:
        bar = re.compile(r"━+─+ 1 of 2 runs")
        chaos.read_until(lambda text: any(bar.fullmatch(lines[-1]) for lines in frames(text) if lines), deadline=60)
        left = seen(chaos.finish(60))
        assert chaos.process.returncode == 0
    runs = [line for line in left if re.match(r"✔ run [12] of 2 +\d+(\.\d)? s  kill ", line)]
    assert len(runs) == 2
    assert any(line.startswith("✔ 2 of 2 runs passed") for line in left)
    assert not [line for line in left if "━" in line or "─" in line]


@pytest.mark.parametrize("columns", [50, 80])
def test_tables_fit_into_the_terminal(home: Path, columns: int) -> None:
    """`top` draws each frame over the one before it."""
    with on_terminal(home, "up", "-d", "--run-id", "r", "--workers", "3", STEPPING, "400") as up:
        up.finish()
    with on_terminal(home, "top", "--count", "3", "-i", "0.2", columns=columns) as top:
        text = top.finish()
    assert (text.count("\x1b[2J"), text.count("\x1b[H")) == (1, 4)
    lines = [line for line in seen(text, columns) if line]
    begins = [line.split()[0] for line in lines]
    assert (begins[:2], begins[-4:]) == (["run", "Training:"], ["TASK", "worker:0", "worker:1", "worker:2"])
    with on_terminal(home, "ps", columns=columns) as ps:
        lines += ps.finish().splitlines()
    with on_terminal(home, "ls", columns=columns) as ls:
        lines += ls.finish().splitlines()
    assert max(map(len, lines)) <= columns
    with on_terminal(home, "down", "--kill") as down:
        down.finish()
    wait_until(lambda: not processes_of(home), 5, "the guardian's end")
