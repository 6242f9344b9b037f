"""Which task holds the others up, as a table."""

from __future__ import annotations

import pytest

from clusterkit.rules.stall import stuck_task
from clusterkit.words.events import Vitals
from tests.unit.histories import job, task


@pytest.mark.parametrize(
    ("steps", "letters", "stuck"),
    [
        ({"chief:0": 9, "worker:0": None, "ps:0": None}, {"ps:0": "T"}, ("ps:0", "is stopped (T)")),
        ({"chief:0": 9, "worker:0": 3}, {"worker:0": "S", "chief:0": "t"}, ("chief:0", "is stopped by a debugger (t)")),
        ({"chief:0": 9, "worker:0": 3}, {"chief:0": "D"}, ("chief:0", "hangs in the kernel (D)")),
        ({"chief:0": 9, "worker:0": 3}, {"chief:0": "D", "worker:0": "T"}, ("worker:0", "is stopped (T)")),
        ({"chief:0": 9, "worker:0": 3, "worker:1": 4}, {}, ("worker:0", "is the furthest behind (step 3)")),
        ({"worker:0": 3, "worker:1": 3}, {}, ("worker:0", "is the furthest behind (step 3)")),
        ({"chief:0": None, "worker:0": None}, {"chief:0": "S"}, ("chief:0", "leads the job")),
        ({"worker:0": None, "ps:0": None}, {"ps:0": "R"}, None),
        ({}, {"ps:0": "T"}, None),
    ],
)
def test_who_is_to_blame_for_a_stall(
    steps: dict[str, int | None], letters: dict[str, str], stuck: tuple[str, str] | None
) -> None:
    """Stopped before hanging before behind before leading; only tasks that are alive."""
    vitals = {task(name): Vitals(True, letter) for name, letter in letters.items()}
    found = stuck_task(job(workers=2, ps=1), {task(name): step for name, step in steps.items()}, vitals)
    assert (None if found is None else (str(found[0]), found[1])) == stuck
