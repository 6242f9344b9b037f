"""Cause and collateral, as tables."""

from __future__ import annotations

import itertools

import pytest

from clusterkit.machine.blame import blame, looks_collateral
from clusterkit.words.outcome import Blame, Exit, Failure
from tests.histories import task


def failure(
    exit_: Exit, exception: str | None = None, tail: tuple[str, ...] = (), name: str = "worker:0", at: float = 0.0
) -> Failure:
    """An attempt that ended so."""
    return Failure(task(name), 1, exit_, at, tail, exception)


@pytest.mark.parametrize(
    ("exit_", "exception", "tail", "collateral"),
    [
        (Exit(code=1), "ValueError: no", (), False),
        (Exit(code=1), "tensorflow.python.framework.errors_impl.UnavailableError: {{node x}}", (), True),
        (Exit(code=1), "tensorflow.python.framework.errors_impl.AbortedError: Collective ops aborted", (), True),
        (Exit(code=1), "tensorflow.python.framework.errors_impl.CancelledError: op", (), True),
        (Exit(code=1), "tensorflow.python.framework.errors_impl.DeadlineExceededError: x", (), True),
        (Exit(code=1), "ConnectionResetError: [Errno 104] Connection reset by peer", (), True),
        (Exit(code=1), "RuntimeError: Socket closed", (), True),
        (
            Exit(code=1),
            "ValueError: UNKNOWN: Gloo all-reduce failed: Connection closed by peer",
            (),
            True,
        ),
        (Exit(code=1), "jax.errors.JaxRuntimeError: UNKNOWN: Gloo all-gather failed: [pair.cc:538] Read", (), True),
        (Exit(code=1), None, ("E0000 failed to connect to all addresses; last error",), True),
        (Exit(code=1), None, ("heartbeat timeout from the coordination service", "bye"), True),
        (Exit(code=1), "ValueError: mine", ("W Connection reset by peer",), False),
        (Exit(code=1), None, (), False),
        (Exit(code=3), None, ("hello",), False),
        (Exit(signal=6), None, (), True),
        (Exit(signal=9), "UnavailableError: x", ("Socket closed",), False),
        (Exit(signal=11), None, (), False),
        (Exit(signal=9, out_of_memory=True), None, (), False),
        (Exit(code=42), None, ("Socket closed",), False),
        (Exit(error="no such file"), None, ("Socket closed",), False),
    ],
)
def test_what_looks_like_a_peers_death(
    exit_: Exit, exception: str | None, tail: tuple[str, ...], collateral: bool
) -> None:
    """The exception's name decides; the log's text only where there is none; SIGABRT is how TensorFlow gives up."""
    assert looks_collateral(failure(exit_, exception, tail)) is collateral


def test_the_first_failure_that_is_its_own_is_the_cause_in_every_order_of_arrival() -> None:
    """Collateral may come before it, in time and in the list."""
    aborted = failure(Exit(signal=6), name="worker:2", at=1.0)
    gone = failure(Exit(code=1), "UnavailableError: x", name="worker:0", at=2.0)
    bug = failure(Exit(code=1), "ValueError: x", name="worker:1", at=3.0)
    later = failure(Exit(code=1), "KeyError: x", name="worker:3", at=4.0)
    for order in itertools.permutations((aborted, gone, bug, later)):
        assert blame(order) == Blame(bug, (), (aborted, gone, later))


def test_among_collateral_alone_the_first_is_the_cause() -> None:
    """Somebody has to be."""
    first, second = (failure(Exit(signal=6), name=name, at=at) for name, at in (("worker:1", 1.0), ("worker:0", 2.0)))
    assert blame([second, first]) == Blame(first, (), (second,))


def test_tasks_that_raise_the_same_of_their_own_are_causes_together() -> None:
    """The first is the cause; none of them died of another, whatever their numbers; a peer's death is still one."""
    gone = failure(Exit(code=1), "UnavailableError: x", name="worker:3", at=0.5)
    first = failure(Exit(code=1), "ValueError: shapes (8, 4) and (5, 1)", name="worker:1", at=1.0)
    second = failure(Exit(code=1), "ValueError: shapes (8, 4) and (6, 1)", name="worker:0", at=1.001)
    other = failure(Exit(code=1), "KeyError: 'x'", name="worker:2", at=1.002)
    for order in itertools.permutations((gone, first, second, other)):
        assert blame(order) == Blame(first, (second,), (gone, other))


def test_refusals_of_a_program_are_causes_together() -> None:
    """They have no traceback, but the same last line."""
    first, second = (failure(Exit(code=1), None, ("no data",), name=f"worker:{n}", at=float(n)) for n in range(2))
    assert blame([second, first]) == Blame(first, (second,))


@pytest.mark.parametrize(
    ("exit_", "exception"),
    [(Exit(code=1), "UnavailableError: Socket closed"), (Exit(signal=6), None), (Exit(signal=9), None)],
)
def test_what_says_nothing_of_the_program_is_not_the_same(exit_: Exit, exception: str | None) -> None:
    """Two that die of the same peer have nothing in common with it but that."""
    first, second = (failure(exit_, exception, ("x",), name=f"worker:{n}", at=float(n)) for n in range(2))
    assert blame([first, second]) == Blame(first, (), (second,))


def test_a_failure_alone_has_no_collateral() -> None:
    """It is its own cause."""
    only = failure(Exit(code=1))
    assert blame([only]) == Blame(only)
