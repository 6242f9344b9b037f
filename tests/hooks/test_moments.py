"""What hooks are told, as a fold over histories: which events, once each, and with which fields."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import PurePath
from typing import Any

import pytest

from clusterkit.hooks.moments import LONGEST, Document, Moments
from clusterkit.ledger.ledger import Ledger
from clusterkit.store.paths import Paths
from clusterkit.words import events as ev
from clusterkit.words import wire
from clusterkit.words.job import Hook, JobSpec, Limits, RestartPolicy, RestartRules
from clusterkit.words.outcome import Exit, Failure, RoleKind
from clusterkit.words.reports import Progressed
from tests.histories import SIGABRT, SIGINT, SIGKILL, job, task
from tests.ledger.recovering import UNAVAILABLE, Told, gang, ps_job
from tests.ledger.test_walk import Noted

KEYS = [
    *("schema", "event", "time", "skipped", "run", "directory", "program", "elapsed", "message", "step", "checkpoint"),
    *("task", "attempt", "how", "exit_code", "signal", "error", "fault", "log", "others", "restarts", "requested"),
    *("seconds", "lost_steps", "resumed_step", "report", "state", "run_exit_code"),
]


def told_of(spec: JobSpec, events: list[tuple[float, ev.Event]]) -> list[dict[str, Any]]:
    """Every document, as a command would read it."""
    ledger = Ledger(spec)
    moments, documents = Moments(ledger, Paths(PurePath("/runs/one"))), []
    for at, event in events:
        ledger.add(at, event)
        documents += moments.add(at, event)
    return [json.loads(json.dumps(document.encode(1e9, 0))) for document in documents]


def documents(told: Told) -> list[dict[str, Any]]:
    """Every document of a history so far."""
    return told_of(told.job, told.events)


def kinds(told: Told) -> list[str]:
    """Of which events hooks were told."""
    return [document["event"] for document in documents(told)]


def test_a_failure_and_its_recovery() -> None:
    """A worker of a parameter-server job is killed on purpose, and is up again later."""
    told = ps_job("kill worker:1 @ step=50")
    told.run.progresses("chief:0", 50)
    told.run.after(0.1)
    assert kinds(told) == ["failure"]
    told.run.after(2)
    told.ready("worker:1")
    failure, recovery = documents(told)
    assert failure["message"] == "worker:1 was killed by SIGKILL (attempt 1)"
    for document in (failure, recovery):
        shown = {name: document[name] for name in ("task", "attempt", "how", "exit_code", "signal", "fault", "step")}
        assert shown == {
            "task": "worker:1", "attempt": 1, "how": "was killed by SIGKILL", "exit_code": None, "signal": "SIGKILL",
            "fault": "kill worker:1 @ step=50", "step": 50,
        }  # fmt: skip
        assert document["log"] == "/runs/one/tasks/worker:1/attempt-1.log"
        assert (document["run"], document["directory"], document["program"]) == ("one", "/runs/one", "train.py")
        assert document["restarts"] == ["worker:1"]
    assert (recovery["seconds"], recovery["lost_steps"], recovery["requested"]) == (pytest.approx(2.1), 0, False)
    assert recovery["message"] == "worker:1 restarted after 2.1 s: worker:1 was killed by SIGKILL (attempt 1)"


def test_collateral_is_not_told_and_a_recovery_ends_with_the_first_new_step() -> None:
    """A gang of which one task dies: one failure, one recovery."""
    told = gang()
    told.run.exits("worker:0", code=1, exception=UNAVAILABLE)
    told.run.exits("worker:1", signal=SIGKILL)
    told.run.after(3)
    told.run.resumes("worker:0", 20, "ckpt-20")
    told.run.progresses("worker:0", 20)
    assert kinds(told) == ["failure"]
    told.run.after(1)
    told.run.progresses("worker:0", 21)
    told.run.progresses("worker:1", 21)
    failure, recovery = documents(told)
    assert (failure["task"], failure["others"]) == ("worker:1", ["worker:0"])
    assert failure["restarts"] == ["worker:0", "worker:1"]
    assert (recovery["lost_steps"], recovery["resumed_step"], recovery["step"]) == (10, 20, 21)
    assert recovery["checkpoint"] == "ckpt-20"
    assert recovery["message"].startswith("Training continued after 4.0 s: worker:1 was killed by SIGKILL")


def test_several_failures_in_a_row_are_one_recovery() -> None:
    """From the first of them on."""
    told = gang()
    for number in (SIGKILL, 11, SIGKILL):
        told.run.exits("worker:1", signal=number)
        told.run.after(10)
    told.run.progresses("worker:0", 31)
    assert kinds(told) == ["failure", "failure", "failure", "recovery"]
    recovery = documents(told)[-1]
    assert (recovery["attempt"], recovery["seconds"]) == (1, pytest.approx(30))


def test_a_failure_that_is_not_restarted_comes_before_the_end() -> None:
    """With the exit code of the run, and the same cause."""
    told = Told(job(workers=2, restart=RestartRules(policy=RestartPolicy.NEVER)))
    told.run.exits("worker:0", signal=SIGABRT)
    told.run.exits("worker:1", code=1, exception="ValueError: \x1b[31mbad\n" + "x" * 9000)
    told.run.after(60)
    failure, end = documents(told)
    assert (failure["event"], end["event"]) == ("failure", "end")
    assert failure["error"].startswith("ValueError: bad␊xxx")
    assert len(failure["error"]) == LONGEST
    assert (failure["others"], failure["restarts"]) == (["worker:0"], [])
    assert (end["state"], end["run_exit_code"], end["task"], end["exit_code"]) == ("failed", 1, "worker:1", 1)


def test_an_evaluator_that_is_given_up_is_a_failure() -> None:
    """The job goes on without it."""
    told = Told(job(workers=1, evaluator=1, restart=RestartRules(policy=RestartPolicy.NEVER)))
    told.run.exits("evaluator:0", code=3)
    told.run.after(5)
    assert [(one["event"], one["task"], one["exit_code"]) for one in documents(told)] == [("failure", "evaluator:0", 3)]


@pytest.mark.parametrize("spec", [job(workers=3), job(workers=3, ps=1)], ids=["gang", "ps"])
def test_a_worker_that_is_given_up_is_a_failure(spec: JobSpec) -> None:
    """At once, and once: the others of a gang restart, a coordinator goes on."""
    rules = RestartRules(budget=0, min_workers=2)
    told = Told(replace(spec, restart=rules, limits=Limits(startup=0)))
    told.run.progresses(str(spec.leader), 5)
    told.run.exits("worker:2", signal=SIGKILL)
    told.run.after(2)
    (failure,) = documents(told)
    assert (failure["event"], failure["task"]) == ("failure", "worker:2")
    assert failure["restarts"] == (["worker:0", "worker:1"] if spec.leader == task("worker:0") else [])


def test_a_restart_that_was_asked_for_is_no_failure() -> None:
    """It has a recovery, with no task to blame."""
    told = gang()
    told.run.send(ev.Requested(1, ev.Verb.RESTART, (task("worker:1"),)))
    told.run.after(5)
    told.run.progresses("worker:0", 31)
    (recovery,) = documents(told)
    assert (recovery["event"], recovery["requested"], recovery["task"]) == ("recovery", True, None)


def test_a_failure_that_a_request_overtakes_is_told() -> None:
    """Before it was decided what it leads to."""
    told = gang()
    told.run.exits("worker:1", signal=SIGKILL)
    told.run.send(ev.Requested(1, ev.Verb.RESTART, (task("worker:1"),)))
    told.run.after(5)
    assert [(one["event"], one["task"]) for one in documents(told)] == [("failure", "worker:1")]


def test_a_task_that_is_restarted_after_success_is_no_failure() -> None:
    """With --restart always."""
    told = Told(job(workers=1, evaluator=1, restart=RestartRules(policy=RestartPolicy.ALWAYS)))
    told.run.exits("evaluator:0", code=0)
    told.run.after(5)
    assert told.run.attempts["evaluator:0"] == 2
    assert "failure" not in kinds(told)


def test_a_stall_has_its_verdict_and_its_report() -> None:
    """Other warnings have no hook."""
    told = Told(job(workers=2, ps=1, limits=Limits(startup=0)))
    told.run.progresses("chief:0", 7)
    told.run.send(ev.Impaired("The disk is slow."))
    told.run.after(70)
    (stall,) = documents(told)
    assert (stall["event"], stall["step"], stall["report"]) == ("stall", 7, "stall-1.txt")
    assert stall["task"] in ("chief:0", "worker:0", "worker:1", "ps:0")
    assert stall["message"].startswith("No task has reported progress for 60 s")


@pytest.mark.parametrize(
    ("event", "state", "code"),
    [
        (ev.Interrupted(SIGINT), "stopped", 130),
        (ev.LifelineLost(), "failed", 1),
        (ev.Crashed("the thread 'x'", "KeyError: 1", "Traceback"), "failed", 70),
        (ev.StorageFailed("the disk is full"), "failed", 1),
    ],
)
def test_every_end_is_told(event: ev.Happened, state: str, code: int) -> None:
    """However it comes."""
    told = gang()
    told.run.send(event)
    told.run.after(60)
    (end,) = documents(told)
    assert (end["event"], end["state"], end["run_exit_code"]) == ("end", state, code)


def test_a_timeout_is_an_end_and_a_suspension_is_none() -> None:
    """A suspended run continues in another allocation."""
    late = Told(job(workers=1, limits=Limits(job=5)))
    late.run.after(60)
    assert [(one["state"], one["run_exit_code"]) for one in documents(late)] == [("timed out", 124)]
    moved = gang()
    moved.run.send(ev.AllocationEnding("its time is over", 5.0))
    moved.run.after(60)
    assert moved.run.over
    assert documents(moved) == []


def test_a_document_has_every_key_and_hostile_text_is_printable() -> None:
    """Whatever a task has said; the keys are those that docs/hooks.md describes."""
    told = Told(job(workers=1))
    told.run.checkpoints("worker:0", 5)
    told.run.send(ev.Checkpointed(task("worker:0"), 1, 6, "/\x1b[31m/ckpt-6\n"))
    told.run.exits("worker:0", code=1, exception="\u202e\udc80\x00" * 5000)
    told.run.after(1)
    (document,) = documents(told)
    assert list(document) == KEYS
    assert not set("\u202e\udc80\x00") & set(document["error"])
    assert not set("\x1b\n") & set(document["checkpoint"])
    assert len(json.dumps(document)) < 60_000
    bare = Document(event=Hook.END, run="r", directory="d", program="p", elapsed=0.0, message="m")
    assert list(bare.encode(1.0, 2)) == KEYS
    assert bare.encode(1.23456, 2)["skipped"] == 2


def test_a_journal_that_names_unknown_attempts_is_told_without_them() -> None:
    """A damaged one; nothing is raised."""
    spec = job(workers=2)
    events: list[ev.Event] = [
        ev.Progressed(task("worker:9"), 5, 3),
        ev.RestartPlanned((task("worker:7"),), Failure(task("worker:7"), 3, Exit(code=1), 5.0), (), 1.0, 1, 3),
        ev.Warned("out of the blue"),
        ev.Stopping("no reason"),
    ]
    assert told_of(spec, [(float(at), event) for at, event in enumerate(events)]) == []


@pytest.mark.parametrize("block", range(4))
def test_in_random_histories_each_cause_is_told_once(block: int) -> None:
    """And at most one recovery for each, and one end."""
    for seed in range(block, 40, 4):
        print(f"seed {seed}")
        walk = Noted(seed)
        for _ in range(150):
            if not walk.finishes:
                walk.step(calm=False)
        events = [(line["m"], wire.decode_event(line)) for line in walk.journal]
        found = told_of(walk.spec, events)
        failures = [(one["task"], one["attempt"]) for one in found if one["event"] == "failure"]
        failed = {(str(e.failure.task), e.failure.attempt) for _, e in events if isinstance(e, ev.Failed)}
        assert len(set(failures)) == len(failures)
        assert set(failures) <= failed
        planned = [e.cause for _, e in events if isinstance(e, ev.RestartPlanned) and e.cause is not None]
        assert {(str(one.task), one.attempt) for one in planned} & failed <= set(failures)
        first: dict[tuple[str, int], RoleKind] = {}  # later failures may change what was decided of an older one
        for _, e in events:
            if isinstance(e, ev.AttemptEnded) and e.role is not None:
                first.setdefault((str(e.task), e.attempt), e.role.kind)
        assert {first.get(key, RoleKind.CAUSE) for key in failures} <= {RoleKind.CAUSE}
        ended = [e for _, e in events if isinstance(e, ev.Finished) and e.result.state != "suspended"]
        assert len([one for one in found if one["event"] == "end"]) == len(ended)
        new_steps = [e for _, e in events if isinstance(e, Progressed | ev.Ready | ev.Checkpointed | ev.Resumed)]
        assert len([one for one in found if one["event"] == "recovery"]) <= len(new_steps)
