"""Stalls with real TensorFlow: the verdict names the task that holds the others up, and that one alone is killed."""

from __future__ import annotations

import re
import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support import CHILDREN, Up, wait_until

pytestmark = [pytest.mark.tensorflow, pytest.mark.timeout(180)]

# It trains until there is a file `go`.
PS_JOB = ("--workers", "2", "--ps", "1", "--env", "HELPED=1", "--progress-regex", '"step": (\\d+)',
          CHILDREN / "facts_end.py")  # fmt: skip
Start = Callable[..., Up]


def warned_of(run: Up, pattern: str) -> str:
    """The text of the first warning of such a stall; on a busy machine there may be others before."""

    def found() -> str | None:
        texts = [event["text"] for event in run.events("Stalled")]
        return next(
            (text for text in texts if re.match(f"No task has reported progress for .*: {pattern}", text)), None
        )

    text: str = wait_until(found, 90, lambda: f"{pattern}; it printed:\n{run.output[-4000:]}")
    return text


def report_in(text: str) -> str:
    """The report that a warning leads to."""
    (path,) = re.findall(r"What was seen of every task is in (\S+\.txt)\.", text)
    return Path(path).read_text()


@pytest.mark.long
def test_a_stopped_worker_is_named_by_the_verdict_and_killed_in_the_end(up: Start) -> None:
    """The coordinator waits in join without a word; the warning says for whom, and only that task is restarted."""
    run = up("--stall-warning", "3s", "--stall-timeout", "6s", *PS_JOB)
    run.wait_for_step(20, deadline=90)
    run.kill("worker:1", signal.SIGSTOP)
    said = r"worker:1 is stopped \(T\); chief:0 waits in ClusterCoordinator\.join\."
    report = report_in(warned_of(run, said))
    assert "worker:0 waits in Server.join" in report
    assert re.search(
        r"worker:1 is stopped \(T\)\n  process      attempt 1, pid \d+, stopped \(T\)\n  CPU          0 %", report
    )
    assert re.search(r"ps:0 waits in Server.join\n(?:.*\n)*?  connections  .*chief:0", report)
    failed = run.wait_for("Failed", 90)
    run.wait_for("Spawned", task="worker:1", attempt=2)
    run.wait_for_step(20, deadline=90, after=failed["m"])
    (run.run / "go").touch()
    assert run.wait(90) == 0, run.output[-4000:]
    started = {task: len(pids) for task, pids in run.pids().items()}
    assert started == {"chief:0": 1, "worker:0": 1, "worker:1": 2, "ps:0": 1}
    assert failed["failure"]["exit"]["asked"] == "ended for its stall"
    assert warned_of(run, f"{said} worker:1 is killed")


def test_a_worker_that_is_lost_in_its_own_code_is_named_while_the_other_waits(up: Start) -> None:
    """All processes are alive and none is stopped: the stacks tell who waits for whom."""
    run = up("--workers", "2", "--stall-warning", "3s", "--stall-timeout", "5s", CHILDREN / "loops.py")
    place = r"is at loops\.py:\d+ in lost"
    waits = r"worker:0 waits in TensorFlow's runtime \(a step or a collective\)"
    report = report_in(warned_of(run, f"worker:1 {place}; {waits}"))
    assert int(re.findall(rf"worker:1 {place}\n.*\n  CPU +(\d+) %", report)[0]) > 3  # of a busy machine
    assert re.search(r"worker:0 waits .*\n.*\n.*\n.*\n  connections  .*worker:1", report)
    assert run.wait(90) == 0, run.output[-4000:]
    assert {failed["failure"]["task"] for failed in run.events("Failed")} == {"worker:1"}
    assert run.result["last_step"] == 40


def test_a_worker_that_does_not_come_up_is_named_with_what_it_does_meanwhile(up: Start) -> None:
    """The other one waits for it in the start of its strategy."""
    run = up("--workers", "2", "--startup-timeout", "8s", "--grace-period", "1s", CHILDREN / "loops.py", "--never-up")
    assert run.wait(60) == 1
    reason = run.result["reason"]
    assert re.search(r"worker:1 sleeps \(time\.sleep\) at loops\.py:\d+\.", reason)
    assert "not open its port and reported no progress within 8 s of the start" in reason
    report = report_in(reason)
    assert "worker:0 waits in MultiWorkerMirroredStrategy() for the others (coordination service)" in report


@pytest.mark.long
def test_a_single_process_whose_own_cluster_has_a_worker_that_does_not_exist(up: Start, tmp_path: Path) -> None:
    """Its strategy waits for it without a word from TensorFlow; the run goes on."""
    program = tmp_path / "alone.py"
    program.write_text(OWN_CLUSTER)
    run = up("--workers", "1", "--startup-timeout", "6s", "--timeout", "20s", "--grace-period", "1s", program)
    warned = run.wait_for("Warned", 60, task="worker:0")
    assert warned["text"].startswith("worker:0 waits in MultiWorkerMirroredStrategy() for the others")
    assert "a task of its cluster does not answer" in warned["text"]
    assert run.wait(60) == 124


OWN_CLUSTER = """
import json, os, socket
import tensorflow as tf

with socket.socket() as free:
    free.bind(("localhost", 0))
    port = free.getsockname()[1]
cluster = {"worker": [f"localhost:{port}", "localhost:1"]}
os.environ["TF_CONFIG"] = json.dumps({"cluster": cluster, "task": {"type": "worker", "index": 0}})
tf.distribute.MultiWorkerMirroredStrategy()
"""
