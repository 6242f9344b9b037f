"""`--min-workers`: a job loses a worker for good, and ends with the others."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.commands import Clusterkit
from tests.support import CHILDREN, Up

pytestmark = [pytest.mark.process, pytest.mark.slow, pytest.mark.timeout(60)]
Start = Callable[..., Up]
MIMIC = ("--restart-backoff", "0.1", CHILDREN / "mimic.py", "--step-time", "0.02", "--every", "20")
GANG = ("--workers", "4", "--min-workers", "2")
PS = ("--workers", "3", "--ps", "1", "--min-workers", "2", "--restart-budget", "1")


def starts(run: Up) -> dict[str, int]:
    """How often each task was started."""
    return dict(Counter(event["task"] for event in run.events("Spawned")))


def result_without(run: Up, worker: str) -> dict[str, Any]:
    """The result of a job that succeeded although a worker was given up."""
    assert run.wait(40) == 0, run.output[-4000:]
    assert (run.result["state"], run.result["given_up"]) == ("succeeded", [worker])
    assert f"Given up: {worker}. The job continued without it." in run.output
    return run.result


def gates(place: Path) -> list[str | Path]:
    """The tasks wait at each, right after a step whose checkpoint is reported, until a file is there."""
    return [word for step in (41, 81, 121) for word in ("--gate", f"{step}:{place / str(step)}")]


def lose(run: Up, ck: Clusterkit, worker: str, place: Path) -> dict[str, Any]:
    """Kill a worker until it is given up; return the event. Each time it makes some steps before."""
    for count in (1, 2):
        run.wait_for("Checkpointed", step=40 * count)
        ck("kill", worker)
        run.wait_for("Failed", count=count)
        if count == 1:
            run.wait_for("Spawned", task=worker, attempt=2)
        (place / str(40 * count + 1)).touch()
    return run.wait_for("Shrunk")


@pytest.mark.parametrize("where", [(), ("--hosts", "2")], ids=["here", "on hosts"])
@pytest.mark.parametrize("lost", ["worker:1", "worker:0"])
def test_a_gang_continues_with_those_that_are_left(
    up: Start, ck: Clusterkit, tmp_path: Path, lost: str, where: tuple[str, ...]
) -> None:
    """From the checkpoint, also if it has lost its leader; TF_CONFIG has the three that are left."""
    run = up(*GANG, *where, "--restart-budget", "1", *MIMIC, "--steps", "160", *gates(tmp_path))
    shrunk = lose(run, ck, lost, tmp_path)
    again = next(name for name in ("worker:2", "worker:3") if name != lost)
    run.wait_for("Spawned", task=again, attempt=3)
    rows = {row["task"]: row["state"] for row in ck.json("ps")["tasks"]}
    assert rows[lost] == "given up"
    assert "was given up" in ck("restart", lost, code=1).err
    (tmp_path / "121").touch()
    result = result_without(run, lost)
    assert starts(run) == {f"worker:{n}": 3 for n in range(4)} | {lost: 2}
    assert (shrunk["restarts"], shrunk["workers"], len(shrunk["left"])) == (1, 4, 3)
    recovery = result["recoveries"][1]
    assert (recovery["given_up"], recovery["left"], recovery["resumed_step"]) == ([lost], 3, shrunk["step"])
    assert "the job continues with 3 of 4 workers (--min-workers 2) from the checkpoint of step" in run.output


def test_a_coordinator_continues_with_those_that_are_left(up: Start, ck: Clusterkit, tmp_path: Path) -> None:
    """At once; later it restarts without the lost one, and so does a worker that fails before that."""
    run = up(*PS, *MIMIC, "--steps", "160", *gates(tmp_path))
    lose(run, ck, "worker:1", tmp_path)
    assert starts(run) == {"chief:0": 1, "worker:0": 1, "worker:1": 2, "worker:2": 1, "ps:0": 1}
    ck("kill", "worker:2")
    run.wait_for("Resumed", task="chief:0", attempt=2)
    ck("kill", "chief:0")
    run.wait_for("Resumed", task="chief:0", attempt=3)
    (tmp_path / "121").touch()
    result_without(run, "worker:1")
    assert starts(run) == {"chief:0": 3, "worker:0": 1, "worker:1": 2, "worker:2": 2, "ps:0": 1}
    assert "(--min-workers 2).\n" in run.output


def test_a_job_with_too_few_workers_left_fails(up: Start, ck: Clusterkit) -> None:
    """As every job does without the option."""
    run = up("--workers", "2", "--min-workers", "2", "--restart-budget", "0", *MIMIC, "--steps", "100000")
    run.wait_for("Checkpointed")
    ck("kill", "worker:1")
    assert run.wait(20) == 1
    assert "its restart budget is used up (0 of 0)" in run.result["reason"]
    assert run.result["given_up"] == []
