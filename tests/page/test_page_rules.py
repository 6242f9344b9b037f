"""The rules of the page's modules as tables: colors of a terminal, numbers, the time axis, what the log holds."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from typing import Any

import pytest

from tests.page.browser import Browser, Served

pytestmark = [pytest.mark.process, pytest.mark.slow, pytest.mark.browser, pytest.mark.timeout(240)]

Serve = Callable[..., Served]
E = "\x1b"
LINES = {
    "plain": [["plain", ""]],
    f"{E}[31mred{E}[0m, {E}[1;92mbright{E}[m": [["red", "f1"], [", ", ""], ["bright", "bold f10"]],
    f"{E}[38;5;196mindexed{E}[39m{E}[48;2;0;0;238mground": [["indexed", "f9"], ["ground", "b4"]],
    f"{E}[38:2::255:0:0mcolons": [["colons", "f9"]],
    f"{E}[4munder{E}[24;7minverse{E}[27m.": [["under", "under"], ["inverse", "inverse"], [".", ""]],
    f"{E}]0;title\x07after{E}[2Jcleared{E}[10;5Hmoved": [["aftercleared" + "moved", ""]],
    f"{E}]8;;http://example.org{E}\\link{E}]8;;{E}\\": [["link", ""]],
    f"{E}[999999;;;38;5mbroken{E}[38;5;999m{E}[": [["broken", ""]],
    "a\x07b\x00c\u202ed\u2066e": [["a␇b␀c�d�e", ""]],
    "<b>&amp;</b>": [["<b>&amp;</b>", ""]],
    E: [],
    "": [],
}
FORMATS: list[tuple[str, list[Any]]] = [
    ("seconds", [0, "0 s"]), ("seconds", [0.0123, "12 ms"]), ("seconds", [9.96, "10.0 s"]),
    ("seconds", [125, "2 min 5 s"]), ("seconds", [7200, "2 h"]), ("seconds", [-3, "−3.0 s"]), ("seconds", [None, "–"]),
    ("clock", [24.84, "24.8 s"]), ("clock", [124.5, "2:04.5"]), ("clock", [3725, "1:02:05.0"]),
    ("bytes", [999, "999 B"]), ("bytes", [1_023_000, "999 KiB"]), ("bytes", [690 << 20, "690 MiB"]),
    ("bytes", [9 << 20, "9.0 MiB"]),
    ("count", [1290, "1,290"]), ("share", [0.614, "61 %"]), ("share", [0.004, "0.4 %"]), ("share", [0, "0 %"]),
    ("metric", [0.044211, "0.04421"]), ("metric", [1e-9, "1.00e-9"]), ("metric", [12345.6, "12,346"]),
    ("metric", ["nan", "nan"]), ("speed", [138.2, "138"]), ("speed", [4.21, "4.2"]), ("speed", [0, "0"]),
    ("after", [0.25, "+0.3 s"]),
]  # fmt: skip


@pytest.fixture
def page(browser: Browser, serve: Serve) -> Browser:
    """A page from which the modules can be loaded."""
    browser.open(serve().address())
    return browser


def module(page: Browser, name: str, script: str, *args: Any) -> Any:
    """What a script returns to which a module of the page is `m`."""
    return page.run(f"const m = await import('/static/{name}.js'); {script}", *args)


def test_rules_of_the_page(page: Browser) -> None:
    """What each kind of line, number and place becomes."""
    lines = list(LINES)
    shown = module(page, "ansi", "return args[0].map((l) => m.pieces(l).map((p) => [p.text, p.classes]))", lines)
    assert dict(zip(lines, shown, strict=True)) == LINES
    texts = module(page, "format", "return args[0].map(([name, [v]]) => m[name](v))", FORMATS)
    assert texts == [expected for _, (_, expected) in FORMATS]
    names = ["ps:0", "worker:10", "worker:2", "evaluator:0", "chief:0"]
    ordered = module(page, "format", "return args[0].sort(m.byTask)", names)
    assert ordered == ["chief:0", "worker:2", "worker:10", "ps:0", "evaluator:0"]
    asked = ["text", "/a+b/", "/", "//", "/half"]
    filters = module(page, "log_lines", "return args[0].map(m.filterOf)", asked)
    assert filters == [{"grep": "text"}, {"grep": "a+b", "regex": 1}, {"grep": "/"}, {"grep": "//"}, {"grep": "/half"}]
    paths = ["/", "/run/2026-x", "/campaign/c", "/run/", "/run/%ff", "/compare/a,b,,a"]
    places = module(page, "source", "return args[0].map(m.placeOf).map((p) => [p.page, p.id, p.ids?.join()])", paths)
    assert places == [
        ["runs", None, None],
        ["run", "2026-x", "2026-x"],
        ["campaign", "c", "c"],
        ["runs", None, None],
        ["run", "", ""],
        ["compare", "a,b,,a", "a,b"],
    ]


AXES = [
    ("steps/s", "steps/s", 4.99, 5.0), ("steps/s", "steps/s", 5.0, 5.0), ("cpu", "%", 98.0, 98.5),
    ("loss", "", 0.5, 0.5), ("loss", "", 0.1, 0.9), ("loss", "", -3.0, 2.0), ("accuracy", "", 0.0, 0.0),
]  # fmt: skip


def test_no_curve_runs_along_the_edge_of_its_chart(page: Browser) -> None:
    """Above the highest value there is room, of the axis that is drawn; speeds and sizes begin at zero."""
    script = "return args[0].map(([name, unit, low, high]) => m.rangeOf({name, unit}, low, high))"
    for (_, unit, low, high), (bottom, top) in zip(AXES, module(page, "series", script, AXES), strict=True):
        assert top - high >= 0.05 * (top - bottom)
        assert bottom <= low
        assert not unit or bottom == 0


def test_hostile_lines_are_shown_in_bounded_pieces(page: Browser) -> None:
    """Random bytes with escapes: no control character is left, no class but the known ones, no more than fits."""
    seed = random.randrange(1 << 32)
    print(f"seed {seed}")
    chance = random.Random(seed)
    alphabet = [E, "[", "]", ";", "m", "3", "8", "5", ":", "\x07", "\\", "<", "x", "\u202e", "\x9b", "\U0001f600", "\t"]
    lines = ["".join(chance.choices(alphabet, k=chance.randrange(200))) for _ in range(500)] + [f"{E}[31m" * 20_000]
    shown = module(page, "ansi", "return args[0].map((line) => m.pieces(line))", lines)
    known = {"bold", "dim", "italic", "under", "inverse", "struck"} | {f"{a}{n}" for a in "fb" for n in range(16)}
    for pieces in shown:
        text = "".join(piece["text"] for piece in pieces)
        assert not [c for c in text if (ord(c) < 32 and c != "\t") or c in "\x7f\x9b\u202e"], json.dumps(text)
        assert {name for piece in pieces for name in piece["classes"].split()} <= known
        assert len(text) <= 4100


def test_idle_gaps_are_folded_without_a_jump(page: Browser) -> None:
    """Folded time grows with time, goes back to the same time, and leaves out what was idle."""
    seed = random.randrange(1 << 32)
    print(f"seed {seed}")
    chance = random.Random(seed)
    cases: list[dict[str, Any]] = []
    for _ in range(50):
        marks = sorted(chance.uniform(0, 1000) for _ in range(2 * chance.randrange(5)))
        gaps = [[a, b] for a, b in zip(marks[::2], marks[1::2], strict=True) if b - a > 1]
        cases.append({"gaps": gaps, "end": 1000, "at": sorted(chance.uniform(0, 1000) for _ in range(20))})
    found = module(
        page,
        "timeline",
        """return args[0].map(({gaps, end, at}) => { const line = new m.Timeline(); line.extend(end, gaps);
          return {u: at.map((t) => line.toU(t)), back: at.map((t) => line.toT(line.toU(t))), length: line.length,
                  ticks: line.ticks(900).at}; })""",
        cases,
    )
    for case, line in zip(cases, found, strict=True):
        assert line["u"] == sorted(line["u"])
        assert line["back"] == pytest.approx(case["at"], abs=1e-6)
        folded = sum(max(0, b - a - 12) for a, b in case["gaps"])
        assert line["length"] == pytest.approx(1000 - folded, abs=1e-6)
        assert not [t for t in line["ticks"] if any(a + 1e-6 < t < b - 1e-6 for a, b in case["gaps"] if b - a > 12)]
    idle = module(page, "timeline", "return m.idleGaps([[5, 10], [30, 40], [41, 60], [8, 12]], 60)")
    assert idle == [[12, 30]]


def test_the_log_holds_so_many_lines(page: Browser) -> None:
    """Whatever comes, before or after: no more than the bound, in order, and what was dropped can be fetched again."""
    seed = random.randrange(1 << 32)
    print(f"seed {seed}")
    chance = random.Random(seed)
    moves = [[chance.choice(["after", "before"]), chance.randrange(1, 60)] for _ in range(300)]
    found = module(
        page,
        "log_lines",
        """const lines = new m.LogLines(100); const all = Array.from({length: 5000}, (_, i) => ({text: `line ${i}`,
          t: i, cursor: String(i)})); const answer = (a, b) => ({lines: all.slice(a, b), previous: String(a),
          next: String(b), done: false}); lines.set(answer(2500, 2550), false); const problems = [];
          for (const [where, n] of args[0]) {
            const from = Number(lines.next), to = Number(lines.previous);
            if (where === "after") lines.append(answer(from, from + n)); else lines.prepend(answer(to - n, to));
            const held = lines.lines.map((line) => line.t);
            if (held.length > 100) problems.push(`${held.length} lines`);
            if (held.some((t, i) => i && t !== held[i - 1] + 1)) problems.push(`out of order: ${held}`);
            if (Number(lines.previous) !== held[0]) problems.push(`before ${held[0]} is ${lines.previous}`);
            if (Number(lines.next) !== held.at(-1) + 1) problems.push(`after ${held.at(-1)} is ${lines.next}`);
          } return problems;""",
        moves,
    )
    assert found == []


def test_many_lanes_are_drawn_fast(page: Browser) -> None:
    """64 tasks with 50 attempts each and 2,000 marks: a frame takes a fraction of a second on a busy machine, too."""
    times = page.run(
        """const {Store} = await import('/static/store.js'); const {Timeline} = await import('/static/timeline.js');
        const {Lanes} = await import('/static/lanes.js'); const store = new Store(); const set = {};
        set.run = {phase: 'over', ended: 3600};
        for (let w = 0; w < 64; w++) {
          const task = `worker:${w}`; set[`task/${task}`] = {task, color: w % 10};
          for (let a = 1; a <= 50; a++) {
            const [b, e] = [a * 70 - 60 + w / 8, a * 70 + w / 8];
            const part = (begin, end, kind) => ({begin, end, kind, text: ''});
            const segments = [part(b, b + 9, 'start'), part(b + 9, e - 9, 'run'), part(e - 9, e, 'lost')];
            set[`attempt/${task}/${a}`] = {task, attempt: a, begin: b, end: e, how: ['failed', 'fault', 'asked'][a % 3],
              text: '', segments, steps: null, resumed: null};
          }
        }
        const kinds = ['fault', 'checkpoint', 'restart'];
        for (let n = 0; n < 2000; n++) set[`mark/${n}`] = {at: (n * 37) % 3600, kind: kinds[n % 3],
          task: `worker:${n % 64}`, text: `Fault ${n}: kill worker:1`, until: null, number: null};
        const timeline = new Timeline(); store.apply(set, 3600, true);
        const lanes = new Lanes(store, timeline, () => null); document.body.append(lanes.root);
        await new Promise((resolve) => setTimeout(resolve, 200));
        const times = []; for (let n = 0; n < 15; n++) {
          timeline.zoom(0.7, 1800 + n); const start = performance.now(); lanes.drawNow();
          times.push(performance.now() - start);
        } return times.sort((a, b) => a - b);"""
    )
    print(f"milliseconds: {[round(time, 1) for time in times]}")
    assert times[len(times) // 2] < 250


def test_no_curve_is_drawn_across_its_gaps(page: Browser) -> None:
    """Of several tasks on one axis: only reports are drawn, a gap goes up to its end, and has no value."""
    seed = random.randrange(1 << 32)
    print(f"seed {seed}")
    chance = random.Random(seed)
    cases: list[list[dict[str, Any]]] = []
    for _ in range(60):
        cases.append([made_points(chance) for _ in range(chance.randrange(1, 5))])
    found = module(
        page,
        "series",
        """const {Timeline} = await import('/static/timeline.js'); const line = new Timeline(); line.extend(200, []);
          return args[0].map((many) => ["loss", "steps/s"].map((metric) => {
            const curves = many.map((points) => m.curveOf(metric, points, line));
            const [axis, ...columns] = m.joined(curves, (c) => [c.v]);
            return {axis, columns: columns.map((c) => c.map((v) => (v === undefined ? "none" : v))),
                    at: many.map(({gaps}, i) => gaps.map(([a, b]) => m.valueAt(curves[i], line.toU((a + b) / 2)))),
                    newest: curves.map((c) => m.newest(metric, c) ?? null), alone: columns.map(m.alone)}; }));""",
        cases,
    )
    for many, charts in zip(cases, found, strict=True):
        for chart in charts:
            for points, column, at in zip(many, chart["columns"], chart["at"], strict=True):
                drawn = [u for u, v in zip(chart["axis"], column, strict=True) if v not in (None, "none")]
                assert [u for u in drawn if min(abs(u - t) for t in points["t"]) > 1e-3] == []
                assert set(at) <= {None}
                for begin, end in points["gaps"]:
                    inside = [v for u, v in zip(chart["axis"], column, strict=True) if begin + 1e-3 < u < end - 1e-3]
                    assert set(inside) <= {None}
        assert [one for one, points in zip(charts[1]["newest"], many, strict=True) if points["gaps"] and one] == []


def made_points(chance: random.Random) -> dict[str, Any]:
    """Points as the server answers them, with gaps; the last one is up to now."""
    points: dict[str, Any] = {"t": [], "v": [], "again": [], "gaps": []}
    at, step = chance.uniform(0, 5), 0
    for _ in range(chance.randrange(1, 6)):
        for _ in range(chance.randrange(1, 30)):
            at, step = at + chance.uniform(0.05, 0.3), step + 1
            for name, value in (("t", round(at, 3)), ("v", step), ("again", 0)):
                points[name].append(value)
        for name, gap in (("t", points["t"][-1]), ("v", None), ("again", 0)):
            points[name].append(gap)
        points["gaps"].append([points["t"][-1], at := at + chance.uniform(1, 20)])
    return points
