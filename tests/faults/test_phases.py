"""Faults at the phases of a program that saves by hand: each comes exactly before its system call."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support import CHILDREN, Up

pytestmark = [pytest.mark.process, pytest.mark.timeout(90)]
FAST = ("--workers", "1", "--restart-backoff", "10ms", "--restart-budget", "20")


def found(run: Up, attempt: int) -> str:
    """What an attempt found in the checkpoint directory when it began."""
    return run.log("worker:0", attempt).decode().splitlines()[0]


@pytest.mark.parametrize(
    ("phase", "left"),
    [
        ("saving", "found []"),
        ("saving-open", "found []"),
        ("saving-write", "found [('state.tmp', 0)]"),
        ("saving-sync", "found [('state.tmp', 1)]"),
        ("saving-rename", "found [('state.tmp', 1)]"),
        ("saved", "found [('state', 1)]"),
        ("saving-open:2", "found [('state', 1)]"),
        ("saving-write:2", "found [('state', 1), ('state.tmp', 0)]"),
        ("ending", "found [('state', 1)]"),
    ],
)
def test_a_kill_comes_exactly_before_each_call_of_a_save(up: Callable[..., Up], phase: str, left: str) -> None:
    """What is on the disk afterwards is what the calls before have written."""
    run = up(*FAST, "--fault", f"kill worker:0 @ phase={phase}", CHILDREN / "phased.py", "2")
    assert run.wait(60) == 0, run.output
    assert found(run, 2) == left
    assert run.events("PhaseReached", phase=phase.partition(":")[0])
    assert len(run.events("Spawned")) == 2


def test_a_kill_before_a_checkpoint_is_read(up: Callable[..., Up]) -> None:
    """There is one from the second attempt on."""
    faults = ("--fault", "kill worker:0 @ phase=saved", "--fault", "kill worker:0 @ phase=restoring")
    run = up(*FAST, *faults, CHILDREN / "phased.py", "2")
    assert run.wait(60) == 0, run.output
    assert [found(run, attempt) for attempt in (1, 2, 3)] == ["found []", *["found [('state', 1)]"] * 2]
    assert [event["attempt"] for event in run.events("PhaseReached", phase="restoring")] == [2, 3]


def test_a_task_that_is_terminated_or_stopped_at_a_phase_goes_on_as_it_would(up: Callable[..., Up]) -> None:
    """SIGTERM ends it there; SIGSTOP holds it before the call, and then it makes the call."""
    stop, term = ("stop worker:0 for=300ms @ phase=saving-rename", "term worker:0 @ phase=saved")
    run = up(*FAST, "--fault", stop, "--fault", term, CHILDREN / "phased.py", "2")
    assert run.wait(60) == 0, run.output
    assert found(run, 2) == "found [('state', 1)]"
    assert [event["action"] for event in run.events("FaultHealed")] == ["stop"]


@pytest.mark.parametrize("program", [(CHILDREN / "phased.py", "1"), ("true",)])
def test_a_phase_that_is_never_reached_is_named(up: Callable[..., Up], program: tuple[str | Path, ...]) -> None:
    """The run proves nothing; a command may start no Python program that has the phase."""
    run = up(*FAST, "--fault", "kill worker:0 @ phase=exporting", *program)
    assert run.wait(60) == 3, run.output
    assert "worker:0 never reached the phase exporting" in run.output


@pytest.mark.parametrize(
    ("program", "fault", "why"),
    [
        ("phased.py", "kill worker:0 @ phase=saving:x", "phase=saving:2 is the second time"),
        ("phased.py", "kill worker:0 @ phase=sleeping", "There are importing, starting, saving"),
    ],
)
def test_what_can_have_no_such_fault(up: Callable[..., Up], program: str, fault: str, why: str) -> None:
    """Nothing is started."""
    run = up(*FAST, "--fault", fault, CHILDREN / program)
    assert run.wait(60) == 2
    assert why in run.output
