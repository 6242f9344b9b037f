"""Events as sentences, as a table."""

from __future__ import annotations

from typing import get_args

import pytest

from clusterkit.views.narrate import Level, is_bad, sentence
from clusterkit.words import events as ev
from clusterkit.words.distribution import Undistributed, WhyAlone
from clusterkit.words.faults import FaultAction
from clusterkit.words.model import TaskState
from clusterkit.words.outcome import Asked, Exit, Failure
from tests.histories import task

WORKER, CHIEF, PS = task("worker:1"), task("chief:0"), task("ps:0")
KILLED = Failure(PS, 1, Exit(signal=9), 5.0)
PREEMPTED = Failure(WORKER, 2, Exit(code=42), 5.0)


@pytest.mark.parametrize(
    ("event", "level", "text"),
    [
        (ev.Changed(WORKER, 2, TaskState.DRAINING), Level.DEBUG, "worker:1 is draining (attempt 2)."),
        (ev.Spawned(WORKER, 1, "pid 7"), Level.INFO, "worker:1 is started (pid 7)."),
        (ev.Spawned(WORKER, 2, "pid 7"), Level.INFO, "worker:1 is started, attempt 2 (pid 7)."),
        (ev.Resumed(CHIEF, 2, 50, "/c/50"), Level.INFO, "chief:0 resumed at step 50 from /c/50."),
        (ev.Resumed(CHIEF, 2, 0, None), Level.INFO, "chief:0 begins at step 0: it found no checkpoint."),
        (ev.Checkpointed(CHIEF, 1, 50, "/c/50"), Level.DEBUG, "chief:0 wrote the checkpoint of step 50: /c/50"),
        (ev.PhaseChanged(CHIEF, 1, "checkpoint", True), Level.DEBUG, "chief:0 does not train now: checkpoint."),
        (
            ev.PhaseChanged(CHIEF, 1, "checkpoint", False),
            Level.DEBUG,
            "chief:0 continues to train: checkpoint.",
        ),
        (ev.Requested(1, ev.Verb.PROFILE), Level.INFO, "Asked for a profile of every task, over 20 steps."),
        (ev.Profiled(WORKER, 1, 1, "/x.pb", 20), Level.INFO, "worker:1 wrote a profile of 20 steps: /x.pb"),
        (ev.Profiled(WORKER, 1, 1, "/x.pb", 1), Level.INFO, "worker:1 wrote a profile of 1 step: /x.pb"),
        (ev.Profiled(PS, 1, 1, "/x.pb"), Level.INFO, "ps:0 wrote a profile: /x.pb"),
        (ev.Profiled(PS, 1, 1, None, why="it is none"), Level.INFO, "ps:0 gave no profile: it is none."),
        (ev.Placed({WORKER: "n2", CHIEF: "n1", PS: "n1"}, {}), Level.INFO, "n1: chief:0, ps:0; n2: worker:1."),
        (
            ev.HostCut("n2", "connection reset", 30.0),
            Level.WARNING,
            "The connection to the host n2 is cut (connection reset). Its tasks continue; waiting up to 30 s.",
        ),
        (
            ev.Straggling(WORKER, 1, ev.Slowness.STOPPED, 4.52, 12.0, "is stopped 78 % of the time"),
            Level.WARNING,
            "worker:1 is about 4.5 times as slow as its peers: it is stopped 78 % of the time. To speed training up, "
            "find out what stops it: a fault, a debugger or a quota.",
        ),
        (ev.KeepsUp(WORKER, 1, 61.5), Level.INFO, "worker:1 keeps up with its peers again, after 1 min 2 s."),
        (
            ev.Shrunk((WORKER,), (CHIEF, PS, CHIEF), KILLED, 3, 4, 2, True, 120),
            Level.WARNING,
            "worker:1 is given up after 3 restarts; the job continues with 3 of 4 workers (--min-workers 2) from the "
            "checkpoint of step 120.",
        ),
        (
            ev.Shrunk((WORKER, PS), (CHIEF,), KILLED, 0, 3, 1, False),
            Level.WARNING,
            "worker:1 and ps:0 are given up; the job continues with 1 of 3 workers (--min-workers 1).",
        ),
        (
            ev.RestartPlanned((CHIEF,), KILLED, (), 1.0, 0, 3),
            Level.WARNING,
            "chief:0 starts again in 1.0 s because ps:0 was killed by SIGKILL (not charged to the restart budget).",
        ),
        (ev.HostBack("n2"), Level.INFO, "The host n2 is connected again; nothing was lost."),
        (ev.HostLost("n2", "It was silent."), Level.WARNING, "The host n2 is lost. It was silent."),
        (
            ev.HostDraining("n2", "its agent got SIGTERM"),
            Level.WARNING,
            "The host n2 is about to leave: its agent got SIGTERM. Its tasks are told to end.",
        ),
        (
            ev.HostLost("n2", "Its agent ended: it got SIGTERM.", left=True),
            Level.WARNING,
            "The host n2 has left. Its agent ended: it got SIGTERM.",
        ),
        (
            ev.RestartPlanned((CHIEF, WORKER), None, (), 0.0, 0, 3, host="n2"),
            Level.WARNING,
            "chief:0 and worker:1 start again on other hosts, since n2 leaves (not charged to the restart budget).",
        ),
        (ev.HostJoined("n2"), Level.INFO, "The host n2 has joined. It gets tasks when they are placed again."),
        (
            ev.HostAvoided("n2", "ps:0 was killed by the kernel", True),
            Level.WARNING,
            "Attempts on the host n2 failed twice for reasons of its own (ps:0 was killed by the kernel): "
            "all tasks move to other hosts.",
        ),
        (
            ev.HostAvoided("n2", "ps:0 was killed by the kernel", False),
            Level.WARNING,
            "Attempts on the host n2 failed twice for reasons of its own (ps:0 was killed by the kernel): "
            "there is no other host, so its tasks stay.",
        ),
        (ev.Failed(Failure(PS, 1, Exit(host="n2"), 5.0)), Level.WARNING, "ps:0 was lost with its host n2 (attempt 1)."),
        (ev.TensorBoardReady("http://x/"), Level.INFO, "TensorBoard answers at http://x/"),
        (ev.Failed(KILLED), Level.WARNING, "ps:0 was killed by SIGKILL (attempt 1)."),
        (ev.LeftEarly(WORKER, 1, 64), Level.INFO, "worker:1 exited with code 0 at step 64."),
        (
            ev.CannotExit(CHIEF, 1, 10.0, (WORKER,)),
            Level.WARNING,
            "chief:0 has finished its program, but has not exited 10 s later. TensorFlow waits for worker:1, which is "
            "down. To let it exit whatever its workers do, call clusterkit.training.serve first in the program, or "
            "use --servers builtin.",
        ),
        (
            ev.CannotExit(CHIEF, 1, 10.0),
            Level.WARNING,
            "chief:0 has finished its program, but has not exited 10 s later. To let it exit whatever its workers do, "
            "call clusterkit.training.serve first in the program, or use --servers builtin.",
        ),
        (
            ev.TrainAlone(Undistributed((WORKER, PS), WhyAlone.NEVER_CONNECTED)),
            Level.WARNING,
            "worker:1 and ps:0 never connected: each trained alone. The program creates no tf.distribute strategy. The "
            "program needs:\n    strategy = tf.distribute.MultiWorkerMirroredStrategy()  # before anything else\n"
            "    with strategy.scope():\n        model = …  # create and compile it here",
        ),
        (ev.LeftEarly(PS, 2), Level.WARNING, "ps:0 exited with code 0."),
        (
            ev.Failed(Failure(WORKER, 1, Exit(code=0), 5.0, step=64), later=8.0),
            Level.WARNING,
            "worker:1 exited with code 0 (attempt 1) at step 64, 8.0 s ago, and others can't continue without it.",
        ),
        (
            ev.RestartPlanned((CHIEF, PS), KILLED, (), 1.04, 1, 3),
            Level.WARNING,
            "chief:0 and ps:0 start again in 1.0 s because ps:0 was killed by SIGKILL (restart 1 of 3).",
        ),
        (
            ev.Failed(Failure(PS, 2, Exit(signal=6), 5.0, fault=1)),
            Level.WARNING,
            "ps:0 was killed by SIGABRT (attempt 2) because of fault 1.",
        ),
        (
            ev.Failed(Failure(PS, 2, Exit(signal=9), 5.0, fault=1)),
            Level.WARNING,
            "ps:0 was killed by SIGKILL (attempt 2).",
        ),
        (
            ev.RestartPlanned((CHIEF, PS), Failure(PS, 2, Exit(signal=6), 5.0, fault=1), (), 0.0, 1, 3),
            Level.WARNING,
            "chief:0 and ps:0 start again at once because of fault 1: ps:0 was killed by SIGABRT (restart 1 of 3).",
        ),
        (
            ev.RestartPlanned((CHIEF, PS), Failure(PS, 2, Exit(code=1), 5.0, fault=1, paused=(CHIEF,)), (), 0.0, 1, 3),
            Level.WARNING,
            "chief:0 and ps:0 start again at once because chief:0 was paused by fault 1: ps:0 exited with code 1 "
            "(restart 1 of 3).",
        ),
        (
            ev.Failed(Failure(PS, 2, Exit(code=1), 5.0, paused=(CHIEF, WORKER))),
            Level.WARNING,
            "ps:0 exited with code 1 (attempt 2) because chief:0 and worker:1 were paused.",
        ),
        (
            ev.RestartPlanned((CHIEF, PS), KILLED, (), 0.0, 1, 3),
            Level.WARNING,
            "chief:0 and ps:0 start again at once because ps:0 was killed by SIGKILL (restart 1 of 3).",
        ),
        (
            ev.RestartPlanned((CHIEF, WORKER, PS), KILLED, (), 2.0, 2, 3),
            Level.WARNING,
            "chief:0, worker:1 and ps:0 start again in 2.0 s because ps:0 was killed by SIGKILL (restart 2 of 3).",
        ),
        (
            ev.RestartPlanned((WORKER,), PREEMPTED, (), 0.96, 0, 3),
            Level.WARNING,
            "worker:1 starts again in 1.0 s (not charged to the restart budget).",
        ),
        (
            ev.FaultInjected(1, "kill worker:1 @ step=100", FaultAction.KILL, (WORKER,), step=103),
            Level.INFO,
            "Fault 1: kill worker:1 @ step=100, at step 103.",
        ),
        (
            ev.FaultInjected(2, "stop random(2) for=3s", FaultAction.STOP, (CHIEF, WORKER), seconds=3.0),
            Level.INFO,
            "Fault 2: stop random(2) for=3s, into chief:0 and worker:1.",
        ),
        (ev.FaultInjected(3, "disk-full", FaultAction.DISK_FULL, ()), Level.INFO, "Fault 3: disk-full."),
        (ev.FaultTook(3, "/c takes nothing more"), Level.INFO, "Fault 3: /c takes nothing more."),
        (ev.FaultTook(3, "no overlay", done=False), Level.WARNING, "Fault 3 could not be injected: no overlay."),
        (
            ev.FaultHealed(2, "stop random(2) for=3s", FaultAction.STOP, (CHIEF, WORKER), "its time is over"),
            Level.INFO,
            "Fault 2 is healed, since its time is over: stop random(2) for=3s.",
        ),
        (ev.PhaseChanged(WORKER, 1, "evaluation", True), Level.DEBUG, "worker:1 does not train now: evaluation."),
        (ev.Succeeded(CHIEF), Level.INFO, "chief:0 exited with code 0: the job is done."),
        (
            ev.Succeeded(CHIEF, (WORKER,)),
            Level.INFO,
            "chief:0 exited with code 0: the job is done. Ending the other tasks.",
        ),
        (ev.Stopping("clusterkit got SIGINT"), Level.WARNING, "Stopping the run: clusterkit got SIGINT."),
        (
            ev.Stopping("clusterkit got SIGINT", (WORKER, PS), 10.0, interrupted=True),
            Level.WARNING,
            "Stopping every task: clusterkit got SIGINT. Waiting up to 10 s for worker:1 and ps:0; Ctrl-C again kills.",
        ),
        (
            ev.Stopping("clusterkit got SIGTERM", (WORKER,), 10.0),
            Level.WARNING,
            "Stopping every task: clusterkit got SIGTERM.",
        ),
        (
            ev.Stopping("its time limit is reached", (WORKER,), 98.0, suspends=True),
            Level.WARNING,
            "The allocation ends: its time limit is reached. The run continues in the next one.",
        ),
        (ev.Continued(3), Level.INFO, "The run continues in allocation 3."),
        (ev.Warned("Look out.", WORKER), Level.WARNING, "Look out."),
        (ev.Stalled("No progress.", WORKER, 60.0, {}), Level.WARNING, "No progress."),
    ],
)
def test_what_the_user_is_told_of_an_event(event: ev.Event, level: Level, text: str) -> None:
    """One sentence, at the level of its importance."""
    assert sentence(event) == (level, text)


@pytest.mark.parametrize(
    "event",
    [ev.Resumed(CHIEF, 1, 0, None), ev.Progressed(WORKER, 1, 3), ev.Ticked(), ev.Ready(PS, 1), ev.FaultTook(1, "")],
)
def test_what_goes_without_saying(event: ev.Event) -> None:
    """A first start at step 0 and every step after it."""
    assert sentence(event) is None


@pytest.mark.parametrize(
    ("exit_", "text"),
    [
        (Exit(code=3), "exited with code 3"),
        (Exit(code=42), "exited with code 42 (requests a restart)"),
        (Exit(signal=11), "was killed by SIGSEGV"),
        (Exit(signal=63), "was killed by signal 63"),
        (Exit(signal=9, out_of_memory=True), "was killed by the kernel, out of memory (SIGKILL)"),
        (Exit(error="No such file (x.py)"), "could not be started: No such file (x.py)"),
        (Exit(signal=15, asked=Asked.TEARDOWN), "stopped with the run (SIGTERM)"),
        (Exit(code=0, asked=Asked.SUCCESS), "stopped: the job had succeeded (exit code 0)"),
        (Exit(signal=9, asked=Asked.STALL), "stopped: it had stalled (SIGKILL)"),
    ],
)
def test_how_an_attempt_ended(exit_: Exit, text: str) -> None:
    """Exit code, signal, out of memory, never started, or because the supervisor ended it."""
    assert str(exit_) == text


def test_of_many_tasks_and_hosts_a_few_are_named() -> None:
    """A sentence about 8,000 tasks is still one."""
    tasks = [task(f"worker:{index}") for index in range(8000)]
    told = sentence(ev.RestartPlanned(tuple(tasks), KILLED, (), 1.0, 1, 3))
    assert told is not None
    names = ", ".join(f"worker:{index}" for index in range(8))
    assert told[1].startswith(f"{names} and 7992 more start again in 1.0 s")
    placed = sentence(ev.Placed({one: f"n{one.index // 80:02}" for one in tasks}, {}))
    assert placed is not None
    assert placed[1].startswith(f"n00: {names}, 72 more; n01: worker:80, ")
    assert placed[1].endswith("; 92 more hosts.")


def test_what_went_wrong_is_marked() -> None:
    """Failures, warnings and faults that could not be injected, and nothing else, are bad news."""
    assert is_bad(ev.FaultTook(1, "no", done=False))
    assert not is_bad(ev.FaultTook(1, "done"))
    assert is_bad(ev.Failed(KILLED))
    assert is_bad(ev.Warned("x"))
    others = [
        kind
        for kind in (*get_args(ev.Happened), *get_args(ev.Decided))
        if kind not in (ev.Failed, ev.Warned, ev.Stalled)
    ]
    assert not is_bad(ev.Stopping("x"))
    assert not any(issubclass(kind, ev.Failed | ev.Warned) for kind in others)
