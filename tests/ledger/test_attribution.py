"""Which injected fault accounts for a failure."""

from __future__ import annotations

import pytest

from clusterkit.words.job import Limits
from tests.histories import job
from tests.ledger.recovering import Told, ps_job


def test_a_fault_that_could_not_be_injected_accounts_for_nothing() -> None:
    """Why is told; a death that comes then is one that was not injected."""
    told = Told(job(workers=2, ps=1, limits=Limits(startup=0)), "memory worker:1 limit=1MB @ 5s")
    told.run.futile[1] = "the task's memory can't be read"
    told.run.after(6)
    told.run.exits("worker:1", exception="MemoryError")
    told.run.after(3)
    fault = told.fault()
    assert (fault.done, fault.detail, fault.died) == (False, "the task's memory can't be read", ())
    assert told.one().faults == ()


@pytest.mark.parametrize(
    ("faults", "code", "expected"),
    [
        (("kill worker:1 @ 12s",), 1, None),  # it died before
        (("stop worker:1 @ 1s", "term worker:1 @ 5s"), 3, 2),  # a signal is more certain than a freeze
        (("slow worker:1 for=1s @ 1s",), 3, 1),  # it is over, but not for long
        (("slow worker:0 @ 1s",), 3, None),  # another task
        (("memory worker:1 limit=1GB @ 1s", "slow worker:1 @ 2s"), 1, 2),  # the newest
        (("disk-full @ 1s", "slow worker:1 @ 2s"), 1, 2),  # what hits the task itself
        (("disk-full @ 1s",), 1, 1),
        (("corrupt-checkpoint @ 1s",), 1, None),  # it had started, and so had read it, before
        (("reset worker:1 @ 9s",), 1, 1),
        (("partition ps:0 | chief:0 @ 1s",), 1, None),
        (("partition ps:0 | worker:1 @ 1s",), 1, 1),  # the far side
    ],
)
def test_which_fault_accounts_for_a_death(faults: tuple[str, ...], code: int, expected: int | None) -> None:
    """What is more certain before what is less, and of what is alike the newest."""
    told = Told(job(workers=2, ps=1, limits=Limits(startup=0)), *faults)
    told.run.stubborn.add("worker:1")
    told.run.after(10)
    told.run.exits("worker:1", code=code)
    told.run.after(0.5)
    (one,) = told.report.recoveries[:1]
    assert one.cause is not None
    assert one.cause.fault == expected


def test_what_is_done_to_a_process_ends_with_it() -> None:
    """The next attempt's own failure, soon after, is not the fault's."""
    told = ps_job("stop worker:1 @ 1s")
    told.run.exits("worker:1", code=1)
    told.run.after(2)
    told.run.exits("worker:1", code=1)
    told.run.after(5)
    assert [one.faults for one in told.report.recoveries] == [(1,), ()]
