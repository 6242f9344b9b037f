"""The page's colors: every pair used together is told apart, light and dark (WCAG 2, level AA; CIEDE2000)."""

from __future__ import annotations

import re
from itertools import combinations, product
from math import atan2, cos, degrees, exp, hypot, radians, sin, sqrt

import pytest

from tests.support import ROOT

STATIC = ROOT / "clusterkit" / "page" / "static"
TEXT, GRAPHIC = 4.5, 3.0
PILLS, PILL = ("run", "ok", "bad", "wait"), 0.12
TASKS = [f"task-{number}" for number in range(8)]
ANSI = [f"ansi-{number}" for number in range(16)]
STATES = ("bar-ok", "bar-bad", "bar-wait", "bar-start", "bar-lost")  # what lanes draw beside a task's color
PARTS = (*STATES, "bar-save", "bar-compile", "bar-evaluate", "edge", "soft")  # of a bar of time
APART = 10.0  # of CIEDE2000; 1 is just to be seen, side by side
Rgb = tuple[float, float, float]
# What the cones see, by Machado, Oliveira and Fernandes (2009): rows for linear red, green and blue, at full severity.
SIGHTS: dict[str, tuple[Rgb, Rgb, Rgb]] = {
    "all": ((1, 0, 0), (0, 1, 0), (0, 0, 1)),
    "no red": ((0.152286, 1.052583, -0.204868), (0.114503, 0.786281, 0.099216), (-0.003882, -0.048116, 1.051998)),
    "no green": ((0.367322, 0.860646, -0.227968), (0.280085, 0.672501, 0.047413), (-0.011820, 0.042940, 0.968881)),
    "no blue": ((1.255528, -0.076749, -0.178779), (-0.078411, 0.930809, 0.147602), (0.004733, 0.691367, 0.303900)),
}


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
    return sum(share * part for share, part in zip((0.2126, 0.7152, 0.0722), seen(color, SIGHTS["all"]), strict=True))


def seen(color: Rgb, sight: tuple[Rgb, Rgb, Rgb]) -> Rgb:
    """A color as linear light, to somebody who sees so."""
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in (part / 255 for part in color)]
    red, green, blue = (sum(a * b for a, b in zip(row, linear, strict=True)) for row in sight)
    return min(max(red, 0), 1), min(max(green, 0), 1), min(max(blue, 0), 1)


def lab(linear: Rgb) -> Rgb:
    """Linear light in CIELAB, for D65."""
    red, green, blue = linear
    x = (0.4124564 * red + 0.3575761 * green + 0.1804375 * blue) / 0.95047
    y = 0.2126729 * red + 0.7151522 * green + 0.0721750 * blue
    z = (0.0193339 * red + 0.1191920 * green + 0.9503041 * blue) / 1.08883
    x, y, z = (c ** (1 / 3) if c > (6 / 29) ** 3 else c / (3 * (6 / 29) ** 2) + 4 / 29 for c in (x, y, z))
    return 116 * y - 16, 500 * (x - y), 200 * (y - z)


def difference(one: Rgb, other: Rgb) -> float:
    """CIEDE2000 of two colors in CIELAB."""
    (l1, a1, b1), (l2, a2, b2) = one, other
    mean = (hypot(a1, b1) + hypot(a2, b2)) / 2
    grow = 1.5 - 0.5 * sqrt(mean**7 / (mean**7 + 25**7))
    c1, c2 = hypot(grow * a1, b1), hypot(grow * a2, b2)
    h1, h2 = degrees(atan2(b1, grow * a1)) % 360, degrees(atan2(b2, grow * a2)) % 360
    turn = (h2 - h1 + 180) % 360 - 180 if c1 * c2 else 0
    hue = h1 + turn / 2 if c1 * c2 else h1 + h2
    light, chroma = (l1 + l2) / 2, (c1 + c2) / 2
    waves = ((-0.17, 1, -30), (0.24, 2, 0), (0.32, 3, 6), (-0.2, 4, -63))
    t = 1 + sum(size * cos(radians(times * hue + shift)) for size, times, shift in waves)
    dl = (l2 - l1) / (1 + 0.015 * (light - 50) ** 2 / sqrt(20 + (light - 50) ** 2))
    dc = (c2 - c1) / (1 + 0.045 * chroma)
    dh = 2 * sqrt(c1 * c2) * sin(radians(turn / 2)) / (1 + 0.015 * chroma * t)
    bend = 60 * exp(-((((hue % 360) - 275) / 25) ** 2))
    rotation = -2 * sqrt(chroma**7 / (chroma**7 + 25**7)) * sin(radians(bend))
    return sqrt(dl**2 + dc**2 + dh**2 + rotation * dc * dh)


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
    drawn = {name: colors[name] for name in ("edge", "bar-ok", "bar-bad", "bar-wait", "bar-save", "focus", *TASKS)}
    assert {name: round(contrast(color, panel), 2) for name, color in drawn.items() if contrast(color, panel) < 3} == {}


@pytest.mark.parametrize("sight", SIGHTS)
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_colors_beside_each_other_are_told_apart(scheme: str, sight: str) -> None:
    """By CIEDE2000: tasks from each other, a task's bar from what states draw in it, the parts of a bar of time."""
    colors = {name: lab(seen(color, SIGHTS[sight])) for name, color in palettes()[scheme].items()}
    pairs = {*combinations(TASKS, 2), *product(TASKS, STATES), *combinations(PARTS, 2)}
    found = {(a, b): difference(colors[a], colors[b]) for a, b in pairs}
    assert {pair: round(apart, 1) for pair, apart in found.items() if apart < APART} == {}


def test_the_parts_of_time_are_those_of_the_page() -> None:
    """Whatever the bars of goodput and start-up are drawn with is among the colors that are compared."""
    header, details = (STATIC / "header.js").read_text(), (STATIC / "details.js").read_text()
    drawn = re.findall(r'^  \[/[^/]+/, "([\w-]+)"\],$', header, re.M)
    phases = re.findall(r'"?([\w-]+)"?,$', details[details.index("const PHASES") : details.index("};")], re.M)
    assert len(drawn) > 5
    assert set(drawn) | set(phases) - {"raised"} == set(PARTS)


def test_the_difference_is_that_of_the_standard() -> None:
    """Pairs that Sharma, Wu and Dalal published with CIEDE2000; a gray is gray to everybody."""
    known = {
        ((50, 2.6772, -79.7751), (50, 0, -82.7485)): 2.0425,
        ((50, 2.5, 0), (73, 25, -18)): 27.1492,
        ((2.0776, 0.0795, -1.1350), (0.9033, -0.0636, -0.5514)): 0.9082,
        ((50, -0.001, 2.49), (50, 0.0011, -2.49)): 4.7461,
        ((63.0109, -31.0961, -5.8663), (62.8187, -29.7946, -4.0864)): 1.2630,
    }
    for (one, other), apart in known.items():
        assert difference(one, other) == pytest.approx(apart, abs=1e-4)
    gray = _rgb("808080")
    assert all(difference(lab(seen(gray, rows)), lab(seen(gray, SIGHTS["all"]))) < 0.1 for rows in SIGHTS.values())


def test_contrast_is_that_of_the_standard() -> None:
    """Black on white is 21, and #767676 is the lightest gray that is readable on white."""
    assert contrast((0, 0, 0), (255, 255, 255)) == pytest.approx(21)
    assert contrast(_rgb("767676"), (255, 255, 255)) == pytest.approx(4.54, abs=0.01)
