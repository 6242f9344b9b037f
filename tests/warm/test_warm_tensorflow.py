"""Warm starts with real TensorFlow: restarts are forked, and the end of the fork server has no effect."""

from __future__ import annotations

import os
import random
import signal
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest

from tests.e2e.test_recovery import PS_JOB, check_recovered
from tests.support import CHILDREN, ROOT, Up, fork_server_of, is_fork_of, wait_until

pytestmark = [pytest.mark.own_servers, pytest.mark.tensorflow, pytest.mark.timeout(240)]

STEPS = 400
PRELOADS = {"PYTHONPATH": f"{CHILDREN}{os.pathsep}{ROOT}"}
Start = Callable[..., Up]


@pytest.mark.long
def test_a_worker_that_is_killed_comes_back_through_the_server(up: Start) -> None:
    """All first attempts and the second one are forks, and training ends at the right step."""
    run = up(*PS_JOB, "--steps", STEPS)
    server = run.fork_server()
    run.wait_for("Checkpointed", deadline=90)
    first = {task: is_fork_of(pids[0], server) for task, pids in run.pids().items()}
    assert first == dict.fromkeys(("chief:0", "worker:0", "worker:1", "ps:0"), True)
    run.kill("worker:1")
    again = run.wait_for("Spawned", task="worker:1", attempt=2)
    run.wait_for("Ready", task="worker:1", attempt=2)
    assert is_fork_of(again["pid"], server)
    check_recovered(run, {"worker:1": 2}, STEPS)
    assert len(run.events("Noted", server="ready")) == 1
    assert run.events("Noted", server="cold") == []


@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.soak) for seed in (1, 2))])
@pytest.mark.long
def test_sigkill_of_the_fork_server_changes_nothing(up: Start, home: Path, seed: int) -> None:
    """During its imports, when the tasks start, and when a worker restarts: the job ends as usual."""
    moment = (None, "Spawned", "RestartPlanned")[seed]
    later = random.Random(seed).uniform(0.0, 2.0 if moment is None else 0.3)
    print(f"seed {seed}: SIGKILL {later:.3f} s after {moment}")
    held = ("--preload", "preloads.waits_once") if moment is None else ()  # it is not ready before it is killed
    run = up(*held, *PS_JOB, "--steps", STEPS, env=PRELOADS)

    def kill_server() -> None:
        wait_until(lambda: fork_server_of(home), 30, "a fork server")
        if moment is not None:
            run.wait_for(moment)
        threading.Event().wait(later)  # the moment is the test's subject, not a wait for something
        server = fork_server_of(home)
        assert server is not None
        with suppress(ProcessLookupError):
            os.kill(server, signal.SIGKILL)

    if moment != "RestartPlanned":
        kill_server()
    run.wait_for("Checkpointed", deadline=120)
    run.kill("worker:1")
    if moment == "RestartPlanned":
        kill_server()
    check_recovered(run, {"worker:1": 2}, STEPS)
    news = [event["server"] for event in run.events("Noted") if "server" in event]
    assert news[0] == ("lost" if moment is None else "ready")
    assert news.count("lost") == 1
    assert [event["failure"]["task"] for event in run.events("Failed")] == ["worker:1"]


def test_a_preload_that_initializes_tensorflows_devices_is_refused(up: Start) -> None:
    """In one line; the run starts cold."""
    run = up("--preload", "preloads.devices", CHILDREN / "forked.py", "0")
    assert run.wait(60) == 0
    why = "a preloaded module has initialized TensorFlow's devices, which can't be used after a fork"
    assert run.output.count(f"The fork server is gone ({why}); tasks start cold from now on.") == 1
    assert "cold" not in run.output.replace("tasks start cold from now on", "")
    assert b'"warm": false' in run.log("worker:0")


@pytest.mark.long
def test_a_program_that_hides_its_import_starts_warm_on_request(up: Start, tmp_path: Path) -> None:
    """Its code does not show TensorFlow, so it would start cold."""
    program = tmp_path / "hides.py"
    program.write_text(
        "import importlib, sys\nprint('tensor' 'flow' in sys.modules)\n"
        "print(importlib.import_module('tensor' 'flow').constant(41).numpy() + 1)\n"
    )
    warm = up("--start", "warm", "--run-id", "warm", program)
    assert warm.wait(60) == 0
    said = warm.log("worker:0").splitlines()
    assert (said[0], said[-1]) == (b"True", b"42")  # between them, what TensorFlow says of GPUs
    auto = up("--run-id", "auto", program)
    assert auto.wait(60) == 0
    assert auto.log("worker:0").splitlines()[0] == b"False"


def test_ctrl_c_while_tensorflow_is_imported(up: Start, home: Path) -> None:
    """The run does not wait for the import."""
    run = up("--preload", "preloads.slow", *PS_JOB, env=PRELOADS)  # so the import is not over before the signal comes
    server = wait_until(lambda: fork_server_of(home), 30, "a fork server")
    wait_until(lambda: "tensorflow" in Path(f"/proc/{server}/maps").read_text(), 60, "the import")
    run.signal(signal.SIGINT)
    assert run.wait(5) == 130
    assert run.events("Spawned") == []
