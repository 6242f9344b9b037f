"""What is said of tasks that trained alone, and the code that mends it."""

from __future__ import annotations

import ast

import pytest

from clusterkit.words.distribution import Undistributed, WhyAlone
from tests.histories import task

TWO = (task("worker:0"), task("worker:1"))
PS = (task("chief:0"), *TWO, task("ps:0"))
NEVER, NO_SCOPE = WhyAlone.NEVER_CONNECTED, WhyAlone.NO_SCOPE
MANY = tuple(task(f"worker:{n}") for n in range(6))
FOUND = {
    "no strategy": (
        Undistributed(TWO, NEVER),
        "worker:0 and worker:1 never connected: each trained alone. The program creates no tf.distribute strategy.",
    ),
    "a strategy for one task": (
        Undistributed(TWO, NEVER, ("MirroredStrategy",)),
        "worker:0 and worker:1 never connected: each trained alone. The program's MirroredStrategy uses only the "
        "devices of one task.",
    ),
    "a cluster of one": (
        Undistributed(TWO, NEVER, ("MultiWorkerMirroredStrategy",)),
        "worker:0 and worker:1 never connected: each trained alone. The cluster of the program's "
        "MultiWorkerMirroredStrategy has only one task, so the cluster does not come from clusterkit's TF_CONFIG.",
    ),
    "DTensor": (
        Undistributed(TWO, NEVER, ("DTensor",)),
        "worker:0 and worker:1 never connected: each trained alone. Without DTensor's environment variables, "
        "DTensor does not find the other tasks.",
    ),
    "outside the scope": (
        Undistributed(TWO, NO_SCOPE, ("MultiWorkerMirroredStrategy",)),
        "worker:0 and worker:1 each trained alone: fit ran outside the scope of the strategy.",
    ),
    "parameter servers": (
        Undistributed(PS, NEVER, has_ps=True),
        "chief:0, worker:0, worker:1 and ps:0 never connected: each trained alone. The program creates no "
        "tf.distribute strategy.",
    ),
    "a coordinator": (
        Undistributed(PS[:1], NO_SCOPE, ("ParameterServerStrategy",), has_ps=True),
        "chief:0 trained alone: fit ran outside the scope of the strategy.",
    ),
    "one of two fits": (
        Undistributed(TWO, WhyAlone.ONE_FIT, ("MultiWorkerMirroredStrategy",), place="train.py, line 14"),
        "worker:0 and worker:1 each trained alone in the fit at train.py, line 14: its model was created outside the "
        "scope of the strategy. Another fit of the program ran in a scope.",
    ),
    "a coordinator that never connected": (
        Undistributed(PS[:1], NEVER, has_ps=True),
        "chief:0 never connected: it trained alone. The program creates no tf.distribute strategy.",
    ),
    "main": (
        Undistributed(TWO, WhyAlone.UNCALLED),
        "worker:0 and worker:1 did not train: the program defines main() but never calls it.",
    ),
    "many": (
        Undistributed(MANY, NEVER),
        "worker:0, worker:1, worker:2 and 3 more never connected: each trained alone. The program creates no "
        "tf.distribute strategy.",
    ),
}


@pytest.mark.parametrize("case", FOUND)
def test_what_is_said(case: str) -> None:
    """The tasks, that they were alone, and why."""
    found, said = FOUND[case]
    assert str(found) == said


@pytest.mark.parametrize("case", FOUND)
def test_the_code_that_mends_it_is_code(case: str) -> None:
    """A few lines of it, with places to fill in."""
    found, _ = FOUND[case]
    assert 2 <= len(found.mend) <= 4
    ast.parse("\n".join(found.mend).replace("…", "..."))
