"""A start that fails for a reason that passes, such as a full process table, is charged to the budget and repeated."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from clusterkit.words import events as ev
from clusterkit.words.job import JobSpec, RestartRules
from clusterkit.words.model import Task
from clusterkit.words.outcome import RunState
from tests.histories import SIGKILL, History, job

FULL = "Resource temporarily unavailable"
GANG = job(workers=2, restart=RestartRules(budget=4))
PS_JOB = job(workers=2, ps=1, restart=RestartRules(budget=4))


@dataclass
class Crowded(History):
    """A history in which a number of starts of worker:1 fail, from its second attempt on."""

    failing: int = 0

    def _spawn(self, who: Task, attempt: int) -> None:
        if str(who) == "worker:1" and attempt > 1 and self.failing:
            self.failing -= 1
            self.attempts[str(who)] = attempt
            self.send(ev.SpawnFailed(who, attempt, FULL, unfit=True))
            return
        super()._spawn(who, attempt)


@pytest.mark.parametrize("spec", [GANG, PS_JOB], ids=["gang", "ps"])
def test_a_start_that_fails_is_repeated_after_the_backoff(spec: JobSpec) -> None:
    """Twice in a row here; the job goes on with what is left of its budget."""
    run = Crowded(spec, failing=2)
    run.begin()
    run.exits("worker:1", signal=SIGKILL)
    for _ in range(3):
        run.after(40)
    assert "worker:1" in run.live
    assert not run.over
    assert run.attempts["worker:1"] == 4


def test_a_start_that_fails_each_time_uses_up_the_budget() -> None:
    """Then the reason is told with the budget."""
    run = Crowded(GANG, failing=9)
    run.begin()
    run.exits("worker:1", signal=SIGKILL)
    for _ in range(6):
        run.after(60)
    assert run.result.state is RunState.FAILED
    assert run.result.reason == f"worker:1 could not be started: {FULL}, and its restart budget is used up (4 of 4)"
    assert run.failing == 5
