"""The scenarios of programs that know no TensorFlow: many at once, an end on request, a restart."""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path

from benchmarks import ours, usage
from benchmarks.children import Launcher, launched
from benchmarks.jobs import PROGRAMS, honcho, torchrun
from benchmarks.scenario import Competitor, Figures, Scenario

MANY, FEW = 256, 64
OBEDIENT = 8
SLEEP = ("/bin/sleep", "100000")
SHORT = 90.0  # seconds in which any of this has to be over
Measure = Callable[[list[str], Path], Figures]
COUNTING = 0.02  # seconds between two counts of what is up


def many_scenario(start: list[str] | None) -> Scenario:
    """256 tasks of `sleep`: all up, and all down again."""
    return Scenario("many", _launchers(MANY, start, lambda argv, place: _up_and_down(argv, place, MANY)))


def ending_scenario(start: list[str] | None) -> Scenario:
    """Eight tasks that end at once when they are told to: from SIGINT until everything is gone."""
    return Scenario("ending", _launchers(OBEDIENT, start, lambda argv, place: _up_and_down(argv, place, OBEDIENT)))


def growth_scenario() -> Scenario:
    """The supervisor's own processor time for each task, with few tasks and with many."""
    return Scenario("growth", {"clusterkit": _growth})


def restart_scenario(start: list[str] | None) -> Scenario:
    """A plain program that is killed, one of four: from the kill until it runs again."""
    again = "while :; do /bin/sleep 100000; done"
    scripts = " ".join([f"({again}) &"] * 4)
    competitors: dict[str, Competitor] = {
        "clusterkit": lambda place: _killed(
            ours.up("--restart-backoff", "10ms", "--restart-scope", "task", "--workers", "4", *SLEEP), place
        ),
        "shell": lambda place: _killed(["/bin/sh", "-c", f"{scripts} wait"], place),
    }
    if start:
        competitors["torchrun"] = lambda place: _killed(torchrun(start, 4, SLEEP, "--max-restarts", "3"), place)
    return Scenario("plain-restart", competitors)


def _launchers(count: int, start: list[str] | None, measure: Measure) -> dict[str, Competitor]:
    def with_honcho(place: Path) -> Figures:
        (place / "Procfile").write_text(f"sleep: exec {' '.join(SLEEP)}\n")
        return measure(honcho("-c", f"sleep={count}"), place)

    start_all = f'for i in $(seq {count}); do {" ".join(SLEEP)} & pids="$pids $!"; done'
    script = f"trap 'kill $pids; wait; exit 130' INT TERM; {start_all}; wait"
    competitors: dict[str, Competitor] = {
        "clusterkit": lambda place: measure(_quiet(count), place),
        "shell": lambda place: measure(["/bin/sh", "-c", script], place),
        "honcho": with_honcho,
        "limit": lambda place: measure([sys.executable, str(PROGRAMS / "many_bare.py"), str(count), *SLEEP], place),
    }
    if start:
        competitors["torchrun"] = lambda place: measure(torchrun(start, count, SLEEP), place)
    return competitors


def _up_and_down(argv: list[str], place: Path, count: int) -> Figures:
    with launched(argv, place, SHORT, ours.env(place)) as launcher:
        up = _all_up(launcher, count)
        time.sleep(0.5)  # what a launcher still does when its tasks are up is not part of its end
        asked = launcher.interrupt()
        gone = launcher.wait_until_gone()
        return {"up": up - launcher.began, "down": gone - asked, "both": up - launcher.began + gone - asked}


def _all_up(launcher: Launcher, count: int) -> float:
    known = set[int]()
    return launcher.wait_for(
        lambda: usage.count_named(launcher.pid, "sleep", known) >= count, f"{count} tasks up", pause=COUNTING
    )


def _growth(place: Path) -> Figures:
    spent = {count: _supervisor_time(place / str(count), count) for count in (1, FEW, MANY)}
    few, many = ((spent[count] - spent[1]) / (count - 1) * 1000 for count in (FEW, MANY))
    return {"few": few, "many": many, "growth": many / few}


def _supervisor_time(place: Path, count: int) -> float:
    """Seconds of processor time of the supervisor, from its start until just before its end."""
    place.mkdir()
    with launched(_quiet(count), place, SHORT, ours.env(place)) as launcher:
        _all_up(launcher, count)
        supervisor = ours.supervisor(place)
        assert supervisor is not None
        time.sleep(0.5)
        launcher.interrupt()
        spent = 0.0
        while launcher.process.poll() is None and time.monotonic() < launcher.until:
            spent = usage.cpu(supervisor) or spent
            time.sleep(0.005)
        return spent


def _killed(argv: list[str], place: Path) -> Figures:
    with launched(argv, place, SHORT, ours.env(place)) as launcher:
        before = set[int]()
        launcher.wait_for(lambda: usage.count_named(launcher.pid, "sleep", before) >= 4, "4 tasks up")
        time.sleep(1)
        now = time.monotonic()
        os.kill(max(before), signal.SIGKILL)
        seen = set(before)
        back = launcher.wait_for(
            lambda: usage.count_named(launcher.pid, "sleep", seen) > len(before), "the task up again", pause=0.003
        )
        return {"back": back - now}


def _quiet(count: int) -> list[str]:
    return ours.up("--quiet", "--startup-timeout", "0", "--workers", str(count), *SLEEP)
