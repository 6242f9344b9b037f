"""Cores and GPUs of a task's own, with a stand-in for the tool that tells of GPUs."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from clusterkit.task import entry
from tests.support import CHILDREN, Command, Up

pytestmark = [pytest.mark.process, pytest.mark.slow, pytest.mark.timeout(60)]

SHARED = CHILDREN / "shared.py"
CORES = sorted(os.sched_getaffinity(0))
START = {"warm": ("--preload", "preloads.good"), "cold": ("--start", "cold")}
FOUR = "".join(f"echo '{number}, GPU-{number}{number}'\n" for number in range(4))
Start = Callable[..., Up]
Resolve = Callable[..., Command]


def told(run: Up, task: str, attempt: int = 1) -> dict[str, Any]:
    """What an attempt of shared.py says of itself."""
    said: dict[str, Any] = json.loads(run.log(task, attempt))
    return said


def own(number: int) -> list[int]:
    """The one core of the task that comes as that one, from 0, when cores are handed out."""
    return [CORES[number % len(CORES)]]


@pytest.fixture
def tool(tmp_path: Path) -> Callable[[str], dict[str, str]]:
    """An environment whose PATH has just this nvidia-smi."""

    def make(script: str) -> dict[str, str]:
        file = tmp_path / "bin" / "nvidia-smi"
        file.parent.mkdir(exist_ok=True)
        file.write_text(f"#!/bin/sh\n{script}\n")
        file.chmod(0o755)
        return {"PATH": str(file.parent)}

    return make


@pytest.mark.parametrize("start", START)
def test_every_attempt_runs_on_the_cores_of_its_task(up: Start, start: str) -> None:
    """With as many threads, of which none was made before; the fork server had the same numbers for its imports."""
    options = ("--workers", "2", "--evaluator", "--cpus-per-task", "1", "--restart-scope", "task")
    run = up(*options, *START[start], "--restart-backoff", "0", SHARED, "worker:0", env={"OMP_NUM_THREADS": "7"})
    assert run.wait(30) == 0, run.output
    for number, task, attempt in ((0, "worker:0", 1), (0, "worker:0", 2), (1, "worker:1", 1), (2, "evaluator:0", 1)):
        said = told(run, task, attempt)
        assert (said["warm"], said["cores"]) == (start == "warm", [own(number)])
        numbers = {name: value for name, value in said["variables"].items() if "THREADS" in name}
        assert numbers == {"OMP_NUM_THREADS": "1", "TF_NUM_INTRAOP_THREADS": "1", "TF_NUM_INTEROP_THREADS": "2"}
    assert run.events("Noted", server="cold") == []
    assert os.sched_getaffinity(0) == set(CORES)


@pytest.mark.parametrize("start", ["auto", "cold"])
def test_a_command_runs_on_the_cores_of_its_task(up: Start, start: str) -> None:
    """As does what it starts."""
    script = "grep Cpus_allowed_list /proc/self/status; echo $OMP_NUM_THREADS $TF_NUM_INTRAOP_THREADS"
    run = up("--workers", "2", "--cpus-per-task", "1", "--start", start, "sh", "-c", script)
    assert run.wait(30) == 0, run.output
    for number in (0, 1):
        assert run.log(f"worker:{number}").split() == [b"Cpus_allowed_list:", b"%d" % own(number)[0], b"1", b"1"]


def test_without_the_option_a_task_runs_wherever_it_may(up: Start) -> None:
    """Also where a task of another run, which has cores of its own, starts this one."""
    run = up(SHARED, env={"CLUSTERKIT_CORES": str(CORES[0])})
    assert run.wait(30) == 0, run.output
    assert told(run, "worker:0")["cores"] == [CORES]


def test_tasks_that_share_cores_are_told_of(config: Resolve) -> None:
    """Each has as many as it was to have, and one sentence says who shares."""
    command = config("--cpus-per-task", len(CORES), "--workers", "1", "--ps", "1", SHARED)
    assert command.wait(20) == 0
    assert f"and there {'is 1 core' if len(CORES) == 1 else f'are {len(CORES)} cores'}: " in command.output
    assert "chief:0, worker:0 and ps:0 share core" in command.output
    assert "training tasks share" not in command.output


def test_more_cores_than_there_are_are_refused(config: Resolve, home: Path) -> None:
    """Before anything starts."""
    command = config("--cpus-per-task", len(CORES) + 1, SHARED)
    assert command.wait(20) == 2
    assert f"--cpus-per-task is {len(CORES) + 1}, and there " in command.output
    assert not (home / "runs").exists()


def test_cores_that_were_taken_away_end_the_task_with_a_sentence() -> None:
    """The control group may have lost them since the run began; a task never runs on another's."""
    words = [sys.executable, entry.__file__, "0", "2", "script", str(SHARED)]
    told = subprocess.run(words, env={"CLUSTERKIT_CORES": "1023"}, capture_output=True, text=True)
    assert (told.returncode, told.stdout) == (1, "")
    assert told.stderr == "clusterkit: this task can't run on the cores 1023: Invalid argument.\n"


@pytest.mark.parametrize("start", START)
def test_gpus_are_the_training_tasks_own(up: Start, tool: Callable[[str], dict[str, str]], start: str) -> None:
    """Warm or cold, and nobody else's: the others see none, whatever the shell says of growth."""
    options = ("--workers", "2", "--evaluator", "--gpus-per-task", "2", *START[start])
    run = up(*options, SHARED, env={**tool(FOUR), "TF_FORCE_GPU_ALLOW_GROWTH": "false"})
    assert run.wait(30) == 0, run.output
    expected = {"worker:0": "GPU-00,GPU-11", "worker:1": "GPU-22,GPU-33", "evaluator:0": ""}
    for task, names in expected.items():
        said = told(run, task)
        assert said["warm"] is (start == "warm")
        assert said["variables"]["CUDA_VISIBLE_DEVICES"] == names
        assert said["variables"]["TF_FORCE_GPU_ALLOW_GROWTH"] == "true"
    assert run.job["job"]["devices"]["names"] == ["GPU-00", "GPU-11", "GPU-22", "GPU-33"]


def test_config_shows_what_each_task_gets(config: Resolve, tool: Callable[[str], dict[str, str]]) -> None:
    """In its environment; and GPUs that clusterkit itself is left with are the only ones, which it need not ask for."""
    env = {**tool("exit 1"), "CUDA_VISIBLE_DEVICES": "MIG-1,GPU-2, 5"}
    options = ("--json", "--workers", "2", "--ps", "1", "--gpus-per-task", "1", "--cpus-per-task", "1")
    command = config(*options, "--env", "TF_NUM_INTEROP_THREADS=9", SHARED, env=env)
    assert command.wait(20) == 0, command.output
    tasks = json.loads(command.output[command.output.index("{\n") :])["tasks"]
    shown = {name: task["env"]["CUDA_VISIBLE_DEVICES"] for name, task in tasks.items()}
    assert shown == {"chief:0": "", "worker:0": "MIG-1", "worker:1": "GPU-2", "ps:0": ""}
    assert [tasks[name]["env"]["CLUSTERKIT_CORES"] for name in tasks] == [str(own(n)[0]) for n in (3, 0, 1, 2)]
    assert tasks["ps:0"]["env"]["TF_NUM_INTEROP_THREADS"] == "9"


@pytest.mark.parametrize(
    ("script", "why"),
    [
        (FOUR, "3 tasks take 6 in all, and there are 4 GPUs here."),
        ("", "nvidia-smi lists no GPU."),
        ("echo NVIDIA-SMI has failed.; exit 9", "nvidia-smi ends with code 9 (NVIDIA-SMI has failed)."),
        (None, "nvidia-smi, which lists GPUs, was not found."),
    ],
)
def test_gpus_that_are_not_there_are_refused(
    config: Resolve, home: Path, tool: Callable[[str], dict[str, str]], tmp_path: Path, script: str | None, why: str
) -> None:
    """With the reason, before anything starts."""
    env = {"PATH": str(tmp_path)} if script is None else tool(script)
    command = config("--workers", "3", "--gpus-per-task", "2", SHARED, env=env)
    assert command.wait(20) == 2, command.output
    assert why in command.output
    assert not (home / "runs").exists()


def test_tasks_that_would_take_each_others_gpus_are_warned_of(
    config: Resolve, tool: Callable[[str], dict[str, str]]
) -> None:
    """Where there are GPUs, and nothing is said about them."""
    first, second = config("--tasks", "--workers", "2", SHARED, env=tool(FOUR)), config("--workers", "2", SHARED)
    assert (first.wait(20), second.wait(20)) == (0, 0)
    assert "All 2 tasks share all 4 GPUs, and TensorFlow takes the whole memory" in first.output
    assert "CUDA_VISIBLE_DEVICES=" not in first.output


@pytest.fixture
def config(clusterkit: Callable[..., Command]) -> Resolve:
    """Run `clusterkit config`."""

    def run(*args: object, env: dict[str, str] | None = None) -> Command:
        return clusterkit("config", *args, env=env or {})

    return run
