"""Random deaths, many of them, with real TensorFlow: for `make soak`; test_recovery.py has the short slice."""

from __future__ import annotations

import random
from collections.abc import Callable
from functools import partial

import pytest

from tests.e2e.test_recovery import check_resumptions
from tests.support import WORKLOADS, Up, wait_until

pytestmark = [pytest.mark.tensorflow, pytest.mark.both_starts, pytest.mark.soak, pytest.mark.timeout(400)]

SHAPES = {
    "ps": ("--workers", "2", "--ps", "2", WORKLOADS / "ps_train.py"),
    "gang": ("--workers", "3", WORKLOADS / "mwms_train.py"),
}
STEPS = 600


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("seed", range(10))
def test_random_deaths_are_survived(up: Callable[..., Up], shape: str, seed: int) -> None:
    """Any tasks, killed at any steps, one after the other: the job ends at the step asked for."""
    rng = random.Random(f"{shape}/{seed}")
    steps = sorted(rng.sample(range(1, STEPS - 100), 3))
    print(f"seed {seed}: deaths at the steps {steps}")
    pace = ("--steps", STEPS, "--checkpoint-every", "50", "--step-time", "0.02")
    run = up("--restart-budget", "10", *SHAPES[shape], *pace)
    after = 0.0
    for step in steps:
        run.wait_for_step(step, deadline=200, after=after)
        victim = rng.choice(sorted(run.pids()))
        # A chief that is about to end may have reported the step, and the victim be the one that died before.
        wait_until(partial(lives, run, victim), 100, f"an attempt of {victim}")
        print(f"killing {victim}")
        planned, starts = len(run.events("RestartPlanned")), len(run.events("Spawned", task=victim))
        run.kill(victim)
        run.wait_for("RestartPlanned", deadline=60, count=planned + 1)
        # Steps until then may be those of a gang that is being ended, of which no death is a failure of its own.
        after = run.wait_for("Spawned", deadline=100, count=starts + 1, task=victim)["m"]
    assert run.wait(300) == 0, run.output[-4000:]
    assert run.result["last_step"] == STEPS
    check_resumptions(run)


def lives(run: Up, task: str) -> bool:
    """Whether the task's last attempt has not ended, as far as the run knows."""
    return len(run.events("Spawned", task=task)) > len(run.events("Exited", task=task))
