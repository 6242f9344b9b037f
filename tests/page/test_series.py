"""Curves: bounded, and none of their extremes is lost."""

from __future__ import annotations

import math
import random

from clusterkit.page.model.board import BUDGET, MOST_BUCKETS, MOST_CURVES, Curve, Curves


def test_a_curve_is_bounded_and_keeps_its_extremes() -> None:
    """A million points in 2,048 buckets, in the order of time."""
    curve, rng = Curve(), random.Random(1)
    values = [rng.gauss(0, 1) for _ in range(50_000)]
    for number, value in enumerate(values):
        curve.add(number * 0.01, value)
    assert MOST_BUCKETS // 2 <= len(curve) <= MOST_BUCKETS
    points = curve.points(-math.inf, math.inf, 800)
    assert len(points["t"]) <= 800
    assert points["t"] == sorted(points["t"])
    assert (min(points["low"]), max(points["high"])) == (min(values), max(values))
    assert (curve.count, curve.last, points["v"][-1]) == (50_000, values[-1], values[-1])


def test_a_part_of_a_curve_has_a_point_on_each_side() -> None:
    """So that the line goes on to the edges."""
    curve = Curve()
    for number in range(100):
        curve.add(float(number), float(number))
    assert curve.points(10, 12, 800)["t"] == [9, 10, 11, 12, 13]
    assert curve.points(10.2, 10.8, 800)["t"] == [10, 11]
    assert curve.points(200, 300, 800)["t"] == [99]
    assert curve.points(-5, -1, 800)["t"] == [0]
    assert Curve().points(0, 1, 800)["t"] == []


def test_all_curves_together_are_bounded() -> None:
    """Names that a task makes up do not fill the memory, and neither do times that go back or are none."""
    curves = Curves()
    for number in range(2 * MOST_CURVES):
        added = curves.add(f"metric {number}" * 100, "worker:0", 0.0, 1.0)
        assert added == (number < MOST_CURVES)
    assert not curves.add("metric 0" * 100, "worker:0", 1.0, math.nan)
    for number in range(300):
        for at in range(1000):
            curves.add(f"m{number}", "worker:1", at - 1e-9 * number, float(at))
    assert sum(len(curves.get(*key) or ()) for key in list(curves.keys())) <= BUDGET + MOST_CURVES
