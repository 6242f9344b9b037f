"""A slow task is found and named, and no fault names nobody, with real TensorFlow."""

from __future__ import annotations

import random
import signal
from collections.abc import Callable

import pytest

from tests.support import WORKLOADS, Up, wait_until

pytestmark = [pytest.mark.tensorflow, pytest.mark.timeout(400)]
SHAPES = {"ps": ("--ps", "1", WORKLOADS / "ps_train.py"), "gang": (WORKLOADS / "mwms_train.py",)}
SEEDS = [pytest.param(seed, marks=pytest.mark.soak if seed else ()) for seed in range(20)]
LOOKS = 8  # without a name, of which each five in a row are compared
Start = Callable[..., Up]


@pytest.mark.long
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("seed", SEEDS)
def test_a_slow_worker_is_named(up: Start, shape: str, seed: int) -> None:
    """The one that `slow worker:1 share=20%` hits, nobody else, and once; until it is healed."""
    rng = random.Random(f"slow {shape}/{seed}")
    workers, step_time, step = rng.choice((2, 3)), rng.choice((0.0, 0.01)), rng.randrange(20, 200)
    print(f"seed {seed}: {workers} workers, {step_time} s, from step {step} on")
    fault = f"slow worker:1 share=20% @ step={step}"
    run = up("--workers", workers, "--fault", fault, *SHAPES[shape], "--steps", 10**6, "--step-time", step_time)
    run.wait_for("FaultInjected", deadline=200)
    named = run.wait_for("Straggling", deadline=150)
    assert named["task"] == "worker:1"
    assert named["factor"] > 1.2
    wait_until(lambda: "worker:1 is about" in run.output, 20, "the sentence")
    run.signal(signal.SIGINT)
    assert run.wait(60) == 130
    assert [event["task"] for event in run.events("Straggling")] == ["worker:1"]


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("seed", [pytest.param(seed, marks=pytest.mark.soak) for seed in range(20)])
def test_where_no_task_is_slow_nobody_is_named(up: Start, shape: str, seed: int) -> None:
    """In more than half a minute of training; the shorter workloads elsewhere make the rest of the slice."""
    rng = random.Random(f"none {shape}/{seed}")
    workers, step_time = rng.choice((2, 3)), rng.choice((0.0, 0.01))
    print(f"seed {seed}: {workers} workers, {step_time} s")
    run = up("--workers", workers, *SHAPES[shape], "--steps", 10**6, "--step-time", step_time)
    run.wait_for("Inspected", deadline=300, count=LOOKS + 4, look="pace")
    run.signal(signal.SIGINT)
    assert run.wait(60) == 130
    assert run.events("Straggling") == []
