"""The grammar of faults: what is read, how it is written, what is refused and why."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clusterkit.faults.aim import choose_targets, live_problems_of, needs_disk, problems_of
from clusterkit.words.errors import BadJob
from clusterkit.words.faults import (
    AMOUNTS,
    AT_ONCE,
    ON_NETWORK,
    ON_STORAGE,
    Fault,
    FaultAction,
    Moment,
    Phase,
    Target,
    Trigger,
    Unit,
)
from clusterkit.words.grammar import parse_all, parse_fault
from clusterkit.words.job import JobSpec, Network
from clusterkit.words.model import Program, ProgramKind, TaskType
from tests.histories import job, task

WORKER_1 = Target(TaskType.WORKER, 1)
A_WORKER = Target(TaskType.WORKER)


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("kill worker:1", Fault(FaultAction.KILL, (WORKER_1,))),
        ("kill worker:1 @ step=100", Fault(FaultAction.KILL, (WORKER_1,), trigger=Trigger(Moment.STEP, 100))),
        ("term chief @ 1m30s", Fault(FaultAction.TERM, (Target(TaskType.CHIEF),), trigger=Trigger(Moment.TIME, 90))),
        ("stop worker for=10s", Fault(FaultAction.STOP, (A_WORKER,), seconds=10)),
        ("slow any", Fault(FaultAction.SLOW, (Target(),), amount=0.2)),
        ("slow random(2) share=0.5", Fault(FaultAction.SLOW, (Target(count=2),), amount=0.5)),
        ("hang-start worker:1", Fault(FaultAction.HANG_START, (WORKER_1,), seconds=5)),
        ("memory worker:* limit=1GB", Fault(FaultAction.MEMORY, (Target(TaskType.WORKER, count=None),), amount=1e9)),
        ("kill all @ restart", Fault(FaultAction.KILL, (Target(count=None),), trigger=Trigger(Moment.RESTART))),
        ("kill any @ checkpoint=3", Fault(FaultAction.KILL, (Target(),), trigger=Trigger(Moment.CHECKPOINT, 3))),
        (
            "kill any @ every=10s p=0.5",
            Fault(FaultAction.KILL, (Target(),), trigger=Trigger(Moment.TIME, 10, True, 0.5)),
        ),
        (
            "kill any @ step=9 after=300ms",
            Fault(FaultAction.KILL, (Target(),), trigger=Trigger(Moment.STEP, 9, after=0.3)),
        ),
        ("kill any @ every=50steps", Fault(FaultAction.KILL, (Target(),), trigger=Trigger(Moment.STEP, 50, True))),
        (
            "kill any @ every=checkpoint",
            Fault(FaultAction.KILL, (Target(),), trigger=Trigger(Moment.CHECKPOINT, 1, True)),
        ),
        (
            "kill worker:1 @ phase=restoring",
            Fault(FaultAction.KILL, (WORKER_1,), trigger=Trigger(Moment.PHASE, phase=Phase.RESTORING)),
        ),
        (
            "kill any @ phase=saving-write:3 after=300ms p=0.5",
            Fault(
                FaultAction.KILL,
                (Target(),),
                trigger=Trigger(Moment.PHASE, 3, False, 0.5, 0.3, Phase.SAVING_WRITE),
            ),
        ),
        ("partition worker:1 for=20s", Fault(FaultAction.PARTITION, (WORKER_1,), seconds=20)),
        (
            "partition worker:1, worker | ps",
            Fault(FaultAction.PARTITION, (WORKER_1, A_WORKER), (Target(TaskType.PS),)),
        ),
        ("delay worker:1 by=20ms jitter=5ms", Fault(FaultAction.DELAY, (WORKER_1,), amount=0.02, jitter=0.005)),
        ("loss worker:1 share=10%", Fault(FaultAction.LOSS, (WORKER_1,), amount=0.1)),
        ("rate worker:1 limit=8Mbit", Fault(FaultAction.RATE, (WORKER_1,), amount=1e6)),
        ("corrupt-checkpoint", Fault(FaultAction.CORRUPT, how="flip")),
        ("corrupt-checkpoint how=truncate", Fault(FaultAction.CORRUPT, how="truncate")),
        ("disk-full for=3s", Fault(FaultAction.DISK_FULL, seconds=3)),
    ],
)
def test_what_a_fault_means(text: str, fault: Fault) -> None:
    """Actions, targets, settings with their defaults, triggers."""
    assert parse_fault(text) == fault


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "it begins with an action, as in 'kill worker:1 @ step=100'"),
        ("kil worker:1", "there is no action 'kil'. Did you mean kill?"),
        ("explode worker:1", "There are kill, term, stop"),
        ("freeze worker:1 @ step=100", "freeze is called stop here. Write 'stop worker:1 @ step=100'."),
        ("oom worker:1", "oom is called memory here. Write 'memory worker:1'."),
        ("freez worker:1", "there is no action 'freez'. Did you mean freeze, which is called stop here?"),
        ("kill", "it has no target"),
        ("kill worker:x", "'worker:x' is not a target"),
        ("kill random(0)", "selects no task"),
        (f"kill random({'9' * 5000})", "is more than any job counts"),
        ("kill random(٣)", "'random(٣)' is not a target"),
        ("stop worker:1 for=1s for=2s", "for is given 2 times."),
        ("kill worker:1 for=3s", "kill has no for=. It takes no settings."),
        ("stop worker:1 by=3s", "stop has no by=. It takes for=."),
        ("stop worker:1 for=soon", "for=soon: 'soon' is not a duration"),
        ("slow worker:1 share=0", "'0' is not a share"),
        ("slow worker:1 share=120%", "at most 1"),
        ("rate worker:1 limit=0", "is not a number of bytes"),
        ("rate worker:1 limit=fast", "Write 500KB, 20MB or 10Mbit"),
        ("corrupt-checkpoint worker:1", "has no target: the job has one checkpoint directory"),
        ("corrupt-checkpoint how=burn", "is corrupted by flip or truncate"),
        ("partition worker:1 |", "there is nothing after the |"),
        ("kill worker:1 | ps:0", "kill has no two sides"),
        ("kill worker:1 @", "after the @ goes one trigger"),
        ("kill worker:1 @ step=100 20s", "after the @ goes one trigger"),
        ("kill worker:1 @ 100", "@ 100 has no unit. Write @ 100s for a time, or @ step=100 for a training step."),
        ("kill any @ every=10", "every=10 has no unit. Write every=10s or every=10steps."),
        ("kill worker:1 @ step=-1", "'step=-1' is not a trigger"),
        ("kill worker:1 @ checkpoint=0", "checkpoint=2 is the second checkpoint"),
        ("kill worker:1 @ every=1ms", "too often"),
        ("kill worker:1 @ ready p=2", "'2' is not a share"),
        ("kill worker:1 @ ready after=soon", "'soon' is not a duration"),
        ("kill worker:1 @ 99999999999999999999s", "longer than any job"),
        ("stop worker:1 for=1e300", "for=1e300: That duration is longer than any job"),
        (f"kill worker:1 @ step={'9' * 400}", "more than any job counts. Write 1000000000000000 or less"),
        (f"kill worker:1 @ restart={'9' * 5000}", "more than any job counts"),
        (f"kill worker:1 @ every={'9' * 400}steps", "more than any job counts"),
        (f"memory worker:1 limit={'9' * 400}", "more than any machine has"),
        (
            "kill worker:1 @ phase=sleeping",
            "'sleeping' is not a phase. There are importing, starting, saving, saving-open, saving-write, saving-sync, "
            "saving-rename, saved, restoring, evaluating, exporting and ending.",
        ),
        ("kill worker:1 @ phase", "'' is not a phase"),
        ("kill worker:1 @ phase=saved:0", "'phase=saved:0' is not a trigger: phase=saved:2 is the second time."),
        ("kill worker:1 @ phase=saved:", "is not a trigger"),
        ("kill worker:1 @ phase=saved=2", "'saved=2' is not a phase"),
        ("kill worker:1 @ every=phase", "is not a duration"),
        ("kill worker:1 @ after=2s", "after the @ goes one trigger"),
    ],
)
def test_what_is_no_fault(text: str, why: str) -> None:
    """Each mistake gets a sentence that says what to write."""
    with pytest.raises(BadJob) as raised:
        parse_fault(text)
    assert why in str(raised.value)


@pytest.mark.parametrize("size", ["1GB", "1500MB", "20KB", "999B", "1000001B"])
def test_a_size_is_written_with_the_largest_unit_that_is_exact(size: str) -> None:
    """So that it reads as a person types it."""
    assert str(parse_fault(f"rate worker:1 limit={size}")) == f"rate worker:1 limit={size}"


def test_every_problem_is_told_at_once() -> None:
    """Of one fault, and of all of them."""
    faults, problems = parse_all(["stop worker:x for=soon @ never", "kill worker:1", "burn"])
    assert [str(fault) for fault in faults] == ["kill worker:1"]
    assert len(problems) == 4


targets = st.one_of(
    st.builds(Target, st.sampled_from(TaskType), st.integers(0, 99)),
    st.builds(Target, st.sampled_from(TaskType), st.none(), st.sampled_from([1, None])),
    st.builds(Target, st.none(), st.none(), st.one_of(st.none(), st.integers(1, 9))),
)
numbers = st.floats(1e-9, 1e9) | st.floats(0.001, 1e6).map(lambda number: round(number, 3))
triggers = st.one_of(
    st.builds(Trigger, st.just(Moment.TIME), numbers, st.just(False), st.sampled_from([1.0, 0.25])),
    st.builds(Trigger, st.just(Moment.TIME), numbers.filter(lambda n: n >= 0.1), st.just(True)),
    st.builds(
        Trigger, st.just(Moment.STEP), st.integers(1, 10**15).map(float), st.booleans(), st.sampled_from([1.0, 0.5])
    ),
    st.builds(
        Trigger, st.sampled_from([Moment.CHECKPOINT, Moment.RESTART, Moment.READY]), st.integers(1, 9).map(float)
    ),
    st.builds(
        Trigger,
        st.sampled_from([Moment.CHECKPOINT, Moment.RESTART]),
        st.just(1.0),
        st.just(True),
        st.just(1.0),
        st.sampled_from([0.0, 0.25, 2.0]),
    ),
    st.builds(
        Trigger,
        st.just(Moment.PHASE),
        st.integers(1, 9).map(float),
        st.just(False),
        st.just(1.0),
        st.sampled_from([0.0, 0.25]),
        st.sampled_from(Phase),
    ),
)


@st.composite
def any_fault(draw: st.DrawFn) -> Fault:
    """Every fault that the grammar can say."""
    action = draw(st.sampled_from(FaultAction))
    near = () if action in ON_STORAGE else tuple(draw(st.lists(targets, min_size=1, max_size=3)))
    far = tuple(draw(st.lists(targets, max_size=2))) if action in ON_NETWORK else ()
    length = None if action in AT_ONCE else draw(st.none() | numbers)
    amount = AMOUNTS.get(action)
    value = None
    if amount is not None:
        share = st.sampled_from([0.01, 0.2, 0.335, 1.0])
        bytes_ = st.integers(1, 10**12).map(float)
        value = draw({Unit.SHARE: share, Unit.SECONDS: numbers, Unit.BYTES: bytes_}[amount.unit])
    return Fault(
        action,
        near,
        far,
        5.0 if length is None and action is FaultAction.HANG_START else length,
        value,
        draw(st.sampled_from([0.0, 0.005])) if action is FaultAction.DELAY else 0.0,
        draw(st.sampled_from(["flip", "truncate"])) if action is FaultAction.CORRUPT else None,
        draw(st.none() | triggers),
    )


@given(any_fault())
def test_what_is_written_is_read_again(fault: Fault) -> None:
    """The journal and a replay say the same as the user did."""
    assert parse_fault(str(fault)) == fault


def virtual(workers: int, ps: int) -> JobSpec:
    """A job with a network of its own."""
    plain = job(workers=workers, ps=ps)
    return JobSpec(Program(ProgramKind.SCRIPT, "train.py"), plain.counts, network=Network.VIRTUAL)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("kill worker:2", "the job has no task worker:2"),
        ("kill evaluator", "the job has no task evaluator"),
        ("kill random(5)", "random(5) needs more tasks than the 4 that match"),
        ("partition worker:1", "needs --network virtual"),
        ("reset worker:1 | ps:0", "needs --network virtual"),
    ],
)
def test_what_a_job_can_not_have(text: str, why: str) -> None:
    """Targets that are not there, and a network that can't be broken."""
    (problem,) = problems_of(parse_fault(text), job(workers=2, ps=1))
    assert why in problem


def test_a_disk_that_is_full_has_to_be_known_from_the_start() -> None:
    """A run whose tasks see the real directory can't be given another view of it."""
    fault = parse_fault("disk-full for=1s")
    assert needs_disk([fault])
    assert not needs_disk([parse_fault("kill worker:1")])
    assert list(problems_of(fault, job(workers=2))) == []
    assert "--network virtual" in "".join(live_problems_of(fault, job(workers=2)))
    assert list(live_problems_of(fault, virtual(2, 1))) == []


@pytest.mark.parametrize(
    ("text", "draws", "near", "far"),
    [
        ("kill worker:1", [], ["worker:1"], []),
        ("kill worker", [0.0], ["worker:0"], []),
        ("kill worker", [0.99], ["worker:2"], []),
        ("kill worker:*", [], ["worker:0", "worker:1", "worker:2"], []),
        ("kill any", [0.99], ["ps:0"], []),
        ("kill random(2)", [0.0, 0.99], ["chief:0", "ps:0"], []),
        ("kill worker:0,worker", [0.0], ["worker:0", "worker:1"], []),
        ("kill all", [], ["chief:0", "worker:0", "worker:1", "worker:2", "ps:0"], []),
        ("partition worker:1", [], ["worker:1"], ["chief:0", "worker:0", "worker:2", "ps:0"]),
        ("partition worker | worker", [0.0, 0.0], ["worker:0"], ["worker:1"]),
        ("partition worker:* | ps", [], ["worker:0", "worker:1", "worker:2"], ["ps:0"]),
    ],
)
def test_which_tasks_are_meant(text: str, draws: list[float], near: list[str], far: list[str]) -> None:
    """By name, at random by the numbers that are drawn, and the far side of a network fault."""
    fault = parse_fault(text)
    chosen = choose_targets(fault, job(workers=3, ps=1).tasks, lambda nth: draws[nth])
    assert chosen == (tuple(map(task, near)), tuple(map(task, far)))


@pytest.mark.parametrize(
    ("text", "is_random"),
    [
        ("kill worker:1 @ step=100", False),
        ("kill all @ 5s", False),
        ("stop worker:* for=5s @ every=10s", False),
        ("kill worker @ 5s", True),
        ("kill random(2) @ 5s", True),
        ("kill worker:1 @ every=10s p=0.5", True),
        ("corrupt-checkpoint @ checkpoint", True),
        ("loss worker:1 share=10% @ 5s", True),
        ("partition worker:0 | any @ 5s", True),
    ],
)
def test_what_the_seed_decides(text: str, is_random: bool) -> None:
    """Which tasks, whether, which packets, or which bytes."""
    assert parse_fault(text).is_random is is_random
