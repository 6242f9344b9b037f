"""The trace of a run, held against the rules of Chrome's format of trace events."""

from __future__ import annotations

import json
import math
import random
from collections import Counter, defaultdict
from dataclasses import fields, is_dataclass, replace
from typing import Any

from clusterkit.page.entities import Attempt, CauseLink, Mark, Segment, Startup
from clusterkit.page.trace import THE_RUN, trace_document
from tests.page.told import SERIES, bar, entities, row

PHASES = set("MXibesfC")


def check(document: dict[str, Any]) -> list[dict[str, Any]]:
    """Fail unless the document keeps the rules; return its events."""
    text = json.dumps(document, allow_nan=False)
    assert json.loads(text) == document
    assert document["displayTimeUnit"] in ("ms", "ns")
    events: list[dict[str, Any]] = document["traceEvents"]
    named = {event["pid"] for event in events if event["ph"] == "M" and event["name"] == "process_name"}
    for event in events:
        assert event["ph"] in PHASES
        assert isinstance(event["name"], str)
        assert event["name"]
        assert isinstance(event["pid"], int)
        assert isinstance(event["tid"], int)
        assert event["pid"] in named
        assert event["ph"] == "M" or (isinstance(event["ts"], int) and event["ts"] >= 0)
        assert event["ph"] != "X" or (isinstance(event["dur"], int) and event["dur"] >= 0)
        assert event["ph"] != "i" or event["s"] in "gpt"
        assert event["ph"] != "C" or all(math.isfinite(value) for value in event["args"].values())
    check_nesting(events)
    check_pairs(events)
    return events


def check_nesting(events: list[dict[str, Any]]) -> None:
    """Slices of a thread are apart, or one is within the other."""
    slices = defaultdict[tuple[int, int], list[tuple[int, int]]](list)
    for event in events:
        if event["ph"] == "X":
            slices[event["pid"], event["tid"]].append((event["ts"], event["ts"] + event["dur"]))
    for own in slices.values():
        open_until: list[int] = []
        for begin, end in sorted(own, key=lambda one: (one[0], -one[1])):
            while open_until and open_until[-1] <= begin:
                open_until.pop()
            assert not open_until or end <= open_until[-1]
            open_until.append(end)


def check_pairs(events: list[dict[str, Any]]) -> None:
    """Each flow has a start and an end, within slices of their threads; each async event that begins ends."""
    for begin, end in (("s", "f"), ("b", "e")):
        ids = {phase: Counter((e["cat"], e["id"]) for e in events if e["ph"] == phase) for phase in (begin, end)}
        assert ids[begin] == ids[end]
        assert set(ids[begin].values()) <= {1}
    for event in events:
        if event["ph"] in "sf":
            within = (e for e in events if e["ph"] == "X" and (e["pid"], e["tid"]) == (event["pid"], event["tid"]))
            assert any(e["ts"] <= event["ts"] <= e["ts"] + e["dur"] for e in within)


def test_a_run_is_processes_slices_instants_flows_and_counters() -> None:
    """Everything of the made-up run is where a reader looks for it."""
    events = check(trace_document(entities(), SERIES, 30.0))
    names = {e["args"]["name"]: e["pid"] for e in events if e["name"] == "process_name"}
    assert names == {"run 20261122-080115-c2ea": THE_RUN, "chief:0": 2, "worker:0": 3}
    slices = [(e["name"], e["pid"], e["ts"], e["dur"]) for e in events if e["ph"] == "X"]
    assert ("attempt 1", 2, 500_000, 9_700_000) in slices
    assert ("computed again", 2, 8_000_000, 2_200_000) in slices
    assert ("running", 2, 11_000_000, 19_000_000) in slices  # it had no end: that of its attempt
    assert ("attempt 2", 3, 11_000_000, 19_000_000) in slices  # nor had this: that of the run
    assert ("import", 2, 500_000, 1_000_000) in slices
    assert [e["name"] for e in events if e["ph"] == "i" and e["pid"] == THE_RUN] == [
        "Fault 2: slow worker:0, chief:0 share=20%", "Restarting chief:0 and worker:0",
    ]  # fmt: skip
    assert [(e["ph"], e["ts"]) for e in events if e["ph"] in "be"] == [("b", 15_000_000), ("e", 18_000_000)]
    assert [(e["ph"], e["pid"], e["ts"]) for e in events if e["ph"] in "sf"] == [
        ("s", 3, 9_999_999), ("f", 2, 10_199_999),
    ]  # fmt: skip
    counters = [(e["name"], e["pid"], e["ts"], e["args"]) for e in events if e["ph"] == "C"]
    assert ("step", 2, 8_000_000, {"step": 40.0}) in counters
    assert ("a/b", 3, 2_000_000, {"a/b": 3.0}) in counters
    assert sum(name == "loss" for name, *_ in counters) == 1  # not the one that is no number, nor a stranger's


def test_nothing_is_a_trace_too() -> None:
    """Of a run that has only just begun, or whose files are damaged."""
    assert len(check(trace_document({}, {}, 0.0))) == 3


def test_whatever_the_times_are_the_trace_keeps_the_rules() -> None:
    """Attempts that overlap, segments outside of them, ends before beginnings, links into nothing."""
    seed = random.randrange(2**32)
    print(f"seed {seed}")
    dice = random.Random(seed)

    def time() -> float:
        return dice.choice([dice.uniform(-5, 40), float(dice.randint(0, 9)), 1e11, float("nan"), float("inf"), 0.0])

    def segments() -> tuple[Segment, ...]:
        kinds = ("start", "run", "lost", "stopped", "strange", "")
        count = dice.randint(0, 5)
        return tuple(Segment(time(), dice.choice([None, time()]), dice.choice(kinds)) for _ in range(count))

    for _ in range(300):
        made: dict[str, Any] = {f"task/{n}": row(f"worker:{n}") for n in range(dice.randint(0, 3))}
        for n in range(dice.randint(0, 12)):
            of, ended = f"worker:{dice.randint(0, 4)}", dice.choice([None, time()])
            made[f"attempt/{n}"] = bar(of, dice.randint(1, 4), time(), ended, "failed", *segments())
            made[f"mark/{n}"] = Mark(time(), "fault", dice.choice([None, of]), "", dice.choice([None, time()]), n)
            made[f"link/{n}"] = CauseLink((of, time()), (f"worker:{dice.randint(0, 4)}", time()), "")
            made[f"startup/{n}"] = Startup(f"worker:{n}", segments(), ())
        check(trace_document(made, {"x/worker:0": {"t": [time()], "v": [time()]}}, time()))


def test_every_kind_of_entity_has_its_place() -> None:
    """A field that is added to what the trace shows is noticed here."""
    shown = {Attempt: 9, Mark: 6, CauseLink: 3, Segment: 4}
    assert all(is_dataclass(kind) and len(fields(kind)) == count for kind, count in shown.items())
    bars = {"attempt/a/1": replace(bar("a", 1, 0.0, None, "running"), steps=None, resumed=5)}
    (attempt,) = [e for e in check(trace_document(bars, {}, 3.0)) if e["ph"] == "X"]
    assert attempt["args"] == {"how": "running", "text": "killed by SIGKILL", "resumed": 5}
