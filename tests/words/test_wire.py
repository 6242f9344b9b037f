"""Words as JSON and back."""

from __future__ import annotations

import json
from typing import get_args

import pytest

from clusterkit.words import events as ev
from clusterkit.words import wire
from clusterkit.words.actions import Action
from clusterkit.words.distribution import Training, Undistributed, WhyAlone
from clusterkit.words.faults import FaultAction, Phase
from clusterkit.words.job import JobSpec, Limits, RestartRules, RestartScope, Setup
from clusterkit.words.model import AttemptEvent, Program, ProgramKind, Tagged, Task, TaskState, TaskType
from clusterkit.words.outcome import (
    Asked,
    AttemptEnded,
    Exit,
    Failure,
    FailureRole,
    NotInjected,
    RoleKind,
    RunResult,
    RunState,
)
from clusterkit.words.reports import Stage
from clusterkit.words.verification import Equality, Verification

WORKER, PS = Task(TaskType.WORKER, 1), Task(TaskType.PS, 0)
DIED = Exit(signal=9, out_of_memory=True, asked=Asked.STALL)
CAUSE = Failure(WORKER, 2, DIED, 12.000000000000002, ("a", "b\ud800é"), "ValueError: x")
OTHER = Failure(PS, 1, Exit(error="no such file"), 13.5)
ATTEMPT = AttemptEnded(WORKER, 1, 0.1, None, None, None, 5, 3, "ckpt-3")
MISSED = (NotInjected("kill any @ 1h", "why"),)
RESULT = RunResult(RunState.FAILED, 1, "why", CAUSE, (OTHER,), (ATTEMPT,), 3, None, 99.25, not_injected=MISSED)

EVENTS: list[ev.Event] = [
    ev.Began(),
    ev.Ticked(),
    ev.Spawned(WORKER, 1, "pid 4711", "ckpt-9"),
    ev.Spawned(WORKER, 1, "pid 4711"),
    ev.CheckpointFound(WORKER, 2, "/x/ckpt-9"),
    ev.SpawnFailed(WORKER, 1, "no such file"),
    ev.Spawned(WORKER, 1, "pid 4711 on host-2", forked=True),
    ev.Noted("worker:1 starts cold: its OMP_NUM_THREADS differs."),
    ev.Noted("The fork server is ready after 0.1 s (pid 7).", minor=True),
    ev.TensorBoardReady("http://127.0.0.1:6006/"),
    ev.TensorBoardLost("its port is taken"),
    ev.DashboardReady("http://127.0.0.1:8090/"),
    ev.DashboardLost("its process has ended"),
    ev.ProgramChanged(("train.py", "lib/data.py"), 0.25),
    ev.ProgramChanged(("train.py",), problem="train.py is gone", same=False),
    ev.EditTrains(301, 2.25),
    ev.WaitsForChange("worker:1 exited with code 1", "train.py"),
    ev.RestartPlanned((PS, WORKER), None, (), 0.0, 0, 3, files=("train.py",), step=300),
    ev.Exited(WORKER, 3, DIED),
    ev.Exited(WORKER, 3, Exit(code=0)),
    ev.Swept(WORKER, 1, 3, (17, 18)),
    ev.Swept(WORKER, 1, unseen="Too many open files"),
    ev.Drained(WORKER, 1, ("last", "words"), "ValueError: x"),
    ev.Drained(WORKER, 1),
    ev.Progressed(WORKER, 1, 100, {"loss": 0.1, "accuracy": None}),
    ev.Progressed(WORKER, 1, 100),
    ev.Checkpointed(WORKER, 1, 50, "/x/ckpt-50"),
    ev.Resumed(WORKER, 2, 50, "/x/ckpt-50"),
    ev.Resumed(WORKER, 2, 0, None),
    ev.Ready(PS, 1),
    ev.SigtermHandled(WORKER, 1, False),
    ev.Reached(WORKER, 1, Stage.IMPORTED),
    ev.InDebugger(WORKER, 1, "train.py", 31, "step", "ValueError: no"),
    ev.LeftDebugger(WORKER, 1),
    ev.EditorAwaited(WORKER, 1, "127.0.0.1:5678", True),
    ev.PhaseChanged(WORKER, 1, "evaluation", True),
    ev.PhaseReached(WORKER, 1, Phase.SAVING_OPEN, 2),
    ev.StepsUnreported(WORKER, 1, 61),
    ev.Repaired(WORKER, 1, "order"),
    ev.StepsTimed(WORKER, 1, {WORKER: ev.StepTimes(12, 0.75)}),
    ev.Inspected({WORKER: ev.Vitals(1, False, "S", pace=ev.Pace(16, 3, 4, 2.5, 1.25, 0.5))}, ev.Look.PACE),
    ev.Profiled(WORKER, 1, 9, "/x/vm.xplane.pb", 20),
    ev.Profiled(PS, 1, 9, None, why="it has not imported TensorFlow"),
    ev.Inspected({WORKER: ev.Vitals(1, True, "S"), PS: ev.Vitals(1, False, "D")}),
    ev.Inspected({WORKER: ev.Vitals(1, True, "S", "is at x.py:1", True)}, ev.Look.STALL, "/x/stall-1.txt"),
    ev.Interrupted(2),
    ev.Requested(7, ev.Verb.KILL, (WORKER, PS), 15, True),
    ev.Requested(8, ev.Verb.FAULT, fault="kill worker:1 @ step=100"),
    ev.Requested(9, ev.Verb.PROFILE, (WORKER,), steps=5, seconds=2.5),
    ev.RequestRefused(7, "This run has no task worker:9."),
    ev.Paused(WORKER, 2, True),
    ev.FaultInjected(1, "partition worker:1 for=2s", FaultAction.PARTITION, (WORKER,), (PS,), 2.0, 103),
    ev.FaultInjected(2, "kill any", FaultAction.KILL, (WORKER,)),
    ev.FaultTook(1, "all packets are dropped"),
    ev.FaultTook(3, "there is no checkpoint", done=False),
    ev.FaultHealed(1, "partition worker:1 for=2s", FaultAction.PARTITION, (WORKER,), "its time is over"),
    ev.LifelineLost(),
    ev.Continued(2),
    ev.AllocationEnding("its time limit is reached", 98.5),
    ev.Exited(WORKER, 1, Exit(lost=True)),
    ev.Stopping("its time limit is reached", (WORKER,), 98.5, suspends=True),
    ev.Stopping("clusterkit got SIGINT", (WORKER,), 10.0, interrupted=True),
    ev.Stalled("No progress.", WORKER, 60.5, {WORKER: ev.Vitals(1, True, "T", "is at x.py:1", True)}, "/x/stall-1.txt"),
    ev.Placed({WORKER: "n1", PS: "n2"}, {WORKER: "n1:1"}),
    ev.Placed({WORKER: "n1"}, {WORKER: "n1:1"}, ("n2", "n3"), ("n1",)),
    ev.HostJoined("n2"),
    ev.HostAvoided("n2", "worker:1 could not be started: on n2, no inode is free", moves=True),
    ev.SpawnFailed(WORKER, 2, "on n2, it does not reach the host of ps:0", unfit=True, unreached=(PS,)),
    ev.HostCut("n2", "connection reset", 30.0),
    ev.HostDraining("n2", "its agent got SIGTERM"),
    ev.HostBack("n2"),
    ev.HostLost("n2", "it was silent for 30 s"),
    ev.Exited(WORKER, 1, Exit(host="n2")),
    ev.SpawnFailed(WORKER, 1, "its host is lost", "n2"),
    ev.Impaired("No client can connect."),
    ev.StorageFailed("full"),
    ev.Crashed("the thread 'logs'", "ValueError: x", "Traceback\nValueError: x"),
    ev.Changed(WORKER, 1, TaskState.DRAINING),
    ev.Changed(WORKER, 1, TaskState.STOPPING, Asked.GANG),
    ATTEMPT,
    AttemptEnded(WORKER, 2, 0.1, 3.5, DIED, 1, 5, 3, "ckpt-3", 7, FailureRole(RoleKind.COLLATERAL, PS, 1)),
    ev.Failed(CAUSE),
    ev.LeftEarly(WORKER, 2, 64),
    ev.LeftEarly(PS, 1),
    ev.CannotExit(WORKER, 2, 10.0, (PS,)),
    ev.ProgramEnds(WORKER, 2),
    ev.TrainsWith(WORKER, 2, ("MirroredStrategy",), 0, False, Training.SCOPED),
    ev.Verified(Verification(Equality.DIFFERENT, 5, "It differs.", "Mend it.", "train.py, line 3", cached=True)),
    ev.TrainAlone(Undistributed((WORKER, PS), WhyAlone.NEVER_CONNECTED, ("MirroredStrategy",))),
    ev.RestartPlanned((PS, WORKER), CAUSE, (OTHER,), 1.0625, 1, 3),
    ev.Shrunk((WORKER,), (OTHER.task,), CAUSE, 3, 4, 2, True, 120),
    ev.Succeeded(WORKER),
    ev.Stopping("why"),
    ev.Warned("look", WORKER),
    ev.Warned("look"),
    ev.Straggling(WORKER, 1, ev.Slowness.STOPPED, 4.5, 12.25, "is stopped 78 % of the time"),
    ev.KeepsUp(WORKER, 1, 61.5),
    ev.Finished(RESULT),
]


@pytest.mark.parametrize("event", EVENTS, ids=lambda event: type(event).__name__)
def test_an_event_survives_the_journey(event: ev.Event) -> None:
    """Encoded, written as JSON, read and decoded, it is equal to what it was."""
    message = json.loads(json.dumps(wire.encode_event(event)))
    assert message["event"] == type(event).__name__
    assert wire.decode_event(message) == event


def test_every_kind_of_event_is_tried_above() -> None:
    """A new one has to be put into the list."""
    assert {type(event) for event in EVENTS} == {*get_args(ev.Happened), *get_args(ev.Decided)}


def test_every_event_and_action_is_in_one_of_the_unions() -> None:
    """A new one has to be put into Happened, Decided or Action."""
    kinds = {*Tagged.__subclasses__(), *AttemptEvent.__subclasses__()} - {AttemptEvent}
    here = {kind for kind in kinds if kind.__module__.startswith("clusterkit.words.")}
    assert here == {*get_args(ev.Happened), *get_args(ev.Decided), *get_args(Action)}


def test_how_a_task_is_written() -> None:
    """`worker:1`, as everywhere."""
    assert wire.encode_event(ev.Ready(WORKER, 1)) == {"event": "Ready", "task": "worker:1", "attempt": 1}
    assert wire.encode({WORKER: 1, TaskType.PS: 2}) == {"worker:1": 1, "ps": 2}


def test_what_a_journal_adds_is_left_out() -> None:
    """Times and whatever later versions write do not disturb."""
    message = {"t": 1.0, "m": 2.0, "new": "field", **wire.encode_event(ev.Interrupted(15))}
    assert wire.decode_event(message) == ev.Interrupted(15)
    message = {"event": "Exited", "task": "worker:1", "attempt": 1, "exit": {"code": 1, "new": 2}}
    assert wire.decode_event(message) == ev.Exited(WORKER, 1, Exit(1))


@pytest.mark.parametrize(
    "message",
    [
        {},
        {"event": "Nonsense"},
        {"event": "Exit"},
        {"event": "Ready", "task": "x:y", "attempt": 1},
        {"event": "Ready", "task": 1, "attempt": 1},
        {"event": "Ready", "task": "worker:1", "attempt": "1"},
        {"event": "Ready", "task": "worker:1", "attempt": True},
        {"event": "Ready", "task": "worker:1", "attempt": 1.0},
        {"event": "PhaseChanged", "task": "worker:1", "attempt": 1, "phase": "evaluate", "begun": 1},
        {"event": "Exited", "task": "worker:1", "attempt": 1, "exit": [1]},
        {"event": "Exited", "task": "worker:1", "attempt": 1, "exit": {"code": "1"}},
        {"event": "Drained", "task": "worker:1", "attempt": 1, "tail": "one line"},
        {"event": "Progressed", "task": "worker:1", "attempt": 1, "step": 1, "metrics": [["loss", 1.0]]},
        {"event": "Progressed", "task": "worker:1", "attempt": 1, "step": 1, "metrics": {"loss": "small"}},
    ],
    ids=str,
)
def test_what_is_no_event_is_a_value_error(message: dict[str, object]) -> None:
    """Also the name of a word that is none."""
    with pytest.raises(ValueError, match="is not"):
        wire.decode_event(message)


def test_jobs_and_results_survive_the_journey() -> None:
    """job.json and result.json can be read back."""
    job = JobSpec(
        Program(ProgramKind.MODULE, "pkg.train", ("-x",)),
        {TaskType.CHIEF: 1, TaskType.WORKER: 2},
        Setup({"A": "1"}, "/x", None, None),
        {TaskType.WORKER: Setup(args=("y",))},
        RestartRules(scope=RestartScope.JOB),
        Limits(stall=1.5),
        resume="r-1",
    )
    assert wire.decode(JobSpec, json.loads(json.dumps(wire.encode(job)))) == job
    assert wire.decode(RunResult, json.loads(json.dumps(wire.encode(RESULT)))) == RESULT
