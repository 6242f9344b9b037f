"""Restart scope, budget keys and backoff, as tables."""

from __future__ import annotations

import pytest
from hypothesis import given, seed
from hypothesis import strategies as st

from clusterkit.machine.restart import backoff_delay, budget_key, can_be_collateral, restart_scope
from clusterkit.words.faults import seeded_uniform
from clusterkit.words.job import JobSpec, RestartRules, RestartScope
from tests.histories import job, task

PS = job(workers=2, ps=2, evaluator=1)
MWMS = job(workers=2, chief=1, evaluator=1)
ONE = job(workers=1, evaluator=1)


def names(spec: JobSpec, name: str) -> str:
    """The scope of a task's failure, in order."""
    return " ".join(map(str, sorted(restart_scope(spec, task(name)))))


@pytest.mark.parametrize(
    ("spec", "fails", "scope"),
    [
        (PS, "chief:0", "chief:0"),
        (PS, "worker:1", "worker:1"),
        (PS, "ps:0", "chief:0 ps:0"),
        (PS, "ps:1", "chief:0 ps:1"),
        (PS, "evaluator:0", "evaluator:0"),
        (MWMS, "chief:0", "chief:0 worker:0 worker:1"),
        (MWMS, "worker:1", "chief:0 worker:0 worker:1"),
        (MWMS, "evaluator:0", "evaluator:0"),
        (ONE, "worker:0", "worker:0"),
        (ONE, "evaluator:0", "evaluator:0"),
    ],
)
def test_the_shape_decides_the_restart_scope(spec: JobSpec, fails: str, scope: str) -> None:
    """The table of the design."""
    assert names(spec, fails) == scope


@pytest.mark.parametrize("fails", ["chief:0", "worker:0", "ps:1"])
def test_the_user_can_override_the_scope(fails: str) -> None:
    """task: the failed one alone; job: all but the evaluator, which nobody depends on."""
    alone = job(workers=1, ps=2, evaluator=1, restart=RestartRules(scope=RestartScope.TASK))
    together = job(workers=1, ps=2, evaluator=1, restart=RestartRules(scope=RestartScope.JOB))
    assert names(alone, fails) == fails
    assert names(together, fails) == "chief:0 worker:0 ps:0 ps:1"
    assert names(together, "evaluator:0") == "evaluator:0"


@pytest.mark.parametrize(
    ("spec", "fails", "key"),
    [
        (PS, "chief:0", "chief:0"),
        (PS, "worker:1", "worker:1"),
        (PS, "ps:0", "ps:0"),
        (PS, "ps:1", "ps:1"),
        (MWMS, "worker:0", "chief:0+worker:0+worker:1"),
        (MWMS, "chief:0", "chief:0+worker:0+worker:1"),
        (job(workers=1, chief=1), "worker:0", "chief:0+worker:0"),
        (ONE, "worker:0", "worker:0"),
    ],
)
def test_who_shares_a_budget(spec: JobSpec, fails: str, key: str) -> None:
    """A gang has one; a task that restarts alone, or a ps with its chief, has its own."""
    assert budget_key(restart_scope(spec, task(fails)), task(fails)) == key


def test_a_job_that_restarts_as_one_has_one_budget() -> None:
    """With --restart-scope job it makes no difference which task failed."""
    spec = job(workers=1, ps=1, restart=RestartRules(scope=RestartScope.JOB))
    keys = {budget_key(restart_scope(spec, failed), failed) for failed in spec.tasks}
    assert keys == {"chief:0+worker:0+ps:0"}


@pytest.mark.parametrize(
    ("spec", "name", "can"),
    [
        (PS, "chief:0", True),
        (PS, "worker:0", False),
        (PS, "ps:0", False),
        (PS, "evaluator:0", False),
        (MWMS, "chief:0", True),
        (MWMS, "worker:1", True),
        (MWMS, "evaluator:0", False),
        (ONE, "worker:0", False),
    ],
)
def test_who_can_die_of_a_peer(spec: JobSpec, name: str, can: bool) -> None:
    """In a gang everybody; in a parameter-server job the coordinator, to which the errors of the others come."""
    assert can_be_collateral(spec, task(name)) is can


@pytest.mark.parametrize(
    ("nth", "plain"), [(1, 1.0), (2, 2.0), (3, 4.0), (4, 8.0), (5, 16.0), (6, 30.0), (7, 30.0), (10_000, 30.0)]
)
def test_the_backoff_doubles_and_is_bounded(nth: int, plain: float) -> None:
    """1, 2, 4 ... 30 s, in the middle of the jitter."""
    assert backoff_delay(RestartRules(), nth, 0.5) == pytest.approx(plain)


@seed(1)
@given(st.integers(1, 10**6), st.floats(0, 1, exclude_max=True), st.floats(0, 1e3), st.floats(0, 1e3))
def test_the_jitter_is_a_tenth_either_way(nth: int, spread: float, first: float, longest: float) -> None:
    """Whatever the rules, the delay is within 10 % of the plain one, and never past 1.1 times the bound."""
    delay = backoff_delay(RestartRules(backoff=first, backoff_max=longest), nth, spread)
    plain = min(longest, first * 2 ** min(nth - 1, 30))
    assert 0.9 * plain - 1e-9 <= delay <= 1.1 * plain + 1e-9


@seed(1)
@given(st.integers(), st.text(), st.integers())
def test_chance_depends_on_its_arguments_alone(number: int, key: str, nth: int) -> None:
    """The same seed gives the same jitter, in [0, 1), so that a journal can be replayed."""
    assert seeded_uniform(number, key, nth) == seeded_uniform(number, key, nth)
    assert 0 <= seeded_uniform(number, key, nth) < 1
    assert seeded_uniform(number, key, nth) != seeded_uniform(number, key, nth + 1)
