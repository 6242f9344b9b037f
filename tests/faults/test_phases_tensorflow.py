"""Faults at the phases of a program that uses Keras and TensorFlow's CheckpointManager."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest

from tests.support import CHILDREN, Up

pytestmark = [pytest.mark.tensorflow, pytest.mark.timeout(240)]
ONE = ("ckpt-1.data-00000-of-00001", "ckpt-1.index")
TWO = (*ONE, "ckpt-2.data-00000-of-00001", "ckpt-2.index")


def train(up: Callable[..., Up], *phases: str) -> Up:
    """A job of two steps that is killed once in each of these phases."""
    faults = [word for phase in phases for word in ("--fault", f"kill worker:0 @ phase={phase}")]
    options = ("--workers", "1", "--restart-backoff", "10ms", "--restart-backoff-max", "10ms", "--restart-budget", "20")
    run = up(*options, *faults, CHILDREN / "phased_tf.py", "2")
    assert run.wait(200) == 0, run.output
    assert len(run.events("Spawned")) == len(phases) + 1
    return run


def check(run: Up, attempts: Sequence[tuple[Sequence[str], int | None]]) -> None:
    """What each attempt found, and the step at which it began, if it came so far."""
    for number, (names, step) in enumerate(attempts, 1):
        lines = run.log("worker:0", number).decode().splitlines()
        assert [line.split()[1:] for line in lines if line.startswith("found")] == [list(names)], number
        assert [line for line in lines if line.startswith("begins")] == ([] if step is None else [f"begins at {step}"])


def test_a_program_recovers_from_kills_while_it_saves(up: Callable[..., Up]) -> None:
    """Before anything is written; before the parts are renamed; after all of it; and while the next one is read."""
    run = train(up, "saving-write", "saving-rename", "saved", "restoring")
    check(run, [((), 0), ((), 0), (("ckpt-1_temp",), 0), (ONE, None), (ONE, 1)])


@pytest.mark.long
def test_a_program_recovers_from_kills_in_its_other_phases(up: Callable[..., Up]) -> None:
    """Its import, its first step, its evaluation, its export and its end."""
    run = train(up, "starting", "evaluating", "exporting", "ending")
    check(run, [((), 0), ((), 0), (TWO, 2), (TWO, 2), (TWO, 2)])
    saved = ["saved the model" in run.log("worker:0", number).decode() for number in range(1, 6)]
    assert saved == [False, False, False, True, True]
    phases = {event["phase"] for event in run.events("PhaseReached", attempt=5)}
    assert phases >= {"importing", "restoring", "evaluating", "exporting", "saving-open", "saving-write", "ending"}
