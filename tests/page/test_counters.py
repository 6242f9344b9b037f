"""Counters of metrics: each event of a journal counts once, whatever the page forgets, and none ever goes down."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

import pytest

from clusterkit.page.journal import Happening
from clusterkit.page.metrics import families, scraped
from clusterkit.page.model import stories
from clusterkit.page.model.run_model import RunModel
from clusterkit.words import events as ev
from clusterkit.words.faults import FaultAction
from clusterkit.words.job import JobSpec, Limits, RestartRules
from clusterkit.words.model import TaskState
from clusterkit.words.outcome import Asked, Exit
from tests.histories import job, task
from tests.ledger.recovering import Told, ps_job
from tests.page.histories import AFTER, feed, model_of, random_history, stamped

MANY = 2500  # more than the page keeps of anything
Samples = dict[tuple[str, ...], float]


def counted(model: RunModel) -> Samples:
    """Every sample of a counter or a histogram."""
    model.refresh(AFTER, True)
    found = scraped(model.board.entities(), 1.0, 1, model.ledger)
    return {
        (sample.name, *sorted(sample.labels.values())): sample.value
        for family in families([found])
        if family.type in ("counter", "histogram")
        for sample in family.samples
    }


def check_monotone(job: JobSpec, happenings: Sequence[Happening], looks: int) -> Samples:
    """Scrape so many times while a journal grows, and return what the last one says."""
    model, before = model_of(job, live=True), Samples()
    every = max(1, len(happenings) // looks)
    for begin in range(0, len(happenings), every):
        feed(model, happenings[begin : begin + every])
        now = counted(model)
        assert all(now.get(key, 0.0) >= value for key, value in before.items())
        before = now
    return before


def of(samples: Samples, name: str) -> dict[tuple[str, ...], float]:
    """A family's samples by their labels without the run's, which is `r`."""
    return {tuple(sorted(set(key[1:]) - {"r"})): value for key, value in samples.items() if key[0] == name}


def many_faults(spec: JobSpec) -> Iterator[tuple[float, ev.Event]]:
    """Partitions and kills by turns, each with what else makes a mark; of the former, every fifth one fails."""
    at, who, peer = 0.0, task("worker:1"), task("worker:0")
    yield at, ev.Began()
    for one in spec.tasks:
        yield at, ev.Changed(one, 1, TaskState.STARTING)
    for number in range(1, MANY + 1):
        at += 1.0
        if number % 2:
            yield at, ev.FaultInjected(number, "partition", FaultAction.PARTITION, (who,), (peer,), 1.0)
            yield at, ev.FaultTook(number, "", done=bool(number % 5))
            yield at, ev.FaultHealed(number, "partition", FaultAction.PARTITION, (who,), "its time is over")
            continue
        attempt, killed = number // 2, Exit(signal=9)
        yield at, ev.FaultInjected(number, "kill", FaultAction.KILL, (who,))
        yield at, ev.AttemptEnded(who, attempt, 0.0, at, killed, None, None, None, None)
        yield at, ev.AttemptEnded(who, attempt, 0.0, at, killed, None, None, None, None, fault=number)
        yield at, ev.AttemptEnded(peer, attempt, 0.0, at, Exit(signal=9, asked=Asked.GANG), None, None, None, None)
        for one in (who, peer):
            yield at, ev.Changed(one, attempt + 1, TaskState.STARTING)


def test_each_of_very_many_faults_and_restarts_is_counted_once() -> None:
    """Of which the page keeps the newest ones alone."""
    spec = job(workers=2)
    found = check_monotone(spec, stamped(many_faults(spec)), looks=20)
    failed = sum(1 for number in range(5, MANY + 1, 10))
    assert of(found, "clusterkit_faults_total") == {("kill",): MANY // 2, ("partition",): MANY // 2 - failed}
    assert of(found, "clusterkit_restarts_total") == {
        ("fault", "worker:1"): MANY // 2, ("asked", "worker:0"): MANY // 2,
    }  # fmt: skip


def test_each_of_very_many_recoveries_is_counted_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """With what was computed again, although the page tells of the newest ones alone."""
    monkeypatch.setattr(stories, "MOST_STORIES", 10)
    often = RestartRules(budget=10**6, backoff=1.0, backoff_max=1.0)
    told = Told(job(workers=2, restart=often, limits=Limits(startup=0)))
    for _ in range(60):
        told.run.after(1)
        told.run.progresses("worker:0", 30)
        told.run.exits("worker:1", signal=9)
        told.run.after(3)
        for name in ("worker:0", "worker:1"):
            told.run.resumes(name, 20, "ckpt-20")
            told.run.progresses(name, 21)
    found = check_monotone(told.job, stamped(told.events), looks=9)
    assert of(found, "clusterkit_lost_steps_total") == {(): 600.0}
    assert of(found, "clusterkit_recovery_seconds_count") == {(): 60.0}


def test_a_recovery_begins_with_its_fault() -> None:
    """It counts from there on, and once it has ended."""
    told = ps_job("kill ps:0 @ step=45")
    told.run.after(5)
    model = model_of(told.job, stamped(told.events), live=True)
    assert of(counted(model), "clusterkit_recovery_seconds_count") == {(): 0.0}
    told.ready("ps:0")
    told.run.resumes("chief:0", 40, "ckpt-40")
    told.run.progresses("chief:0", 41)
    told.run.after(1)
    told.run.progresses("chief:0", 42)
    found = counted(model_of(told.job, stamped(told.events), live=True))
    (recovery,) = told.report.recoveries
    assert recovery.seconds is not None
    assert of(found, "clusterkit_recovery_seconds_sum") == {(): pytest.approx(recovery.seconds)}
    assert of(found, "clusterkit_lost_steps_total") == {(): 5.0}


@pytest.mark.parametrize("seed", range(12))
def test_counters_are_exact_and_never_go_down(seed: int) -> None:
    """In whatever order things happen; held against the journal by plain counting."""
    spec, happenings = random_history(seed)
    found = check_monotone(spec, happenings, looks=25)
    events = [one.event for one in happenings]
    starts = Counter(
        str(event.task)
        for event in events
        if isinstance(event, ev.Changed) and event.state is TaskState.STARTING and event.attempt > 1
    )
    restarts = Counter[str]()
    for labels, value in of(found, "clusterkit_restarts_total").items():
        restarts[next(label for label in labels if ":" in label)] += int(value)
    assert restarts == starts
    injected = [event for event in events if isinstance(event, ev.FaultInjected)]
    took = {event.number: True for event in events if isinstance(event, ev.FaultTook) and event.done}
    own = ("kill", "term", "stop", "hang-start")
    faults = Counter(one.action.value for one in injected if one.action.value in own or one.number in took)
    assert of(found, "clusterkit_faults_total") == {(action,): count for action, count in faults.items()}


def test_the_age_of_a_checkpoint_is_that_of_the_newest() -> None:
    """Of many the page keeps some."""
    spec = job(workers=2)
    events: list[tuple[float, ev.Event]] = [(0.0, ev.Began())]
    events += [(float(n), ev.Checkpointed(task("worker:0"), 1, n, f"ckpt-{n}")) for n in range(1, 1204)]
    model = model_of(spec, stamped(events), live=True)
    found = scraped(model.board.entities(), 1210.0, 1, model.ledger)
    (age,) = [one for one in families([found]) if one.name == "clusterkit_checkpoint_age_seconds"]
    assert [sample.value for sample in age.samples] == [7.0]
