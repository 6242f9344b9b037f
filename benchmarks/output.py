"""The scenario of output: four tasks that write short lines as fast as they are read."""

from __future__ import annotations

import os
import time
from pathlib import Path

from benchmarks import ours
from benchmarks.children import Launcher, launched
from benchmarks.jobs import PROGRAMS, honcho, torchrun
from benchmarks.scenario import Competitor, Figures, Scenario

TASKS = 4
LINES = 1 << 15  # in a megabyte, nearly
LINE = b"step %9d loss 0.%04d\n"  # 27 bytes
END = b"the last line of this task\n"
# Rates are compared, so each writes what it can move in a few seconds: megabytes of each task.
FAST, MIDDLING, SLOW = 128, 8, 1
LONG = 120.0
POUR = str(PROGRAMS / "pour.sh")


def output_scenario(start: list[str] | None) -> Scenario:
    """Merged and prefixed into a file, which is no terminal; `files` keeps the tasks' logs alone."""
    competitors: dict[str, Competitor] = {
        "clusterkit": lambda place: _poured(ours.up("--workers", "4", *_words(place, FAST)), place, FAST),
        "files": lambda place: _poured(
            ours.up("--quiet", "--workers", "4", *_words(place, FAST)), place, FAST, place / ours.HOME
        ),
        "limit": lambda place: _poured(_cat(place), place, FAST),
        "shell": lambda place: _poured(_sed(place), place, MIDDLING),
        "honcho": _honcho,
    }
    if start:
        competitors["torchrun"] = lambda place: _poured(
            torchrun(start, TASKS, _words(place, SLOW), "--log-dir", "logs", "--tee", "3"), place, SLOW
        )
    return Scenario("output", competitors)


def _poured(argv: list[str], place: Path, megabytes: int, logs: Path | None = None) -> Figures:
    with launched(argv, place, LONG, ours.env(place)) as launcher:
        ended = launcher.wait_for_exit()
        files = [launcher.output] if logs is None else sorted(logs.rglob("attempt-1.log"))
        return _figures(place, megabytes, ended, sum(_lines(file) for file in files))


def _honcho(place: Path) -> Figures:
    """The first task that ends would end the others with it, so they stay, and the output tells that all is there."""
    words = " ".join(_words(place, SLOW))
    (place / "Procfile").write_text(f"task: {words}; exec sleep 1000\n")
    with launched(honcho("-c", f"task={TASKS}"), place, LONG) as launcher:
        ended = launcher.wait_for(lambda: _is_all_there(launcher), "all output", pause=0.02)
        return _figures(place, SLOW, ended, _lines(launcher.output))


def _is_all_there(launcher: Launcher) -> bool:
    with launcher.output.open("rb") as file:
        file.seek(max(0, os.fstat(file.fileno()).st_size - 100_000))
        near_its_end = END in file.read()
    return near_its_end and _ends(launcher.output) == TASKS


def _words(place: Path, megabytes: int) -> list[str]:
    """A task: notes when it begins, then writes the lines."""
    lines = place.parent / f"lines-{megabytes}"  # for all runs
    if not lines.exists():
        block = b"".join(LINE % (number, number % 10_000) for number in range(LINES))
        lines.write_bytes(block * megabytes + END)
    return [POUR, str(place), str(lines)]


def _cat(place: Path) -> list[str]:
    pour = " ".join(_words(place, FAST))
    return ["/bin/sh", "-c", f"({f'{pour} & ' * TASKS} wait) | cat"]


def _sed(place: Path) -> list[str]:
    pour = " ".join(_words(place, MIDDLING))
    each = "".join(f"{pour} | sed -u 's/^/worker:{n} | /' & " for n in range(TASKS))
    return ["/bin/sh", "-c", f"{each} wait"]


def _figures(place: Path, megabytes: int, ended: float, shown: int) -> Figures:
    """What came out, in millions of bytes of the tasks a second; a launcher may leave lines out to keep up."""
    wall = time.time() - (time.monotonic() - ended)
    began = min(float(file.read_text()) for file in place.glob("began.*"))
    size = len(LINE % (0, 0)) * min(shown, LINES * megabytes * TASKS)
    return {"rate": size / 1e6 / (wall - began), "shown": 100 * size / (TASKS * megabytes * LINES * len(LINE % (0, 0)))}


def _lines(file: Path) -> int:
    with file.open("rb") as opened:
        return sum(chunk.count(b"\n") for chunk in iter(lambda: opened.read(1 << 20), b""))


def _ends(file: Path) -> int:
    """How many tasks' last lines are there."""
    return file.read_bytes().count(END)
