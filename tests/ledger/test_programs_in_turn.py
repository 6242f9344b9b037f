"""A script that trains with one program after another: the time between them is no training."""

from __future__ import annotations

from clusterkit.words.reports import Stage
from tests.histories import SIGKILL, job
from tests.ledger.recovering import SOON, Told
from tests.ledger.splitting import NEVER


def test_the_time_between_two_programs_is_start_up() -> None:
    """What the script does, the import, and what comes before the first step."""
    told = Told(job(workers=1, limits=NEVER))
    told.run.after(5)
    told.steps("worker:0", *range(1, 11), every=0.5)
    told.run.after(15)
    told.reaches("worker:0", Stage.IMPORTED)
    told.run.after(4)
    told.reaches("worker:0", Stage.PREPARED)
    told.steps("worker:0", *range(11, 21), every=0.5)
    assert told.parts == {"startup": 5.5 + 15.0 + 4.0 + 0.5, "training": 9.0}


def test_a_task_that_starts_again_is_no_second_program() -> None:
    """Its new attempt imports TensorFlow before it makes steps."""
    told = Told(job(workers=1, restart=SOON, limits=NEVER))
    told.run.after(5)
    told.steps("worker:0", 1, 2, every=1)
    told.run.exits("worker:0", signal=SIGKILL)
    told.reaches("worker:0", Stage.IMPORTED)
    told.run.after(3)
    told.steps("worker:0", 3, 4, every=1)
    assert told.parts == {"startup": 6.0, "training": 2.0, "recovering": 4.0}
