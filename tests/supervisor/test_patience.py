"""A supervisor that does not react to being asked to end does not keep its run alive: the guardian ends it."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from clusterkit.supervisor.signals import SIGINT, HangDetector, WatchdogAction
from tests.support import CHILDREN, Command, Up, processes_of

Start = Callable[..., Up]
WAIT, TELL, KILL = WatchdogAction.WAIT, WatchdogAction.TERM, WatchdogAction.KILL


@pytest.mark.parametrize(
    ("grows", "second", "result_at", "steps"),
    [
        ((), None, None, {5.0: TELL, 15.0: KILL}),  # nothing moves from the beginning
        ((), 3.0, None, {8.0: KILL}),  # with a second Ctrl-C nobody waits for the tasks
        ((0.25,), None, None, {25.25: KILL}),  # it has reacted, and is stuck then
        ((0.25,), 3.0, None, {18.0: KILL}),
        ((0.25, 10.25, 10.5), None, None, {35.5: KILL}),  # the tasks end, which moves it once more
        ((9.0,), None, None, {5.0: TELL, 34.0: KILL}),  # it was only slow
        ((0.25,), None, 2.0, {}),  # it is about to exit: hooks run
        ((0.25,), 30.0, 2.0, {45.0: KILL}),
    ],
)
def test_when_the_guardian_loses_patience(
    grows: tuple[float, ...], second: float | None, result_at: float | None, steps: dict[float, WatchdogAction]
) -> None:
    """Asked at 0 with a grace period of 10 s; the journal grows at these times, and Ctrl-C comes once more at one."""
    patience, found = HangDetector(grace=10.0, first_signal_at=0.0, size=1000), {}
    for tick in range(1, 401):
        now = tick / 4
        if now == second:
            patience.note_signal(SIGINT, now)
        size = sum(1 for at in grows if at <= now)
        step = patience.next_action(1000 + size, result_at is not None and result_at <= now, now)
        if step is not WAIT:
            found[now] = step
        if step is KILL:
            break
    assert found == steps


@pytest.mark.process
@pytest.mark.slow
@pytest.mark.parametrize("asked", [signal.SIGTERM, signal.SIGINT])
def test_a_stopped_supervisor_does_not_keep_its_run(
    up: Start, home: Path, tmp_path: Path, asked: signal.Signals
) -> None:
    """Its tasks get SIGTERM from the guardian, and their grace period; the result says why the run ended so."""
    saved = tmp_path / "saved"
    script = f"trap 'sleep 0.2; touch {saved}; exit' TERM; echo up; while :; do sleep 0.05; done"
    run = up("--grace-period", "2", "sh", "-c", script)
    run.wait_for("Spawned")
    os.kill(run.supervisor, signal.SIGSTOP)
    run.signal(asked)
    assert run.wait(30) == 1
    assert saved.exists()
    assert f"has not reacted to {asked.name} for 5 s, so its guardian sends SIGTERM to the tasks" in run.output
    unmoved = f"the supervisor did not react to {asked.name} within 7 s"
    assert run.result["reason"] == f"{unmoved} and was killed by its guardian"
    assert processes_of(home) == {}


@pytest.mark.process
@pytest.mark.slow
def test_down_ends_a_run_whose_expression_finds_no_end(
    up: Start, clusterkit: Callable[..., Command], home: Path
) -> None:
    """Nothing in Python can interrupt the search, so it is made in another process, and the supervisor reacts."""
    regex = r"(?:\s|\s\s)*step (\d+)"
    run = up("--run-id", "busy", "--progress-regex", regex, CHILDREN / "spaces.py")
    run.wait_for("Spawned")
    down = clusterkit("down", "--kill", "busy")
    assert down.wait(40) == 0, down.output
    assert down.output == "The run busy was stopped.\n"
    assert run.wait(10) == 143
    assert run.result["state"] == "stopped"
    assert processes_of(home) == {}
