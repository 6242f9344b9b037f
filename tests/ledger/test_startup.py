"""Start-up: the stages of each task's first attempt, and what the first step waited for."""

from __future__ import annotations

import json

from clusterkit.ledger.ledger import ledger_of
from clusterkit.words import events as ev
from clusterkit.words import wire
from clusterkit.words.account import Startup
from clusterkit.words.job import JobSpec
from clusterkit.words.model import TaskState
from clusterkit.words.reports import Stage
from tests.histories import job, task


def told_by(spec: JobSpec, *happened: tuple[float, str, str]) -> Startup:
    """The start-up in which tasks reached these stages, after so many seconds."""
    events: list[tuple[float, ev.Event]] = [(1000.0, ev.Began())]
    for seconds, name, stage in happened:
        who = task(name)
        event: ev.Event = ev.Reached(who, 1, Stage(stage))
        if stage == "begun":
            event = ev.Changed(who, 1, TaskState.STARTING)
        elif stage == "spawned":
            event = ev.Spawned(who, 1, forked=True)
        elif stage == "stepped":
            event = ev.Progressed(who, 1, 1)
        events.append((1000.0 + seconds, event))
    told = ledger_of(spec, events).startup.report()
    assert wire.decode(Startup, json.loads(json.dumps(wire.encode(told)))) == told
    ends = [0.0, *(link.end for link in told.chain)]
    assert [link.begin for link in told.chain] == ends[:-1], "the links do not follow one another"
    return told


def chain(told: Startup) -> list[tuple[str, str, float]]:
    """The critical chain: task, stage, and seconds."""
    return [(str(link.task), str(link.stage), round(link.end - link.begin, 6)) for link in told.chain]


def test_one_task() -> None:
    """Its own stages follow one another, those that were not seen left out."""
    told = told_by(
        job(workers=1), (0, "worker:0", "begun"), (1, "worker:0", "spawned"), (4, "worker:0", "imported"),
        (6, "worker:0", "prepared"), (9, "worker:0", "stepped"), (10, "worker:0", "stepped"),
    )  # fmt: skip
    assert chain(told) == [
        ("worker:0", "spawned", 1.0), ("worker:0", "imported", 3.0), ("worker:0", "prepared", 2.0),
        ("worker:0", "stepped", 3.0),
    ]  # fmt: skip
    (start,) = told.tasks
    assert (start.forked, start.begun, start.spawned, start.serving, start.stepped) == (True, 0.0, 1.0, None, 9.0)
    assert told.seconds == 9.0


def test_a_gang_waits_for_its_slowest_worker() -> None:
    """Each connects when the last one has imported TensorFlow."""
    told = told_by(
        job(workers=2), (1, "worker:0", "spawned"), (1, "worker:1", "spawned"), (3, "worker:0", "imported"),
        (7, "worker:1", "imported"), (8, "worker:0", "connected"), (8, "worker:1", "connected"),
        (9, "worker:0", "prepared"), (12, "worker:0", "stepped"), (12, "worker:1", "stepped"),
    )  # fmt: skip
    assert chain(told) == [
        ("worker:1", "spawned", 1.0), ("worker:1", "imported", 6.0), ("worker:0", "connected", 1.0),
        ("worker:0", "prepared", 1.0), ("worker:0", "stepped", 3.0),
    ]  # fmt: skip


def test_a_handler_of_sigterm_does_not_connect_a_task() -> None:
    """A program may set one before it makes its strategy."""
    early = ev.SigtermHandled(task("worker:0"), 1, handled=True)
    told = ledger_of(job(workers=2), [(0.0, ev.Began()), (1.0, ev.Spawned(task("worker:0"), 1)), (2.0, early)])
    assert told.startup.report().tasks[0].connected is None


def test_a_chief_waits_for_the_servers() -> None:
    """It is started when workers serve, and is connected when the last server is up."""
    told = told_by(
        job(workers=1, ps=1), (0, "worker:0", "begun"), (2, "worker:0", "spawned"), (3, "worker:0", "serving"),
        (3.5, "chief:0", "begun"), (4, "chief:0", "spawned"), (6, "ps:0", "serving"), (7, "chief:0", "connected"),
        (9, "chief:0", "stepped"),
    )  # fmt: skip
    assert chain(told) == [("ps:0", "serving", 6.0), ("chief:0", "connected", 1.0), ("chief:0", "stepped", 2.0)]
    told = told_by(
        job(workers=1, ps=1), (2, "worker:0", "spawned"), (3, "worker:0", "serving"), (3.5, "chief:0", "begun"),
        (4, "chief:0", "spawned"), (9, "chief:0", "stepped"),
    )  # fmt: skip
    assert chain(told)[:3] == [
        ("worker:0", "spawned", 2.0), ("worker:0", "serving", 1.0), ("chief:0", "begun", 0.5),
    ]  # fmt: skip


def test_the_chain_is_empty_before_the_first_step() -> None:
    """And where the first attempt makes none."""
    assert told_by(job(workers=1), (1, "worker:0", "spawned")).chain == ()
    failed, later = ev.SpawnFailed(task("worker:0"), 1, "x"), ev.Progressed(task("worker:0"), 2, 1)
    told = ledger_of(job(workers=1), [(0, ev.Began()), (1, failed), (9, later)]).startup.report()
    assert (told.chain, told.seconds) == ((), None)


def test_what_no_job_has_is_ignored() -> None:
    """A task of another job, and reports of a later attempt."""
    told = told_by(job(workers=1), (1, "ps:0", "spawned"), (2, "worker:3", "imported"))
    assert [str(start.task) for start in told.tasks] == ["worker:0"]
