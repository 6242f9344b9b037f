"""What the page says is so: of faults that kill nobody, of stragglers, of programs without TensorFlow."""

from __future__ import annotations

from dataclasses import replace

from clusterkit.page.model.entities import Run
from clusterkit.page.model.stories import stories
from clusterkit.views.guidance import guidance
from clusterkit.words import events as ev
from clusterkit.words.account import InjectedFault, RecoveryReport
from clusterkit.words.decided import Slowness, Straggling
from clusterkit.words.faults import FaultAction
from clusterkit.words.reports import Reached, Stage
from tests.histories import job, task
from tests.ledger.recovering import gang
from tests.page.histories import model_of, stamped

SLOW = InjectedFault(
    1, "slow worker:1 share=20% for=10s", FaultAction.SLOW, (task("worker:1"),), (), 10.0, 5, 20.0, went_on=True
)


def lines_of(fault: InjectedFault, before: float | None = None, during: float | None = None) -> list[tuple[float, str]]:
    """The lines of the story of a fault that killed nobody, at these steps/s."""
    (story,) = stories(RecoveryReport(faults=(fault,)), pace=lambda begin, _: before if begin < 20 else during)
    assert story.kind == "fault"
    return [(line.at, line.text) for line in story.lines if not line.text.startswith("Fault 1")]


def test_a_fault_that_kills_nobody_is_told_by_what_it_slowed() -> None:
    """When it ends, with both speeds if they are known; while it lasts, only that nobody has died."""
    healed = replace(SLOW, healed=30.0, why="its time is over")
    assert lines_of(SLOW) == [(20.0, "No task has died of it")]
    assert lines_of(healed) == [(30.0, "No task died, and training went on until then")]
    slowed = "No task died; training was slowed to 3.1 steps/s until then, from 12 before"
    assert lines_of(healed, 12.0, 3.1) == [(30.0, slowed)]
    kept = "No task died; training went on at 11.5 steps/s until then, 12 before"
    assert lines_of(healed, 12.0, 11.5) == [(30.0, kept)]


def test_a_straggler_is_not_nothing() -> None:
    """The page names it, and does not say beside it that nothing is wrong."""
    told = gang()
    told.run.exits("worker:1", signal=9)
    told.run.after(20)
    told.steps("worker:0", 20, 21, 22)
    assert guidance(told.ledger, "r").why.startswith("Nothing is wrong now.")
    slow = Straggling(
        task("worker:1"), told.run.attempts["worker:1"], Slowness.BUSY, 2.5, 30.0, "took longer per batch"
    )
    told._observe(slow, told.run.now)
    found = guidance(told.ledger, "r")
    assert found.why.startswith("worker:1 is about 2.5 times as slow as its peers: it took longer per batch.")
    assert "Nothing" not in found.why + found.todo


def test_a_strategy_is_named_once_a_task_has_created_it() -> None:
    """A program may use no TensorFlow, or fail before."""
    spec = job(workers=2)
    events: list[tuple[float, ev.Event]] = [(0.0, ev.Began())]

    def strategy() -> str:
        run = model_of(spec, stamped(events)).board.get("run")
        assert isinstance(run, Run)
        return run.strategy

    assert strategy() == ""
    events.append((1.0, Reached(spec.tasks[0], 1, Stage.CONNECTED)))
    assert strategy() == "MultiWorkerMirroredStrategy"
