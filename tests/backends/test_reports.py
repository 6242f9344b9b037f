"""What a task reports: a report within bounds, whose line in the journal can be read again, or nothing."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, seed, settings
from hypothesis import strategies as st

from clusterkit.backends.local.reports import LONGEST, parse_report
from clusterkit.store.directory import RunDirectory
from clusterkit.store.journal import JournalReader
from clusterkit.supervisor.loop import Journal
from clusterkit.words.distribution import Training
from clusterkit.words.events import (
    Checkpointed,
    EditorAwaited,
    InDebugger,
    LeftDebugger,
    PhaseChanged,
    PhaseReached,
    Profiled,
    ProgramEnds,
    Progressed,
    Reached,
    Ready,
    Repaired,
    Resumed,
    SigtermHandled,
    StepsTimed,
    StepsUnreported,
    StepTimes,
    TrainsWith,
)
from clusterkit.words.faults import Phase
from clusterkit.words.reports import Stage
from tests.histories import task

WORKER = task("worker:0")
STRATEGY = '{"kind":"strategy","attempt":1,"strategies":%s,"cluster":4,"distributed":false,"training":"fit"}'
NO_REPORTS = {
    "a step beyond every float": '{"kind":"progress","attempt":1,"step":1e999}',
    "a step that is a float": '{"kind":"progress","attempt":1,"step":1.5}',
    "a step that is true": '{"kind":"progress","attempt":1,"step":true}',
    "a step that is text": '{"kind":"progress","attempt":1,"step":"7"}',
    "a step that is NaN": '{"kind":"progress","attempt":1,"step":NaN}',
    "a negative step": '{"kind":"progress","attempt":1,"step":-1}',
    "a step of 64 bits": f'{{"kind":"progress","attempt":1,"step":{1 << 63}}}',
    "a step of 4,000 digits": f'{{"kind":"progress","attempt":1,"step":{"9" * 4000}}}',
    "a step of 5,000 digits": f'{{"kind":"progress","attempt":1,"step":{"9" * 5000}}}',
    "a total that is text": '{"kind":"progress","attempt":1,"step":1,"total":"7"}',
    "a negative total": '{"kind":"progress","attempt":1,"step":1,"total":-7}',
    "an attempt beyond every float": '{"kind":"ready","attempt":-1e999}',
    "an attempt of 400 digits": f'{{"kind":"ready","attempt":{"9" * 400}}}',
    "an attempt that is a list": '{"kind":"ready","attempt":[1]}',
    "deep lists": "[" * 60_000,
    "deep objects": '{"kind":' * 8000,
    "a deep step": f'{{"kind":"progress","attempt":1,"step":{"[" * 30_000}',
    "deep metrics": f'{{"kind":"progress","attempt":1,"step":1,"metrics":{"[" * 20_000 + "]" * 20_000}}}',
    "metrics that are a list": '{"kind":"progress","attempt":1,"step":1,"metrics":[1]}',
    "no object": "17",
    "a kind that is a list": '{"kind":[],"attempt":1}',
    "a path that is a list": '{"kind":"checkpoint","attempt":1,"step":1,"path":[]}',
    "a path with NUL": '{"kind":"checkpoint","attempt":1,"step":1,"path":"/a\\u0000b"}',
    "a path longer than paths are": f'{{"kind":"checkpoint","attempt":1,"step":1,"path":"{"x" * 5000}"}}',
    "no path": '{"kind":"checkpoint","attempt":1,"step":1}',
    "a phase of 5,000 letters": f'{{"kind":"phase","attempt":1,"begun":true,"phase":"{"x" * 5000}"}}',
    "a moment of no phase": '{"kind":"moment","attempt":1,"phase":"sleeping","number":1}',
    "a moment whose phase is a list": '{"kind":"moment","attempt":1,"phase":["saving"],"number":1}',
    "a moment without a number": '{"kind":"moment","attempt":1,"phase":"saving"}',
    "a moment of 400 digits": f'{{"kind":"moment","attempt":1,"phase":"saving","number":{"9" * 400}}}',
    "a reason that is a number": '{"kind":"profiled","attempt":1,"request":1,"why":3}',
    "a request of 400 digits": f'{{"kind":"profiled","attempt":1,"request":{"9" * 400}}}',
    "a strategy of 5,000 letters": f"{STRATEGY % ('[' + json.dumps('x' * 5000) + ']')}",
    "a strategy that is no name": STRATEGY % '["a b"]',
    "strategies that are text": STRATEGY % '"MirroredStrategy"',
    "nine strategies": STRATEGY % '["a","a","a","a","a","a","a","a","a"]',
    "an unknown way to train": (STRATEGY % "[]").replace("fit", "fitness"),
    "a cluster of 400 digits": (STRATEGY % "[]").replace("4", "9" * 400),
    "workers that are a list": '{"kind":"workers","attempt":1,"workers":[[1,2]]}',
    "a worker without an index": '{"kind":"workers","attempt":1,"workers":{"worker:1":[1,2.0]}}',
    "a worker whose index is too long": f'{{"kind":"workers","attempt":1,"workers":{{"{"9" * 4400}":[1,2.0]}}}}',
    "a worker of another script": '{"kind":"workers","attempt":1,"workers":{"\u0663":[1,2.0]}}',
    "a worker's time alone": '{"kind":"workers","attempt":1,"workers":{"1":[2.0]}}',
    "a worker's time below 0": '{"kind":"workers","attempt":1,"workers":{"1":[1,-2.0]}}',
    "a worker's time beyond every float": '{"kind":"workers","attempt":1,"workers":{"1":[1,1e999]}}',
    "a worker's steps of 400 digits": f'{{"kind":"workers","attempt":1,"workers":{{"1":[{"9" * 400},1]}}}}',
    "too many workers": json.dumps({"kind": "workers", "attempt": 1, "workers": {n: [1, 1] for n in range(1001)}}),
    "a line that is too long": '{"kind":"ready","attempt":1}' + " " * LONGEST,
    "no UTF-8": "\udcff\udcfe",
    "nothing": "",
}
HOSTILE: st.SearchStrategy[Any] = (
    st.sampled_from([1e999, float("nan"), 10**400, -(1 << 63), 1 << 63, True, None, "\ud800", "\0", "x" * 5000, [], {}])
    | st.integers()
    | st.floats()
    | st.text(max_size=5)
    | st.dictionaries(st.text(max_size=5), st.floats() | st.integers() | st.text(max_size=3), max_size=5)
)
NEARLY = st.fixed_dictionaries(
    {
        "kind": st.sampled_from(
            [
                *("progress", "metrics", "checkpoint", "resumed", "phase", "profiled", "ready", "end", "strategy"),
                *("moment", "repair"),
            ]
        ),
        "attempt": st.just(1) | HOSTILE,
    },
    optional=dict.fromkeys(
        (
            "step",
            "metrics",
            "path",
            "phase",
            "number",
            "begun",
            "request",
            "steps",
            "total",
            "why",
            "workers",
            "strategies",
            "cluster",
            "training",
            "repair",
        ),
        HOSTILE | st.sampled_from(["order", "keras-fit"]),
    ),
)
LINES = NEARLY.map(lambda value: json.dumps(value).encode()) | st.binary(max_size=200)


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where journals are written."""
    return tmp_path_factory.mktemp("journal")


@pytest.mark.parametrize("line", NO_REPORTS.values(), ids=NO_REPORTS)
def test_what_is_out_of_bounds_is_no_report(line: str) -> None:
    """Whatever a task writes, nothing is raised: the thread that reads it waits for the ends of all tasks too."""
    assert parse_report(WORKER, line.encode(errors="surrogateescape")) is None


@pytest.mark.parametrize(
    ("value", "kept"),
    [
        ("0.25", 0.25),
        ("7", 7),
        ("NaN", None),
        ("-Infinity", None),
        ("1e999", None),
        ("9" * 400, None),
        ("true", None),
        ('"x"', None),
        ("[[1]]", None),
    ],
)
def test_a_metric_is_a_number_that_json_has_or_none(value: str, kept: float | None) -> None:
    """The step is taken, whatever its metrics are."""
    line = f'{{"kind":"progress","attempt":1,"step":3,"metrics":{{"loss":{value}}}}}'
    assert parse_report(WORKER, line.encode()) == Progressed(WORKER, 1, 3, {"loss": kept})


def test_metrics_are_so_many_and_have_names() -> None:
    """The first hundred; names that are too long, or that move a cursor, are left out."""
    metrics = {"x" * 101: 1.0, "\x1b[2J": 1.0, "\ud800": 1.0, **{f"m{n}": n for n in range(1000)}}
    line = json.dumps({"kind": "progress", "attempt": 1, "step": 3, "metrics": metrics}).encode()
    assert parse_report(WORKER, line) == Progressed(WORKER, 1, 3, {f"m{n}": n for n in range(100)})


def test_text_can_be_written_anywhere() -> None:
    """Half a character is replaced, and a long reason is cut."""
    line = b'{"kind":"checkpoint","attempt":1,"step":3,"path":"/a/\\ud800-\\u00e9"}'
    assert parse_report(WORKER, line) == Checkpointed(WORKER, 1, 3, "/a/?-é")
    why = json.dumps({"kind": "profiled", "attempt": 1, "request": 2, "why": "y" * 9000}).encode()
    assert parse_report(WORKER, why) == Profiled(WORKER, 1, 2, None, why="y" * 1000)


@pytest.mark.parametrize(
    ("line", "report"),
    [
        ('{"kind":"progress","attempt":2,"step":0}', Progressed(WORKER, 2, 0)),
        (f'{{"kind":"progress","attempt":2,"step":{(1 << 63) - 1}}}', Progressed(WORKER, 2, (1 << 63) - 1)),
        ('{"kind":"resumed","attempt":2,"step":0,"path":null}', Resumed(WORKER, 2, 0, None)),
        ('{"kind":"resumed","attempt":2,"step":9,"path":"/c"}', Resumed(WORKER, 2, 9, "/c")),
        ('{"kind":"phase","attempt":2,"phase":"evaluation","begun":true}', PhaseChanged(WORKER, 2, "evaluation", True)),
        (
            '{"kind":"moment","attempt":2,"phase":"saving-write","number":3}',
            PhaseReached(WORKER, 2, Phase.SAVING_WRITE, 3),
        ),
        ('{"kind":"ready","attempt":2,"more":[1]}', Ready(WORKER, 2)),
        ('{"kind":"stage","attempt":2,"stage":"connected"}', Reached(WORKER, 2, Stage.CONNECTED)),
        ('{"kind":"stage","attempt":2,"stage":"lost"}', None),
        ('{"kind":"stage","attempt":2,"stage":["imported"]}', None),
        ('{"kind":"stage","attempt":2}', None),
        (
            '{"kind":"debugger","attempt":2,"held":true,"file":"a.py","line":3,"function":"f","error":""}',
            InDebugger(WORKER, 2, "a.py", 3, "f"),
        ),
        ('{"kind":"debugger","attempt":2,"held":true,"editor":true}', InDebugger(WORKER, 2, editor=True)),
        ('{"kind":"debugger","attempt":2,"held":true,"file":"a.py","line":-3,"function":"f","error":""}', None),
        ('{"kind":"debugger","attempt":2,"held":true,"file":"a.py","line":3,"function":["f"],"error":""}', None),
        ('{"kind":"debugger","attempt":2,"held":true}', None),
        ('{"kind":"debugger","attempt":2,"held":false}', LeftDebugger(WORKER, 2)),
        ('{"kind":"debugger","attempt":2}', None),
        ('{"kind":"editor","attempt":2,"port":5678,"waits":false}', EditorAwaited(WORKER, 2, "127.0.0.1:5678")),
        ('{"kind":"editor","attempt":2,"port":65536,"waits":false}', None),
        ('{"kind":"editor","attempt":2,"port":"1","waits":false}', None),
        ('{"kind":"sigterm","attempt":2,"handled":true}', SigtermHandled(WORKER, 2, True)),
        ('{"kind":"sigterm","attempt":2,"handled":1}', SigtermHandled(WORKER, 2, False)),
        ('{"kind":"sigterm","attempt":2}', None),
        ('{"kind":"unreported","attempt":2,"seconds":61}', StepsUnreported(WORKER, 2, 61)),
        ('{"kind":"unreported","attempt":2,"seconds":-1}', None),
        ('{"kind":"unreported","attempt":2}', None),
        ('{"kind":"repair","attempt":2,"repair":"order"}', Repaired(WORKER, 2, "order")),
        ('{"kind":"repair","attempt":2,"repair":"steps"}', None),
        ('{"kind":"repair","attempt":2,"repair":"\\u001b[2J"}', None),
        ('{"kind":"repair","attempt":2,"repair":["order"]}', None),
        ('{"kind":"repair","attempt":2,"repair":{"order":1}}', None),
        ('{"kind":"repair","attempt":-1,"repair":"order"}', None),
        ('{"kind":"repair","attempt":2}', None),
        ('{"kind":"end","attempt":2,"begun":true}', ProgramEnds(WORKER, 2)),
        ('{"kind":"end","attempt":2,"begun":0}', ProgramEnds(WORKER, 2, begun=False)),
        ('{"kind":"end","attempt":2}', None),
        (STRATEGY % '["Mirrored"]', TrainsWith(WORKER, 1, ("Mirrored",), 4, False, Training.FIT)),
        ('{"kind":"strategy","attempt":2}', None),
        ('{"kind":"workers","attempt":2,"workers":{}}', StepsTimed(WORKER, 2, {})),
        (
            '{"kind":"workers","attempt":2,"workers":{"0":[12,0.5],"1":[3,2]}}',
            StepsTimed(WORKER, 2, {WORKER: StepTimes(12, 0.5), task("worker:1"): StepTimes(3, 2)}),
        ),
    ],
)
def test_what_is_a_report_is_taken_as_it_is(line: str, report: object) -> None:
    """Up to the last step that `clusterkit.training` sends."""
    assert parse_report(WORKER, line.encode()) == report


@pytest.mark.slow
@settings(max_examples=300)
@seed(11)
@given(lines=st.lists(LINES, min_size=10, max_size=30))
def test_the_journal_can_be_read_whatever_was_reported(lines: list[bytes], directory: Path) -> None:
    """Thousands of lines, from noise to nearly right: each report comes back from the journal as it went in."""
    path = directory / "journal.jsonl"
    path.unlink(missing_ok=True)
    reports = [report for line in lines if (report := parse_report(WORKER, line)) is not None]
    journal = Journal(path, lambda: 1.0, lambda error: pytest.fail(error))
    for report in reports:
        journal.write(report, 1.0)
    journal.close()
    assert [event for _, event in JournalReader(RunDirectory(path.parent)).events("m")] == reports
    path.read_bytes().decode("ascii")
