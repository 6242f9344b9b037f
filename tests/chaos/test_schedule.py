"""Campaigns: schedules that follow from a seed, spread over all that can be broken."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pytest

from clusterkit.chaos.model import Baseline
from clusterkit.chaos.schedule import Dice, Plan, budget, possible, trial, useful
from clusterkit.faults.aim import problems_of
from clusterkit.words.faults import ON_NETWORK, ON_STORAGE, Fault, FaultAction, Moment
from clusterkit.words.grammar import parse_fault
from clusterkit.words.job import JobSpec, Limits, Network, RestartRules
from clusterkit.words.model import Program, ProgramKind, TaskType

PROGRAM = Program(ProgramKind.SCRIPT, "train.py")
PS = JobSpec(PROGRAM, {TaskType.CHIEF: 1, TaskType.WORKER: 2, TaskType.PS: 1}, network=Network.VIRTUAL)
GANG = JobSpec(PROGRAM, {TaskType.WORKER: 3}, network=Network.VIRTUAL)
ALONE = JobSpec(PROGRAM, {TaskType.WORKER: 1}, network=Network.VIRTUAL)
SAVING = tuple((step, 0.1) for step in range(100, 1001, 100))
BASELINE = Baseline(10.0, 1000, tuple(range(100, 1001, 100)), {"accuracy": 0.9}, SAVING)
BARE = Baseline(3.0)


def plan(job: JobSpec = PS, baseline: Baseline = BASELINE, rate: float = 2.0) -> Plan:
    """Everything that the job can have."""
    return Plan(job, baseline, useful(possible(job, disk=True), baseline), rate)


def faults(a_plan: Plan, seed: int = 1, runs: int = 300) -> list[list[Fault]]:
    """The faults of each run of a campaign."""
    return [list(trial(a_plan, seed, number).faults) for number in range(1, runs + 1)]


@pytest.mark.parametrize(
    ("texts", "backoff", "restarts"),
    [
        ((), 1.0, 3),
        (("kill worker:0", "term ps:0"), 1.0, 5),
        (("disk-full for=4s",), 1.0, 8),  # at once, then after 1, 2 and 4 s
        (("disk-full for=4s",), 0.1, 11),  # at once, then after 0.1, 0.2 … 3.2 s
        (("disk-full for=1s", "disk-full for=3s", "kill any"), 0.1, 13),
        (("disk-full for=0.95s",), 0.0, 14),
    ],
)
def test_the_restart_budget_outlasts_a_full_disk(texts: tuple[str, ...], backoff: float, restarts: int) -> None:
    """A task that can't write its checkpoint fails again and again until the disk has room."""
    drawn = [parse_fault(f"{text} @ 1s") for text in texts]
    assert budget(drawn, RestartRules(backoff=backoff)) == restarts


def test_a_schedule_follows_from_the_seed_and_the_number_of_the_run() -> None:
    """The same again, whatever was drawn before; another with another seed or number."""
    assert trial(plan(), 7, 3) == trial(plan(), 7, 3)
    assert len({trial(plan(), seed, number).faults for seed in range(10) for number in range(10)}) > 95
    assert len({trial(plan(), seed, number).seed for seed in range(10) for number in range(10)}) == 100


@pytest.mark.parametrize("job", [PS, GANG, ALONE])
@pytest.mark.parametrize("baseline", [BASELINE, BARE])
def test_every_fault_is_one_that_the_job_can_have(job: JobSpec, baseline: Baseline) -> None:
    """What is drawn is never refused, and says what the grammar makes of it."""
    for run in faults(plan(job, baseline)):
        for fault in run:
            assert list(problems_of(fault, job)) == []
            assert parse_fault(str(fault)) == fault
            assert baseline is BASELINE or fault.action not in ON_STORAGE


def test_a_campaign_comes_to_every_action_target_and_trigger() -> None:
    """Within 100 runs, and deaths are most of it; phases, which need a runtime that reports them, are not drawn."""
    drawn = [fault for run in faults(plan(), runs=100) for fault in run]
    actions = Counter(fault.action for fault in drawn)
    assert set(actions) == set(FaultAction)
    assert actions.most_common(1)[0][0] is FaultAction.KILL
    targets = {str(target) for fault in drawn for target in fault.targets}
    assert targets >= {"chief:0", "worker:0", "worker:1", "ps:0", "worker", "worker:*", "any", "random(2)"}
    moments = Counter(fault.trigger.moment for fault in drawn if fault.trigger)
    assert set(moments) == set(Moment) - {Moment.READY, Moment.PHASE}
    assert moments.most_common(1)[0][0] is Moment.STEP
    assert {bool(fault.others) for fault in drawn if fault.action in ON_NETWORK} == {True, False}


def test_steps_are_spread_over_the_whole_run_and_checkpoints_are_aimed_at() -> None:
    """A death in the midst of a write is what a program gets wrong, and a step at random seldom hits one."""
    drawn = [fault for run in faults(plan(), runs=400) for fault in run]
    steps = [fault.trigger.at for fault in drawn if fault.trigger and fault.trigger.moment is Moment.STEP]
    assert all(1 <= step <= 950 for step in steps)
    assert all(any(low <= step < low + 100 for step in steps) for low in range(0, 900, 100))
    assert 0.3 < sum(step % 100 == 0 for step in steps) / len(steps) < 0.7
    within = [fault.trigger for fault in drawn if fault.trigger and fault.trigger.after]
    assert {trigger.at for trigger in within} >= set(range(100, 1000, 100))
    assert all(trigger.after <= 0.1 for trigger in within)
    assert len(within) > len(drawn) / 20


@pytest.mark.parametrize(("rate", "least", "most"), [(1, 1, 1), (2, 1, 3), (4.5, 1, 8)])
def test_the_rate_is_the_mean_number_of_faults(rate: float, least: int, most: int) -> None:
    """A late start brings the death that it needs, which is not counted."""
    actions = tuple(action for action in FaultAction if action is not FaultAction.HANG_START)
    counts = [len(run) for run in faults(replace(plan(rate=rate), actions=actions), runs=1000)]
    assert (min(counts), max(counts)) == (least, most)
    assert sum(counts) / len(counts) == pytest.approx(rate, rel=0.05)


def test_a_late_start_comes_with_the_death_of_the_same_task() -> None:
    """Or there would be no next start."""
    only = replace(plan(), actions=(FaultAction.HANG_START,))
    for run in faults(only, runs=50):
        for late, death in zip(run[::2], run[1::2], strict=True):
            assert (late.action, death.action) == (FaultAction.HANG_START, FaultAction.KILL)
            assert late.targets == death.targets
            assert late.targets[0].index is not None


def test_a_stop_has_an_end_unless_a_stall_is_ended() -> None:
    """Without --stall-timeout nothing would let a stopped task go on."""
    stops = replace(plan(), actions=(FaultAction.STOP,))
    patient = replace(stops, job=replace(PS, limits=Limits(stall=10.0)))
    assert all(fault.seconds for run in faults(stops) for fault in run)
    assert {bool(fault.seconds) for run in faults(patient) for fault in run} == {True, False}


def test_after_a_death_a_fault_may_come_in_its_recovery() -> None:
    """Only then: without one there would be no restart to wait for."""
    deadly = {FaultAction.KILL, FaultAction.TERM}
    hit = 0
    for run in faults(plan(rate=4)):
        for place, fault in enumerate(run):
            if fault.trigger and fault.trigger.moment is Moment.RESTART:
                assert any(before.action in deadly for before in run[:place])
                hit += 1
    assert hit


@pytest.mark.parametrize(
    ("job", "disk", "missing"),
    [
        (PS, True, frozenset[FaultAction]()),
        (PS, False, frozenset({FaultAction.DISK_FULL})),
        (replace(PS, network=Network.HOST), True, ON_NETWORK),
        (ALONE, True, ON_NETWORK),
    ],
)
def test_what_the_job_cannot_have_is_left_out(job: JobSpec, disk: bool, missing: frozenset[FaultAction]) -> None:
    """No network to break on the host, nor where there is but one task; no full disk without the means."""
    assert set(FaultAction) - set(possible(job, disk)) == missing


def test_faults_that_are_always_there_come_first() -> None:
    """`--fault` beside the drawn ones."""
    always = replace(plan(), always=(parse_fault("slow any share=50%"),))
    assert trial(always, 1, 1).faults == (parse_fault("slow any share=50%"), *trial(plan(), 1, 1).faults)


@pytest.mark.parametrize("job", [PS, GANG])
def test_twenty_runs_kill_the_leader_while_it_saves(job: JobSpec) -> None:
    """With nearly every seed, when deaths are asked for: that is how a checkpoint that is not atomic is found."""
    deaths = replace(plan(job), actions=(FaultAction.KILL, FaultAction.TERM))
    found = 0
    for seed in range(100):
        drawn = [fault for run in faults(deaths, seed, 20) for fault in run]
        saving = [f for f in drawn if f.trigger and f.trigger.moment is Moment.STEP and f.trigger.at % 100 == 0]
        found += any(str(fault.targets[0]) == str(job.leader) for fault in saving)
    assert found >= 98


def test_dice_are_fair() -> None:
    """Each item as often as its weight says."""
    dice = Dice(3, "key")
    drawn = Counter(dice.weighted([(3.0, "a"), (1.0, "b"), (0.0, "c")]) for _ in range(2000))
    assert set(drawn) == {"a", "b"}
    assert drawn["a"] / 2000 == pytest.approx(0.75, abs=0.04)
    assert Counter(dice.pick("xy") for _ in range(2000))["x"] / 2000 == pytest.approx(0.5, abs=0.04)
