"""The Python API over real processes, without TensorFlow."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from clusterkit import BadJob, Cluster, ClusterFailed, RunEnded, WaitTimeout
from clusterkit.store.control import Refused
from clusterkit.store.directory import RunDirectory
from clusterkit.words import events as ev
from clusterkit.words.errors import RunDirectoryError
from clusterkit.words.outcome import RunState
from tests.commands import wait_for
from tests.servers import parent
from tests.support import CHILDREN, processes_of, wait_until

pytestmark = [pytest.mark.process, pytest.mark.slow]

ROLES = CHILDREN / "roles.py"
Start = Callable[..., Cluster]


@pytest.fixture
def start(home: Path) -> Iterator[Start]:
    """Start a cluster in the test's own home; ended after the test."""
    started: list[Cluster] = []

    def cluster(program: Any, **options: Any) -> Cluster:
        started.append(Cluster(program, home=home, **{"patience": 30, **options}))
        return started[-1]

    yield cluster
    for one in started:
        one.stop()


def test_a_worker_is_killed_and_training_goes_on(start: Start, tmp_path: Path) -> None:
    """What the API is for: wait for a step, break something, watch it come back, read the result."""
    run = start(ROLES, workers=2, ps=1, args=["--steps", 150, "--until", tmp_path / "go"])
    assert list(run.tasks) == ["chief:0", "worker:0", "worker:1", "ps:0"]
    first = run.tasks["worker:1"].pid
    assert run.wait_for_step(10, task="chief:0") >= 10
    run.tasks["worker:1"].kill()
    again = run.wait_for_event(ev.Spawned, task="worker:1", attempt=2)
    assert run.tasks["worker:1"].pid == again.pid != first
    (tmp_path / "go").touch()
    result = run.wait()
    assert (result.ok, result.last_step, result.restarts) == (True, 150, 1)
    killed, _ = run.tasks["worker:1"].attempts
    assert killed.exit is not None
    assert killed.exit.signal == signal.SIGKILL
    assert "chief:0 is done" in run.tasks["chief:0"].logs()
    assert run.result is result
    assert not run.running


def test_a_task_is_paused_and_goes_on(start: Start) -> None:
    """And what can't be done now is refused with a reason."""
    run = start(ROLES, workers=1, args=["--steps", 10000])
    worker = run.tasks["worker:0"]
    worker.pause()
    run.wait_for_event(ev.Paused, task="worker:0", paused=True)
    with pytest.raises(Refused, match="paused already"):
        worker.pause()
    worker.unpause()
    run.wait_for_event(ev.Paused, paused=False)
    worker.restart()
    run.wait_for_event(ev.Spawned, attempt=2)
    assert run.stop().state is RunState.STOPPED
    with pytest.raises(RunEnded, match="over before worker:0 could be asked to kill"):
        worker.kill()


def test_events_can_be_followed_to_the_end(start: Start) -> None:
    """Both what was and what comes, each once."""
    run = start(ROLES, workers=1, args=["--steps", 5])
    followed = list(run.events(follow=True))
    assert isinstance(followed[-1], ev.Finished)
    assert followed == list(run.events())


def test_a_wait_tells_what_is_known_when_its_time_is_over(start: Start) -> None:
    """The run goes on."""
    run = start(ROLES, workers=2, args=["--steps", 10000])
    with pytest.raises(WaitTimeout, match=r"for step 99999 for 0.3 s, without success. So far:\n  worker:0 is running"):
        run.wait_for_step(99999, timeout=0.3)
    with pytest.raises(TimeoutError):
        run.wait(0)
    assert run.running


def test_a_wait_ends_with_the_run(start: Start) -> None:
    """What has not come by then does not come."""
    run = start(ROLES, workers=1, args=["--steps", 3])
    with pytest.raises(RunEnded, match="without Paused") as caught:
        run.wait_for_event("Paused")
    assert caught.value.result.ok
    assert not isinstance(caught.value, ClusterFailed)


def test_a_failure_carries_the_result(start: Start) -> None:
    """With the cause and its log in the message."""
    run = start(ROLES, workers=2, restart="never", args=["--steps", 10000, "--fail", "worker:1:1:3:7"])
    with pytest.raises(ClusterFailed, match=r"Cause: worker:1 exited with code 7 \(attempt 1\)") as caught:
        run.wait_for_step(1000)
    assert caught.value.result.cause is not None
    assert caught.value.result.exit_code == 1


def test_a_fault_that_was_never_injected_is_in_the_result(start: Start) -> None:
    """The job has not failed, so nothing is raised."""
    result = start(ROLES, args=["--steps", 5], fault=["kill worker:0 @ 1h"]).wait()
    assert (result.ok, result.exit_code) == (True, 3)
    assert [one.why for one in result.not_injected] == ["the run ended before 3600 s were over"]


def test_the_jobs_own_timeout_is_a_failure(start: Start) -> None:
    """As it is for `up`."""
    with pytest.raises(ClusterFailed) as caught:
        start(ROLES, workers=1, args=["--steps", 10000], timeout=0.5).wait()
    assert caught.value.result.state is RunState.TIMED_OUT


def test_leaving_the_block_ends_the_run(home: Path) -> None:
    """An exception that is on its way stays the one to see."""
    with pytest.raises(ZeroDivisionError), Cluster(ROLES, args=["--steps", 10000], home=home) as run:
        raise ZeroDivisionError
    assert run.result.state is RunState.STOPPED
    assert run.stop() is run.result
    assert processes_of(home) == {}


@pytest.mark.parametrize(
    ("program", "options", "problems"),
    [
        ("nowhere.py", {"run_id": "a/b"}, ("There is no program nowhere.py.", "--run-id 'a/b' can't be a run id")),
        (ROLES, {"workers": -1}, ("-1",)),
        (ROLES, {"grace_period": "soon"}, ("soon",)),
        (ROLES, {"args": "--steps 3"}, ("has to be a list",)),
        (ROLES, {"args": 3}, ("args=3: it has to be a list",)),
        (3, {"preload": 7}, ("program=3: it has to be a path or a function", "preload=7: it has to be a list")),
        (print, {"watch": True}, ("A function has no file of its own that could change",)),
        (ROLES, {"kwargs": {"a": 1}}, ("kwargs are for functions",)),
        (print, {"python": sys.executable}, ("leave python= out",)),
        (print, {"args": [threading.Lock()]}, ("print or its arguments can't be pickled",)),
    ],
)
def test_bad_input_is_a_bad_job(home: Path, program: Any, options: dict[str, Any], problems: tuple[str, ...]) -> None:
    """Every problem is told, and nothing was started."""
    with pytest.raises(BadJob) as caught:
        Cluster(program, home=home, **options)
    for problem in problems:
        assert problem in str(caught.value)
    assert not list(home.glob("runs/*"))


@pytest.mark.parametrize("run_id", ["mine", 7])
def test_a_run_id_is_used_once(start: Start, run_id: str | int) -> None:
    """The other run's journal would be taken for this one's. A number is a name, too."""
    start(ROLES, run_id=run_id, args=["--steps", 1]).wait()
    with pytest.raises(RunDirectoryError, match=f"already a run {run_id}"):
        start(ROLES, run_id=str(run_id))


def test_a_supervisor_that_is_killed_is_a_failure(start: Start) -> None:
    """No wait hangs when nobody is there to end it."""
    run = start(ROLES, workers=2, args=["--steps", 10000])
    os.kill(json.loads((run.directory / "job.json").read_text())["pid"], signal.SIGKILL)
    with pytest.raises(ClusterFailed, match="the supervisor was killed by SIGKILL"):
        run.wait()


def test_a_run_does_not_outlive_its_python_process(home: Path) -> None:
    """Killed without a chance to say so, while a fork of it lives on; no task gets its two minutes of grace."""
    owner = program(home, "owner.py", CHILDREN / "stubborn.py", "ignore")
    assert owner.stdout is not None
    with owner.stdout:
        directory, fork = owner.stdout.readline().split()
    try:
        assert RunDirectory(Path(directory)).is_live()  # also after the end of the thread that started it
        for task in ("worker:0", "worker:1"):
            wait_for(Path(directory), "Ready", task=task)  # it ignores SIGTERM from then on
        others = {owner.pid, int(fork)}
        owner.kill()
        owner.wait(10)
        wait_until(lambda: not processes_of(home).keys() - others, 20, "the end of the run")
    finally:
        os.kill(int(fork), signal.SIGKILL)
    assert "Python process that started the run is gone" in (Path(directory) / "result.json").read_text()
    wait_until(lambda: not processes_of(home), 5, "the end of the fork")


def test_a_ctrl_c_is_for_this_process(home: Path) -> None:
    """It goes to the whole group, in a terminal as in a notebook; the run is ended in order all the same."""
    owner = program(home, "interrupted.py")
    assert owner.stdout is not None
    with owner.stdout:
        assert owner.stdout.readline() == "waiting\n"
        os.killpg(owner.pid, signal.SIGINT)
        assert owner.stdout.read() == "True stopped\n"
    assert owner.wait(20) == 0


def test_a_fork_disturbs_no_run(home: Path) -> None:
    """It is told that it can't wait; when it exits, the function that the task's next attempt calls is still there."""
    owner = program(home, "forks.py")
    assert owner.stdout is not None
    with owner.stdout:
        fork, result = owner.stdout.read().splitlines()
    assert f"belongs to the process {owner.pid}. A fork of it can neither wait for the run nor end it." in fork
    assert result == "{'worker:0': 7}"
    assert owner.wait(20) == 0


def test_a_ctrl_c_during_the_start_leaves_no_run(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The supervisor ends although its object was never made; this process, whose end would end it, goes on."""
    started: list[subprocess.Popen[bytes]] = []

    class Interrupted(subprocess.Popen[bytes]):
        def __init__(self, *args: Any, **options: Any) -> None:
            super().__init__(*args, **options)
            started.append(self)
            raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(subprocess, "Popen", Interrupted)
        with pytest.raises(KeyboardInterrupt):
            Cluster(ROLES, args=["--steps", 10000], home=home)
    started[0].wait(30)
    wait_until(lambda: not processes_of(home), 10, "the end of the run")


def program(home: Path, name: str, *args: str | Path) -> subprocess.Popen[str]:
    """Start a Python program that uses the API, in a session of its own."""
    command = [sys.executable, str(CHILDREN / name), *map(str, args)]
    env = {**os.environ, "CLUSTERKIT_HOME": str(home)}
    return subprocess.Popen(command, env=env, stdout=subprocess.PIPE, text=True, start_new_session=True)


@pytest.mark.parametrize("which", ["supervisor", "guardian"])
def test_a_stop_is_forced_where_nobody_answers(start: Start, monkeypatch: pytest.MonkeyPatch, which: str) -> None:
    """One of the two is stopped by SIGSTOP, and so can't end the run in order."""
    monkeypatch.setattr("clusterkit.api.supervisor.PUSH", 1.0)
    run = start(ROLES, workers=2, args=["--steps", 10000])
    supervisor = json.loads((run.directory / "job.json").read_text())["pid"]
    os.kill(supervisor if which == "supervisor" else parent(supervisor), signal.SIGSTOP)
    assert not run.stop(0.3).ok
    assert not RunDirectory(run.directory).is_live()


def test_several_at_once_under_an_asyncio_loop(start: Start) -> None:
    """In threads of the loop, each with its own ports and directory."""

    async def train(steps: int) -> int | None:
        run = await asyncio.to_thread(start, ROLES, workers=1, args=["--steps", steps])
        return (await asyncio.to_thread(run.wait)).last_step

    async def both() -> list[int | None]:
        return list(await asyncio.gather(train(4), train(6)))

    assert asyncio.run(both()) == [4, 6]
