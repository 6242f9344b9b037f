"""The contract of a backend as tests. `test_local.py` runs them against the local one; any other has to pass them.

What is run are commands of a shell, and what is looked at are the answers that come through the inbox.
"""

from __future__ import annotations

import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from clusterkit.backends.base import Preflight
from clusterkit.store.cleaning import reap_strays
from clusterkit.words import actions as ac
from clusterkit.words import events as ev
from clusterkit.words.job import JobSpec, Setup
from clusterkit.words.model import Task, TaskType
from clusterkit.words.outcome import Exit
from tests.backends.stage import OTHER, WITHIN, WORKER, Stage

BYTES = bytes(range(256)) * 5 + b"no line end"


class Contract:
    """What each backend has to keep. A subclass has the class of the stage."""

    stage_of: type[Stage]
    preflight: Callable[[JobSpec], Preflight]

    @pytest.fixture
    def stages(self, home: Path, subreaper: None) -> Iterator[list[Stage]]:
        """The stages of a test, which are ended after it; then nothing of their runs is left."""
        made: list[Stage] = []
        yield made
        for stage in made:
            stage.end()

    @pytest.fixture
    def stage(self, home: Path, stages: list[Stage]) -> Any:
        """Make a stage for a script."""

        def make(script: str, **job: Any) -> Stage:
            stages.append(self.stage_of(home, script, **job))
            return stages[-1]

        return make

    def test_a_job_that_can_run_has_no_problems(self, stage: Any) -> None:
        """What comes out is the same job, with what its tasks are given."""
        run: Stage = stage("true")
        job, problems, _ = self.preflight(run.job)
        assert (job.tasks, problems) == (run.job.tasks, [])

    def test_an_attempt_from_its_start_to_its_end(self, stage: Any) -> None:
        """It is somewhere, it exits, nothing of it is left, and its output is complete."""
        run: Stage = stage("echo said; exit 3")
        run.begin(WORKER)
        assert run.wait(ev.Spawned).where
        assert run.wait(ev.Exited).exit == Exit(code=3)
        assert not run.has(ev.Swept)
        run.backend.do(ac.Sweep(WORKER, 1))
        assert run.wait(ev.Swept) == ev.Swept(WORKER, 1)
        assert run.wait(ev.Drained) == ev.Drained(WORKER, 1, ("said",))

    def test_a_task_knows_itself_and_where_the_others_are(self, stage: Any) -> None:
        """By its environment, in which the endpoints are those that the placing has told."""
        run: Stage = stage('echo "$CLUSTERKIT_TASK $CLUSTERKIT_ATTEMPT $CLUSTERKIT_RESTART_REASON"; echo "$TF_CONFIG"')
        endpoints = run.backend.place(run.directory)
        assert endpoints.keys() == {WORKER, OTHER}
        run.backend.do(ac.Spawn(OTHER, 2, "failure"))
        told = run.wait(ev.Drained, OTHER, 2).tail
        assert told[0] == "worker:1 2 failure"
        assert all(endpoint in told[1] for endpoint in endpoints.values())

    def test_output_is_kept_byte_for_byte(self, stage: Any, tmp_path: Path) -> None:
        """In the attempt's file, and for whoever looks on, who is told its end."""
        (tmp_path / "bytes").write_bytes(BYTES)
        run: Stage = stage(f"cat {tmp_path / 'bytes'}; cat {tmp_path / 'bytes'} >&2")
        run.begin(WORKER)
        run.wait(ev.Drained)
        assert run.directory.log(WORKER, 1).read_bytes() == 2 * BYTES
        assert run.seen == {(WORKER, 1): 2 * BYTES}
        assert run.ended == {(WORKER, 1)}

    def test_the_next_attempt_has_a_log_of_its_own(self, stage: Any) -> None:
        """And the same task's."""
        run: Stage = stage("echo $CLUSTERKIT_ATTEMPT")
        run.begin(WORKER)
        run.wait(ev.Exited)
        run.backend.do(ac.Sweep(WORKER, 1))
        run.wait(ev.Swept)
        run.backend.do(ac.Spawn(WORKER, 2, "failure"))
        run.wait(ev.Drained, attempt=2)
        assert [run.directory.log(WORKER, attempt).read_bytes() for attempt in (1, 2)] == [b"1\n", b"2\n"]

    def test_a_signal_reaches_every_process_of_the_attempt(self, stage: Any) -> None:
        """Which then has left nothing behind; the exit tells that the signal came in time."""
        run: Stage = stage("sleep 60 & sleep 60 & echo up; wait")
        run.begin(WORKER, OTHER)
        run.wait(ev.Spawned)
        self.wait_for_output(run, WORKER)
        run.backend.do(ac.Signal(WORKER, 1, signal.SIGTERM))
        exited = run.wait(ev.Exited)
        assert (exited.exit, exited.reached) == (Exit(signal=signal.SIGTERM), (signal.SIGTERM,))
        run.backend.do(ac.Sweep(WORKER, 1))
        run.wait(ev.Swept)
        run.wait(ev.Drained)
        assert not any(isinstance(event, ev.Exited) and event.task == OTHER for event in run.events)

    def test_the_grace_period_is_for_the_whole_group(self, stage: Any) -> None:
        """A shell ends at SIGTERM; the program that it runs saves its state, and the attempt has ended after that."""
        saves = "trap 'sleep 0.3; echo saved; exit' TERM; echo up; while :; do sleep 0.05; done"
        run: Stage = stage(f"trap 'exit 5' TERM; ({saves}) & wait")
        run.begin(WORKER)
        self.wait_for_output(run, WORKER)
        run.backend.do(ac.Signal(WORKER, 1, signal.SIGTERM, grace=WITHIN))
        exited = run.wait(ev.Exited)
        assert (exited.exit, exited.reached) == (Exit(code=5), (signal.SIGTERM,))
        run.backend.do(ac.Sweep(WORKER, 1))
        assert run.wait(ev.Swept).left == 0
        assert run.wait(ev.Drained).tail[-1] == "saved"

    @pytest.mark.parametrize(
        ("grace", "second"),
        [(WITHIN, signal.SIGKILL), (0.2, None)],
        ids=["killed meanwhile", "over"],
    )
    def test_a_group_that_ignores_sigterm_has_its_grace_period(
        self, stage: Any, grace: float, second: signal.Signals | None
    ) -> None:
        """Then the attempt counts as over, although something of it is left; SIGKILL ends the wait as well."""
        run: Stage = stage("trap 'echo end; exit 5' TERM; (trap '' TERM; echo up; exec sleep 60) & wait")
        run.begin(WORKER)
        self.wait_for_output(run, WORKER)
        begun = time.monotonic()
        run.backend.do(ac.Signal(WORKER, 1, signal.SIGTERM, grace=grace))
        if second is not None:
            self.wait_for_output(run, WORKER, b"end")
            assert not run.has(ev.Exited)
            run.backend.do(ac.Signal(WORKER, 1, second))
        assert run.wait(ev.Exited).exit == Exit(code=5)
        assert time.monotonic() - begun > (0.0 if second else grace)
        run.backend.do(ac.Sweep(WORKER, 1))
        run.wait(ev.Swept)

    def test_what_left_the_group_has_no_grace_period(self, stage: Any) -> None:
        """It does not get SIGTERM either: when the group has ended, it is swept."""
        run: Stage = stage("setsid sh -c 'echo up; exec sleep 60' & wait")
        run.begin(WORKER)
        self.wait_for_output(run, WORKER)
        run.backend.do(ac.Signal(WORKER, 1, signal.SIGTERM, grace=WITHIN))
        assert run.wait(ev.Exited).exit == Exit(signal=signal.SIGTERM)
        run.backend.do(ac.Sweep(WORKER, 1))
        assert run.wait(ev.Swept).left == 1

    def test_a_signal_right_after_the_start_ends_it_or_prevents_it(self, stage: Any) -> None:
        """Whatever comes first: there is no process in the end, and it is told."""
        run: Stage = stage("sleep 60")
        run.begin(WORKER)
        run.backend.do(ac.Signal(WORKER, 1, signal.SIGKILL))
        while not (run.has(ev.SpawnFailed) or run.has(ev.Exited)):
            run.take(WITHIN)
        exits = [event.exit for event in run.events if isinstance(event, ev.Exited)]
        assert exits in ([], [Exit(signal=signal.SIGKILL)])

    def test_a_signal_to_an_older_attempt_hits_nobody(self, stage: Any) -> None:
        """Each attempt is another address."""
        run: Stage = stage("test $CLUSTERKIT_ATTEMPT = 1 || { echo up; sleep 0.2; exit 7; }")
        run.begin(WORKER)
        run.wait(ev.Exited)
        run.backend.do(ac.Sweep(WORKER, 1))
        run.wait(ev.Swept)
        run.backend.do(ac.Spawn(WORKER, 2, ""))
        run.wait(ev.Spawned, attempt=2)
        run.backend.do(ac.Signal(WORKER, 1, signal.SIGKILL))
        assert run.wait(ev.Exited, attempt=2).exit == Exit(code=7)

    def test_a_start_that_fails(self, stage: Any) -> None:
        """It says why, and is followed by nothing; other tasks are not concerned."""
        run: Stage = stage("true", setups={TaskType.WORKER: Setup(cwd="/no/such/directory")})
        run.begin(WORKER)
        assert "/no/such/directory" in run.wait(ev.SpawnFailed).error
        assert not run.has(ev.Spawned)
        assert not run.has(ev.Exited)

    def test_what_an_attempt_leaves_behind_is_swept(self, stage: Any) -> None:
        """Before Swept comes; its output is complete after that, and not before."""
        run: Stage = stage("sleep 60 & exit 0")
        run.begin(WORKER)
        assert run.wait(ev.Exited).exit == Exit(code=0)
        assert not run.has(ev.Drained)
        run.backend.do(ac.Sweep(WORKER, 1))
        assert run.wait(ev.Swept).left == 1
        run.wait(ev.Drained)

    def test_output_whose_end_does_not_come_is_closed(self, stage: Any) -> None:
        """What was written by then is in its tail."""
        run: Stage = stage("echo up; sleep 60")
        run.begin(WORKER)
        self.wait_for_output(run, WORKER)
        run.backend.do(ac.CloseOutput(WORKER, 1))
        assert run.wait(ev.Drained).tail == ("up",)

    def test_live_tasks_are_seen(self, stage: Any) -> None:
        """Those alone; a look is answered also where there is none."""
        run: Stage = stage("sleep 60")
        run.begin()
        run.backend.do(ac.Inspect())
        assert run.wait(ev.Inspected, None).vitals == {}
        run.events.clear()
        run.backend.do(ac.Spawn(OTHER, 1, ""))
        run.wait(ev.Spawned, OTHER)
        run.backend.do(ac.Inspect())
        assert run.wait(ev.Inspected, None).vitals.keys() == {OTHER}

    def test_the_paces_of_live_tasks_are_measured(self, stage: Any) -> None:
        """From the second look on, those of the attempts that were there at the first; who was stopped was stopped."""
        run: Stage = stage("echo up; while :; do :; done")
        run.begin(WORKER, OTHER)
        for task in (WORKER, OTHER):
            run.wait(ev.Spawned, task)  # of a host its output may come before: then nobody asks that host
            self.wait_for_output(run, task)
        run.backend.do(ac.Signal(OTHER, 1, signal.SIGSTOP))
        while self.state_of(run, OTHER) != "T":
            pass
        for _ in range(2):
            run.events.clear()
            run.backend.do(ac.Inspect(ev.Look.PACE))
            seen = run.wait(ev.Inspected, None)
        assert seen.look is ev.Look.PACE
        assert {task: of.attempt for task, of in seen.vitals.items()} == {WORKER: 1, OTHER: 1}
        busy, stopped = seen.vitals[WORKER].pace, seen.vitals[OTHER].pace
        assert busy is not None
        assert stopped is not None
        assert busy.samples == stopped.samples == stopped.stopped > 10
        assert busy.stopped == stopped.busy == 0
        assert busy.busy > 10
        assert busy.cpu + busy.delayed > 0.9 * busy.seconds > 0.9

    def test_shutting_ends_all_that_runs(self, stage: Any) -> None:
        """Also what left its attempt's group; the fixture looks whether a process or a port is left."""
        run: Stage = stage("sleep 60 & setsid sleep 60 & echo up; wait")
        run.begin(WORKER, OTHER)
        self.wait_for_output(run, WORKER)
        run.backend.shut()

    def test_a_backend_that_was_never_placed_can_be_shut(self, stage: Any) -> None:
        """Something else may have failed before."""
        stage("true").backend.shut()

    def test_strays_of_a_run_without_a_supervisor_are_ended(self, stage: Any, monkeypatch: Any, home: Path) -> None:
        """They are counted by run. A live run's tasks are none: here nobody holds the lock."""
        monkeypatch.setenv("CLUSTERKIT_HOME", str(home))
        run: Stage = stage("sleep 60 & echo up; wait")
        run.begin(WORKER)
        self.wait_for_output(run, WORKER)  # it has its environment: there is none while it is executed
        assert reap_strays() == {}
        run.directory.lock_file.touch()
        assert reap_strays().keys() == {"r-1"}
        assert run.wait(ev.Exited).exit == Exit(signal=signal.SIGKILL)

    @staticmethod
    def state_of(run: Stage, task: Task) -> str:
        """The state of an attempt's process, as the kernel tells it."""
        run.events.clear()
        run.backend.do(ac.Inspect())
        return run.wait(ev.Inspected, None).vitals[task].state

    @staticmethod
    def wait_for_output(run: Stage, task: Task, what: bytes = b"\n") -> None:
        """Until an attempt has written something, by default a line."""
        until = time.monotonic() + WITHIN
        while what not in run.seen.get((task, 1), b""):
            assert time.monotonic() < until, "no output"
            run.take(0.01)
