"""JAX and Keras on JAX under clusterkit: a gang that loses a worker restarts together and resumes."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.support import CHILDREN, WORKLOADS, Up

pytest.importorskip("jax", reason="JAX is not installed: pip install 'tf-clusterkit[jax]'")
pytestmark = [pytest.mark.process, pytest.mark.slow, pytest.mark.timeout(300)]
Start = Callable[..., Up]


@pytest.mark.parametrize(
    ("convention", "program", "victim"),
    [
        ("jax", ("jax_train.py", "--steps", "60", "--checkpoint-every", "20"), "worker:1"),
        pytest.param(
            "keras", ("keras_jax.py", "--epochs", "3", "--steps-per-epoch", "20"), "worker:0", marks=pytest.mark.long
        ),
    ],
)
def test_a_worker_is_killed(up: Start, convention: str, program: tuple[str, ...], victim: str) -> None:
    """It is the cause; both restart, cold, and resume at the checkpoint before."""
    name, *arguments = program
    fault = f"kill {victim} @ step=35"
    held = (CHILDREN / "waits.py", victim, "35:end")  # where it is killed, so that nobody comes to step 40
    run = up("--workers", "2", "--convention", convention, "--fault", fault, *held, WORKLOADS / name, *arguments,
             "--step-time", "0.05")  # fmt: skip
    assert run.wait(280) == 0, run.output[-4000:]
    (plan,) = run.events("RestartPlanned")
    assert plan["cause"]["task"] == victim
    assert sorted(plan["tasks"]) == ["worker:0", "worker:1"]
    assert {event["step"] for event in run.events("Resumed", attempt=2)} == {20}
    assert {event["forked"] for event in run.events("Spawned")} == {False}
    assert run.result["last_step"] == 60
    (recovery,) = run.result["recoveries"]
    assert recovery["resumed_step"] == 20


def test_a_worker_that_raises_is_the_cause(up: Start) -> None:
    """The other one's error is collateral, and nobody waits for minutes, as JAX does when a process raises."""
    run = up("--workers", "2", "--convention", "jax", "--restart", "never", CHILDREN / "jax_raises.py", WORKLOADS)
    assert run.wait(200) == 1, run.output[-4000:]
    assert (run.result["cause"]["task"], run.result["cause"]["exception"]) == ("worker:1", "ValueError: mine")
    others = [event["failure"]["task"] for event in run.events("Failed") if event["failure"]["task"] != "worker:1"]
    assert [failure["task"] for failure in run.result["collateral"]] == others
    assert others in ([], ["worker:0"]), "one that is slow to notice is ended instead"
