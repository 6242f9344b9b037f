"""The page's colors: every pair that is used together can be told apart, in light and in dark (WCAG 2, level AA)."""

from __future__ import annotations

import re

import pytest

from clusterkit.views.console import _COLORS
from tests.support import ROOT

STATIC = ROOT / "clusterkit" / "page" / "static"
TEXT, GRAPHIC = 4.5, 3.0
PILLS, PILL = ("run", "ok", "bad", "wait"), 0.12
TASKS = [f"task-{number}" for number in range(10)]
ANSI = [f"ansi-{number}" for number in range(16)]
Rgb = tuple[float, float, float]


def palettes() -> dict[str, dict[str, Rgb]]:
    """The colors of palette.css, light and dark."""
    light, dark = (STATIC / "palette.css").read_text().split("@media (prefers-color-scheme: dark)")
    found = {"light": _colors(light)}
    return {**found, "dark": {**found["light"], **_colors(dark)}}


def _colors(css: str) -> dict[str, Rgb]:
    return {name: _rgb(value) for name, value in re.findall(r"--([\w-]+): #([0-9a-f]{6});", css)}


def _rgb(text: str) -> Rgb:
    return (int(text[0:2], 16), int(text[2:4], 16), int(text[4:6], 16))


def mixed(color: Rgb, ground: Rgb, share: float) -> Rgb:
    """As color-mix(in srgb, …) has it."""
    return tuple(a * share + b * (1 - share) for a, b in zip(color, ground, strict=True))  # type: ignore[return-value]


def contrast(one: Rgb, other: Rgb) -> float:
    """The contrast ratio of WCAG 2."""
    high, low = sorted((_luminance(one), _luminance(other)), reverse=True)
    return (high + 0.05) / (low + 0.05)


def _luminance(color: Rgb) -> float:
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in (part / 255 for part in color)]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_text_can_be_read_on_its_ground(scheme: str) -> None:
    """Text has a contrast of 4.5 at least: on sections, on the page, on tinted pills and rows, in filled buttons."""
    colors = palettes()[scheme]
    words = ["ink", "soft", "faint", "focus", "run", "ok", "bad", "wait", *TASKS, *ANSI]
    pairs = {(name, "panel"): contrast(colors[name], colors["panel"]) for name in words}
    pairs |= {(name, "bg"): contrast(colors[name], colors["bg"]) for name in ("ink", "soft", "faint", "focus")}
    pairs |= {(name, "raised"): contrast(colors[name], colors["raised"]) for name in ("ink", "soft")}
    for name in PILLS:
        pairs[name, "its pill"] = contrast(colors[name], mixed(colors[name], colors["panel"], PILL))
    for name in ("run", "bad"):
        pairs["panel", f"a button of {name}"] = contrast(colors["panel"], colors[name])
    row = mixed(colors["focus"], colors["panel"], 0.06)
    pairs |= {(name, "the chosen row"): contrast(colors[name], row) for name in ("ink", "faint", *TASKS)}
    pairs |= {("ink", name): contrast(colors["ink"], colors[name]) for name in ("mark", "mark-now")}
    for number in range(1, 7):
        tint = mixed(colors[f"ansi-{number}"], colors["panel"], 0.22)
        pairs["ink", f"the background {number}"] = contrast(colors["ink"], tint)
    assert {pair: round(ratio, 2) for pair, ratio in pairs.items() if ratio < TEXT} == {}


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_marks_and_fields_can_be_seen(scheme: str) -> None:
    """What is drawn to mean something has a contrast of 3 with its section: bars, marks, the borders of fields."""
    colors = palettes()[scheme]
    panel = colors["panel"]
    drawn = {name: colors[name] for name in ("edge", "bar-ok", "bar-bad", "bar-wait", "bar-save", "focus")}
    drawn |= {f"the bar of {name}": mixed(colors[name], panel, 0.74) for name in TASKS}
    assert {name: round(contrast(color, panel), 2) for name, color in drawn.items() if contrast(color, panel) < 3} == {}


def test_each_task_color_of_the_terminal_is_on_the_page() -> None:
    """The index of a task's color there is that of `--task-N` here."""
    assert all(set(TASKS) <= colors.keys() for colors in palettes().values())
    assert len(_COLORS) == len(TASKS)


def test_contrast_is_that_of_the_standard() -> None:
    """Black on white is 21, and #767676 is the lightest gray that is readable on white."""
    assert contrast((0, 0, 0), (255, 255, 255)) == pytest.approx(21)
    assert contrast(_rgb("767676"), (255, 255, 255)) == pytest.approx(4.54, abs=0.01)
