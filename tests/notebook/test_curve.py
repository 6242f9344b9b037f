"""The curve of the loss in a cell: what is kept of it, and what it looks like."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clusterkit.notebook.display import COLUMNS, MOST_POINTS, LossCurve

HOSTILE = st.dictionaries(
    st.sampled_from(["loss", "accuracy"]),
    st.none() | st.floats(allow_nan=False, allow_infinity=False) | st.integers(-(2**62), 2**62),
)


def line(*points: tuple[int | None, Mapping[str, float | None]]) -> str:
    """The line after these reports."""
    curve = LossCurve()
    for step, metrics in points:
        curve.add(step, metrics)
    return curve.line()


@pytest.mark.parametrize(
    ("points", "shown"),
    [
        ([], ""),
        ([(1, {"loss": 2.0})], ""),
        ([(1, {}), (None, {"loss": 1.0}), (3, {"loss": None})], ""),
        ([(1, {"loss": 2.0}), (2, {"loss": 1.0}), (2, {"loss": 1.0}), (3, {"loss": 0.25})], "loss 2 █▄▁ 0.25"),
        ([(1, {"auc": 0.5}), (9, {"auc": 0.75, "loss": 1.0})], "auc 0.5 ▁█ 0.75"),
        ([(1, {"loss": 1.0}), (9, {"loss": 1.0})], "loss 1 ▁▁ 1"),
        ([(0, {"loss": 8.0}), (1, {"loss": 4.0}), (9, {"loss": 0.0})], "loss 8 █▄▁ 0"),  # by step, not by report
        ([(5, {"loss": 4.0}), (9, {"loss": 1.0}), (6, {"loss": 3.0})], "loss 4 █▁ 3"),  # after a restart
    ],
)
def test_the_curve_of_a_run(points: list[tuple[int | None, Mapping[str, float | None]]], shown: str) -> None:
    """The loss, or else the first metric, by step; a step that is made again counts anew."""
    assert line(*points) == shown


def test_a_long_run_has_a_bounded_curve() -> None:
    """With its first and its last point."""
    curve = LossCurve()
    for step in range(20_000):
        curve.add(step, {"loss": 20_000.0 - step})
        assert len(curve._points) <= MOST_POINTS + 1
    name, first, bars, last = curve.line().split()
    assert (name, float(first), float(last)) == ("loss", 20_000, 1)
    assert len(bars) == COLUMNS
    assert list(bars) == sorted(bars, reverse=True)


@given(st.lists(st.tuples(st.none() | st.integers(0, 2**62), HOSTILE), max_size=20))
def test_whatever_is_reported_makes_one_short_line(points: list[tuple[int | None, dict[str, float | None]]]) -> None:
    """Numbers of any size; hypothesis prints the example that fails."""
    shown = line(*points)
    assert len(shown) <= COLUMNS + 40
    assert shown.isprintable()
