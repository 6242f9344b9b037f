"""How tasks are debugged: what is rejected, and what each task is told."""

from __future__ import annotations

from dataclasses import replace
from pathlib import PurePosixPath
from typing import Any

import pytest

from clusterkit.job.debugging import debugging_env
from clusterkit.store.paths import Paths
from clusterkit.words.errors import BadJob
from clusterkit.words.job import Breakpoints, Debugging, HostRequest
from clusterkit.words.model import ProgramKind
from tests.histories import build_job, job, task

PATHS = Paths(PurePosixPath("/runs/r-1"))
SOCKET = "/runs/r-1/tasks/worker:1/debugger.sock"


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"debugpy": ["worker:5"]}, "--debugpy worker:5: the job has no such task."),
        ({"debugpy": ["ps"]}, "--debugpy ps: the job has no such task."),
        ({"debugpy": ["node:1"]}, "--debugpy node:1: 'node:1' is not a task."),
        ({"debugpy": ["worker:1=0"]}, "'0' is not a port. Write worker:1=5678, or worker:1 for a free one."),
        ({"debugpy": ["worker:1=99999999999999999999"]}, "is not a port."),
        ({"debugpy": ["worker:1="]}, "'' is not a port."),
        ({"debugpy": ["worker=5678"]}, "2 tasks can't listen on one port. Name one task."),
        ({"debugpy": ["worker:1"], "network": "virtual"}, "--debugpy can't be combined with --network virtual"),
        ({"debugpy_wait": True}, "--debugpy-wait is for a task with an editor. Add --debugpy worker:0."),
        ({"pdb": True, "hosts": 2}, "--pdb is for tasks of this machine. Leave it out, or --hosts."),
        ({"breakpoints": "hold", "hosts": 2}, "--breakpoints hold is for tasks of this machine."),
        ({"ps": 1, "servers": "builtin", "debugpy": ["ps:0"]}, "it runs clusterkit's own server (--servers builtin)"),
    ],
)
def test_what_can_not_be_is_said(options: dict[str, Any], problem: str) -> None:
    """One sentence for each problem."""
    with pytest.raises(BadJob) as error:
        build_job({"program": "train.py", "workers": 2, **options}, ProgramKind.SCRIPT)
    assert len(error.value.problems) == 1
    assert problem in error.value.problems[0]


@pytest.mark.parametrize(
    ("debug", "env"),
    [
        (Debugging(), {}),
        (Debugging(Breakpoints.HOLD), {"CLUSTERKIT_DEBUGGER": f"hold:{SOCKET}"}),
        (Debugging(Breakpoints.SKIP), {"CLUSTERKIT_DEBUGGER": f"off:{SOCKET}"}),
        (Debugging(post_mortem=True), {"CLUSTERKIT_DEBUGGER": f"hold,pdb:{SOCKET}"}),
        (Debugging(Breakpoints.SKIP, post_mortem=True), {"CLUSTERKIT_DEBUGGER": f"off,pdb:{SOCKET}"}),
        (Debugging(editors=("worker:0",)), {}),
        (
            Debugging(editors=("worker:1=5678",), wait=True),
            {
                "CLUSTERKIT_DEBUGGER": f"editor:{SOCKET}",
                "CLUSTERKIT_DEBUGPY": "5678,wait",
                "PYDEVD_DISABLE_FILE_VALIDATION": "1",
            },
        ),
    ],
)
def test_a_task_is_told_what_holds_it(debug: Debugging, env: dict[str, str]) -> None:
    """Nothing, where `up` found no terminal."""
    assert debugging_env(replace(job(workers=2), debug=debug), PATHS, task("worker:1")) == env


def test_on_several_hosts_no_task_is_held() -> None:
    """It says why."""
    on_hosts = replace(job(workers=2), hosts=HostRequest(count=2))
    assert debugging_env(on_hosts, PATHS, task("worker:1")) == {"CLUSTERKIT_DEBUGGER": "hosts"}
