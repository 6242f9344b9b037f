"""Profiles with real TensorFlow, of a parameter-server job: the coordinator's and those of its servers."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support import WORKLOADS, Command, Up

pytestmark = [pytest.mark.tensorflow, pytest.mark.timeout(240)]


def test_every_task_writes_a_profile_of_a_few_steps(clusterkit: Callable[..., Command], up: Callable[..., Up]) -> None:
    """None of them is empty, each tells of what only its task does, and training goes on."""
    run = up("--workers", "1", "--ps", "1", WORKLOADS / "ps_train.py", "--steps", "100000", "--step-time", "0.02")
    run.wait_for_step(20, deadline=120)
    asked = clusterkit("profile", run.run.name, "--steps", "5", "--json")
    assert asked.wait(90) == 0, asked.output
    profiles = {task: told["path"] for task, told in json.loads(asked.output).items()}
    assert set(profiles) == {"chief:0", "worker:0", "ps:0"}
    traces = {task: Path(path).read_bytes() for task, path in profiles.items()}
    assert all(path.endswith(".xplane.pb") for path in profiles.values())
    assert b"MatMul" in traces["worker:0"]
    assert b"ResourceApply" in traces["ps:0"] or b"AssignSub" in traces["ps:0"]
    assert b"FunctionRun" in traces["chief:0"]
    asked_at = run.events("Profiled")[-1]["m"]
    run.wait_for_step(1, deadline=60, after=asked_at)
    assert run.process.poll() is None
