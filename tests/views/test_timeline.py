"""What `show` and `events` tell of a run: every event as a sentence."""

from __future__ import annotations

import re
from typing import get_args

import pytest

from clusterkit.views.narrate import Level, sentence
from clusterkit.views.timeline import any_sentence, timeline
from clusterkit.words import events as ev
from clusterkit.words.events import Look, Verb, Vitals
from clusterkit.words.outcome import Exit
from tests.histories import SIGTERM, History, job, task
from tests.machine.test_requests import ask
from tests.words.test_wire import EVENTS, RESULT

WORKER, CHIEF, PS = task("worker:1"), task("chief:0"), task("ps:0")
SILENT = (ev.Ticked, ev.Inspected)
# What Python or the code writes, and no person: reprs, names of classes and enums, field=value.
CODE = re.compile(r"\w\(\w+=|\w=\S|[{}\[\]<>]|\bNone\b|\b(True|False)\b|\b[A-Z]\w+\.[A-Z_]+\b|\w+\(task\b|\(\)")
KINDS = {kind.__name__ for kind in (*get_args(ev.Happened), *get_args(ev.Decided))}


@pytest.mark.parametrize("event", EVENTS, ids=lambda event: type(event).__name__)
def test_every_event_is_a_sentence(event: ev.Event) -> None:
    """No repr, no name of a class or an enum, no None; but for those that say nothing to anybody."""
    text = any_sentence(event)
    if text is None:
        assert isinstance(event, SILENT)
        return
    said, _, _ = text.partition("\n")  # code follows it
    assert not CODE.search(said.replace("step=", "").replace("step()", "").replace("for=", "")), said
    assert not KINDS.intersection(said.split()) - {"Stopping", "Ready"}, said


@pytest.mark.parametrize(
    ("event", "text"),
    [
        (ev.Began(), "The run begins."),
        (ev.SpawnFailed(WORKER, 2, "no such file"), "worker:1 could not be started: no such file (attempt 2)."),
        (ev.CheckpointFound(WORKER, 2, "/c/50"), "worker:1 finds the checkpoint /c/50 (attempt 2)."),
        (ev.Exited(WORKER, 2, Exit(signal=9)), "worker:1 was killed by SIGKILL (attempt 2)."),
        (ev.Exited(WORKER, 1, Exit(code=0), (15,)), "worker:1 exited with code 0 (attempt 1)."),
        (ev.Swept(WORKER, 1), "Nothing of worker:1 is left (attempt 1)."),
        (ev.Swept(WORKER, 1, 2), "worker:1 left 2 processes behind, which were killed (attempt 1)."),
        (ev.Swept(WORKER, 1, 1), "worker:1 left 1 process behind, which was killed (attempt 1)."),
        (ev.Swept(WORKER, 1, 1, (7, 8)), "worker:1 left processes behind that SIGKILL does not end: 7, 8 (attempt 1)."),
        (ev.Drained(WORKER, 1, ("x",)), "The output of worker:1 is complete (attempt 1)."),
        (
            ev.Drained(WORKER, 1, (), "ValueError: x"),
            "The output of worker:1 is complete (attempt 1). Its last exception: ValueError: x",
        ),
        (ev.Progressed(WORKER, 1, 5), "worker:1 reports step 5."),
        (
            ev.Progressed(WORKER, 1, 5, {"loss": 0.123456789, "accuracy": None}),
            "worker:1 reports step 5: loss 0.1235, accuracy not a number.",
        ),
        (ev.Resumed(CHIEF, 1, 0, None), "chief:0 begins at step 0."),
        (ev.Ready(PS, 1), "ps:0 is ready."),
        (
            ev.StepsTimed(CHIEF, 1, {WORKER: ev.StepTimes(12, 0.75), task("worker:2"): ev.StepTimes(1, 12.0)}),
            "chief:0 timed the steps of its workers: worker:1 took 0.8 s for 12 steps, worker:2 took 12 s for 1 step.",
        ),
        (ev.Interrupted(15), "clusterkit got SIGTERM."),
        (ev.FaultTook(2, ""), "Fault 2 was injected."),
        (ev.LifelineLost(), "clusterkit's guardian process is gone."),
        (ev.TensorBoardLost("its port is taken"), "TensorBoard is gone: its port is taken."),
        (ev.StorageFailed("full"), "The run directory can't be written: full."),
        (ev.Finished(RESULT), "The run failed after 1 min 39 s (exit code 1): why."),
        (ev.RequestRefused(1, "This run has no task worker:9."), "Refused: This run has no task worker:9."),
        (ev.RequestRefused(1, "The fault 'x': a.\nThe fault 'x': b."), "Refused: The fault 'x': a. The fault 'x': b."),
        (ev.Requested(1, Verb.KILL, (WORKER,), SIGTERM), "Asked to send SIGTERM to worker:1."),
        (ev.Requested(1, Verb.KILL, (), 18), "Asked to send SIGCONT to every task."),
        (ev.Requested(1, Verb.KILL, (PS,), 63), "Asked to send signal 63 to ps:0."),
        (ev.Requested(1, Verb.PAUSE, (CHIEF, WORKER)), "Asked to pause chief:0 and worker:1."),
        (ev.Requested(1, Verb.UNPAUSE), "Asked to unpause every task."),
        (ev.Requested(1, Verb.RESTART, (PS,)), "Asked to restart ps:0."),
        (ev.Requested(1, Verb.STACKS, (PS,)), "Asked for the Python stacks of ps:0."),
        (ev.Requested(1, Verb.PROFILE, (), steps=1), "Asked for a profile of every task, over 1 step."),
        (ev.Requested(1, Verb.FAULT, fault="stop worker:0"), "Asked to inject the fault: stop worker:0."),
        (ev.Requested(1, Verb.HEAL), "Asked to heal all faults."),
        (ev.Requested(1, Verb.DOWN), "Asked to end the run."),
        (ev.Requested(1, Verb.DOWN, force=True), "Asked to end the run without a grace period."),
    ],
)
def test_what_events_shows(event: ev.Event, text: str) -> None:
    """Also of what the console leaves out."""
    assert any_sentence(event) == text


@pytest.mark.parametrize("event", [ev.Ticked(), ev.Inspected({PS: Vitals(1, True, "S")}, Look.GLANCE)])
def test_the_machines_own_ticking_is_left_out(event: ev.Event) -> None:
    """It is in the journal, and in `events --json`."""
    assert any_sentence(event) is None


@pytest.mark.parametrize("verb", list(Verb))
def test_every_request_is_told_in_the_timeline(verb: Verb) -> None:
    """What `show` has of it."""
    told = sentence(ev.Requested(1, verb, (WORKER,), fault="stop worker:0"))
    assert told is not None
    assert (told[0], told[1].startswith("Asked ")) == (Level.INFO, True)


def test_a_refused_request_is_shown_as_refused() -> None:
    """With the reason, after what was asked for; what was done has no such line."""
    run = History(job(workers=2)).begin()
    seen: list[tuple[float, ev.Event]] = []
    run.observe = lambda event, now: seen.append((now, event))
    ask(run, Verb.KILL, "worker:9")
    ask(run, Verb.PAUSE, "worker:1")
    assert [text for _, text in timeline(seen)] == [
        "Asked to send SIGKILL to worker:9.",
        "Refused: This run has no task worker:9.",
        "Asked to pause worker:1.",
        "worker:1 is paused (SIGSTOP).",
    ]
