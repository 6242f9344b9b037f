"""`clusterkit profile`: which tasks write profiles, and what is said of the others."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.commands import ROLES, Clusterkit, journal, wait_for
from tests.support import CHILDREN, Command

pytestmark = [pytest.mark.process, pytest.mark.slow]

PROFILED = CHILDREN / "profiled.py"


def test_every_task_of_a_parameter_server_job_writes_a_profile(ck: Clusterkit) -> None:
    """The coordinator of its steps, the servers for as long; whatever else is in their pipes is not heeded."""
    run = ck.up("--workers", "1", "--ps", "1", PROFILED)
    for task in ("chief:0", "ps:0"):
        with (run / "tasks" / task / "requests").open("wb") as pipe:
            pipe.write(b'nonsense\n{"do": "dance", "request": 1}\n{"request": "x"}\n[]\n')
    profiles = ck.json("profile", "--steps", "5")
    assert list(profiles) == ["chief:0", "worker:0", "ps:0"]
    for task, told in profiles.items():
        assert Path(told["path"]).read_text() == "recorded"
        assert told["path"].startswith(f"{run}/tensorboard/{task}/plugins/profile/")
    assert [profiles[task]["steps"] for task in profiles] == [5, None, None]
    said = ck("profile", run.name, "ps", "--steps", "2").out.splitlines()
    assert [line.partition(": /")[0] for line in said] == [
        "chief:0 wrote a profile of 2 steps",
        "ps:0 wrote a profile",
    ]
    assert len(journal(run, "Profiled")) == 5


def test_when_no_step_is_done_in_time_there_is_no_profile(ck: Clusterkit) -> None:
    """Where there are some steps, but not all, they have to do."""
    run = ck.up("--workers", "1", PROFILED, "1000")
    wait_for(run, "Progressed")  # so it listens
    said = ck("profile", run.name, "--timeout", "0.2s", code=1).out
    assert said == "worker:0 gave no profile: it reported no step within 0.2 s.\n"
    ck("down", run.name)
    wait_for(ck.up("--workers", "1", PROFILED, "--some-steps"), "Progressed")
    told = ck.json("profile", "--timeout", "0.5s", "--steps", "1000000")["worker:0"]
    assert told["path"] is not None
    assert 1 <= told["steps"] < 100


def test_a_program_that_does_not_use_the_training_library_is_told(ck: Clusterkit) -> None:
    """Nobody listens at its pipe; that is known at once."""
    ck.up("--workers", "2", ROLES, "--steps", "100000")
    said = ck("profile", code=1).out.splitlines()
    assert [line.partition(" (")[0] for line in said] == [
        f"worker:{index} gave no profile: its program does not use clusterkit.training" for index in (0, 1)
    ]
    assert "at least 1 step" in ck("profile", "--timeout", "2h", code=1).err


def test_a_task_that_ends_meanwhile_gives_none(ck: Clusterkit, clusterkit: Callable[..., Command]) -> None:
    """The command does not wait for what can't come."""
    run = ck.up("--workers", "1", PROFILED)
    wait_for(run, "Progressed")
    asked = clusterkit("profile", run.name, "--steps", "1000000")
    wait_for(run, "Requested")
    ck("kill", "worker:0")
    assert asked.wait(20) == 1
    assert asked.output == "worker:0 gave no profile: it ended before that.\n"
    ck("down", run.name)
