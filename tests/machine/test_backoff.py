"""How long a restart waits: not at all the first time after progress, then twice as long each time."""

from __future__ import annotations

from dataclasses import replace

import pytest

from clusterkit.machine.restart import backoff_delay
from clusterkit.words.job import JobSpec, RestartRules
from clusterkit.words.model import Shape
from tests.histories import BEGAN, SIGABRT, SIGKILL, History, job


def test_the_backoff_doubles_up_to_its_bound_and_stays_within_a_tenth() -> None:
    """Restarts of one task come 1, 2, 4 ... 30 seconds after its failures, spread by at most 10 %."""
    run = History(job(workers=1, restart=RestartRules(budget=8))).begin()
    delays = []
    for nth in range(8):
        failed_at = run.now - 1000.0
        run.exits("worker:0", code=1)
        run.after(40)
        delays.append(run.spawn_times("worker:0")[nth + 1] - failed_at)
    for delay, plain in zip(delays, [1, 2, 4, 8, 16, 30, 30, 30], strict=True):
        assert 0.9 * plain <= delay <= 1.1 * plain + 1e-6
    assert len({round(delay % 1, 9) for delay in delays}) > 4, "there is no jitter"


@pytest.mark.parametrize(
    ("spec", "fails", "plain"),
    [(job(workers=1), "worker:0", [0, 1, 2, 4]), (job(workers=2), "worker:1", [0, 1, 2, 4]),
     (job(workers=2, ps=1), "worker:1", [0, 1, 2, 4]), (job(workers=2, ps=1), "ps:0", [0, 1, 2, 4]),
     (job(workers=2, ps=1, evaluator=1), "evaluator:0", [1, 2, 4, 8])],
)  # fmt: skip
def test_the_first_restart_comes_at_once_if_training_had_made_steps(
    spec: JobSpec, fails: str, plain: list[float]
) -> None:
    """A server's own are the coordinator's; an evaluator that has evaluated nothing waits."""
    run = History(replace(spec, restart=RestartRules(budget=8))).begin()
    delays = []
    for nth in range(4):
        run.after(10)
        run.progresses(str(spec.leader), 10 * nth)
        run.progresses(str(spec.leader), 10 * nth + 5)
        failed_at = run.now - BEGAN
        run.exits(fails, signal=SIGKILL)
        if spec.shape is Shape.MULTI_WORKER:
            run.exits("worker:0", signal=SIGABRT)  # nobody is waited for
        run.after(40)
        delays.append(run.spawn_times(fails)[nth + 1] - failed_at)
    assert delays == pytest.approx(plain, rel=0.101)


def test_a_start_that_fails_without_a_step_waits_also_the_first_time() -> None:
    """And the restart after progress that follows it, too; after ten good minutes it comes at once again."""
    run = History(job(workers=1, restart=RestartRules(budget=8))).begin()
    for progress, plain in ((0, 1.0), (30, 2.0), (700, 0.0), (30, 1.0)):
        for _ in range(progress):
            run.after(1)
            run.progresses("worker:0", int(run.now))
        failed_at = run.now - BEGAN
        run.exits("worker:0", signal=SIGKILL)
        run.after(5)
        assert run.spawn_times("worker:0")[-1] - failed_at == pytest.approx(plain, rel=0.101)


@pytest.mark.parametrize("longest", [0.5, 3.0, 30.0])
def test_the_longest_backoff_is_a_maximum(longest: float) -> None:
    """Whatever is drawn."""
    rules = RestartRules(budget=40, backoff=1.0, backoff_max=longest)
    delays = [backoff_delay(rules, nth, jitter / 100) for nth in range(12) for jitter in range(100)]
    assert max(delays) == longest
