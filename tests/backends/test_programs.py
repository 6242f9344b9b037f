"""Programs that are no Python: they are a cluster's tasks like any other."""

from __future__ import annotations

import json
import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support import CHILDREN, Command, Up

pytestmark = [pytest.mark.process, pytest.mark.slow, pytest.mark.timeout(60)]

TRAIN = CHILDREN / "train.sh"
BY_THE_LOG = ("--progress-regex", r"step (\d+)")
Start = Callable[..., Up]


@pytest.mark.parametrize("start", ["auto", "cold"])
def test_a_shell_script_is_supervised_as_a_gang(up: Start, start: str) -> None:
    """Its steps are read from its log, a fault comes at one of them, and all go on together from what was saved."""
    fault = ("--fault", "kill worker:1 @ step=3")
    run = up(
        "--workers", "2", "--start", start, "--restart-backoff", "0", *BY_THE_LOG, *fault, "--", TRAIN, "15", "0.2"
    )
    assert run.wait(40) == 0, run.output
    assert {task: len(pids) for task, pids in run.pids().items()} == {"worker:0": 2, "worker:1": 2}
    assert run.result["last_step"] == 15
    for number in (0, 1):
        task, peers = f"worker:{number}", [run.job["endpoints"][f"worker:{n}"] for n in (0, 1)]
        config = {"cluster": {"worker": peers}, "task": {"type": "worker", "index": number}}
        first, second = (run.log(task, attempt).decode().splitlines() for attempt in (1, 2))
        assert first[:2] == [f"attempt 1 () from 0 with {json.dumps(config)}", "step 1 of 15"]
        assert second[0].startswith("attempt 2 (failure) from ")
        assert second[-1] == "step 15 of 15"
        assert int(second[1].split()[1]) > 1, "it began anew"
        assert run.events("Progressed", task=task, attempt=2)[-1]["step"] == 15
    [recovery] = run.result["recoveries"]
    assert recovery["cause"]["task"] == "worker:1"


def test_a_script_reports_through_the_pipe_that_it_is_told_of(up: Start) -> None:
    """A line of JSON, as the training library writes it."""
    say = 'printf \'{"kind":"%s","attempt":%s%s}\\n\' '
    script = f"exec >$CLUSTERKIT_PROGRESS; {say} ready $CLUSTERKIT_ATTEMPT; {say} progress $CLUSTERKIT_ATTEMPT ,$EXTRA"
    run = up("--workers", "2", "--env", 'EXTRA="step":12,"metrics":{"loss":0.5}', "sh", "-c", script)
    assert run.wait(30) == 0, run.output
    assert [event["step"] for event in run.events("Progressed", task="worker:0")] == [12]
    assert run.result["last_step"] == 12


def test_a_script_that_stands_still_is_killed_and_starts_again(up: Start) -> None:
    """Also stalls are seen in the log."""
    stall = ("--stall-timeout", "1", "--stall-warning", "0.5", "--restart-backoff", "0")
    script = "echo step $CLUSTERKIT_ATTEMPT; [ $CLUSTERKIT_ATTEMPT != 1 ] || sleep 60"
    run = up(*stall, *BY_THE_LOG, "sh", "-c", script)
    assert run.wait(40) == 0, run.output
    assert run.result["attempts"][0]["exit"]["signal"] == signal.SIGKILL
    last = len(run.pids()["worker:0"])  # more than two where one was held up before its step
    assert run.log("worker:0", last) == f"step {last}\n".encode()


def test_a_script_that_can_not_be_executed_is_refused(
    clusterkit: Callable[..., Command], home: Path, tmp_path: Path
) -> None:
    """Rather than read by Python, which would find an error in its syntax."""
    for name, text in (("train.sh", "echo"), ("train", "#!/bin/sh\necho")):
        (tmp_path / name).write_text(text)
        command = clusterkit("up", f"./{name}", cwd=tmp_path)
        assert command.wait(20) == 2
        assert f"./{name} is neither executable nor a Python program: chmod +x ./{name}" in command.output
    assert not (home / "runs").exists()
