"""The pure parts of the benchmarks: medians, ratios, verdicts, the table."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from benchmarks.figures import Judged, Kind, Row, Target, Word, judge, medians, verdict
from benchmarks.measures import ROWS, scenarios
from benchmarks.notes import CHECKPOINT, held
from benchmarks.scenario import Scenario
from benchmarks.table import number, sentence, table

VALUES = {
    "clusterkit": {"end": [3.0, 100.0, 4.0], "rate": [600.0]},
    "warmed": {"end": [1.0]},
    "honcho": {"end": [8.0, 10.0, 9.0, 7.0], "rate": [5.0]},
}
ROW = Row("PS job", "ps", "end", "s", (Target(0.5, "honcho"), Target(0.5, "mpr")))


def judged(row: Row = ROW) -> Judged:
    """A row over the values above."""
    return judge(row, VALUES)


def test_a_median_is_not_moved_by_one_slow_run() -> None:
    """Of an even number of runs it is the middle of the two in the middle."""
    assert medians(VALUES, "end") == {"clusterkit": 4.0, "warmed": 1.0, "honcho": 8.5}


def test_who_lacks_a_figure_has_no_median() -> None:
    """It is left out, and is not 0."""
    assert medians(VALUES, "rate") == {"clusterkit": 600.0, "honcho": 5.0}
    assert medians(VALUES, "nonsense") == {}


def test_a_ratio_is_ours_over_theirs() -> None:
    """Of medians where not both have a value for each round, to each peer that was measured."""
    assert judged().ratios == {"warmed": 4.0, "honcho": 4.0 / 8.5}


def test_a_round_in_which_the_machine_is_slow_does_not_move_a_ratio() -> None:
    """Each round has its own, and their median counts."""
    values = {"clusterkit": {"end": [1.0, 4.0, 20.0]}, "honcho": {"end": [2.0, 10.0, 40.0]}}
    (met,) = judge(Row("PS job", "ps", "end", "s", (Target(0.5, "honcho"),)), values).verdicts
    assert (met.reached, met.word) == (0.5, Word.MET)


def test_a_row_can_judge_another_competitor_than_clusterkit_itself() -> None:
    """Such as a run that finds a warm fork server."""
    row = Row("second", "ps", "end", "s", (Target(0.25, "honcho"),), ours="warmed")
    assert judged(row).ratios["honcho"] == 1.0 / 8.5
    assert judged(row).verdicts[0].word is Word.MET


@pytest.mark.parametrize(
    ("target", "ours", "theirs", "word"),
    [
        (Target(0.5, "honcho"), [5.0], [10.0], Word.MET),
        (Target(0.5, "honcho"), [5.1], [10.0], Word.MISSED),
        (Target(60, "honcho", least=True), [60.0], [1.0], Word.MET),
        (Target(60, "honcho", least=True), [59.0], [1.0], Word.MISSED),
        (Target(0.3, "limit", Kind.DIFFERENCE), [0.5], [0.25], Word.MET),
        (Target(0.3, "limit", Kind.DIFFERENCE), [0.5], [0.1], Word.MISSED),
        (Target(60, kind=Kind.ABSOLUTE), [60.0], [], Word.MET),
        (Target(60, kind=Kind.ABSOLUTE), [61.0], [], Word.MISSED),
        (Target(60, kind=Kind.ABSOLUTE), [], [], Word.UNKNOWN),
        (Target(0.5, "honcho"), [5.0], [], Word.UNKNOWN),
        (Target(0.5, "honcho"), [], [10.0], Word.UNKNOWN),
        (Target(0.5, "honcho"), [5.0], [0.0], Word.UNKNOWN),
    ],
)
def test_a_target_is_met_missed_or_not_measured(
    target: Target, ours: list[float], theirs: list[float], word: Word
) -> None:
    """The bound itself is still good; what one of the two lacks is never met."""
    assert verdict(target, ours, theirs).word is word


def test_the_sentence_of_a_verdict() -> None:
    """What was reached, what was asked for, and the word."""
    assert sentence(judged().verdicts[0]) == "0.471 of honcho, asked for: at most 0.5: met"
    assert sentence(judged().verdicts[1]) == "– of mpr, asked for: at most 0.5: not measured"
    beyond = verdict(Target(0.3, "limit", Kind.DIFFERENCE), [1.0], [0.5])
    assert sentence(beyond) == "0.5 more than limit, asked for: at most 0.3: missed"
    assert sentence(verdict(Target(60, kind=Kind.ABSOLUTE), [41.25], [])) == "41.2, asked for: at most 60: met"


def test_the_table_has_a_dash_for_a_peer_that_cannot() -> None:
    """And the verdicts below their line."""
    head, line, first, second, _, last = table([judged()]).splitlines()
    assert head.split()[:2] == ["measure", "(medians)"]
    assert line.split() == ["PS", "job", "s", "4", "–", "–", "8.5", "–", "–", "–"]
    assert first.strip().endswith("met")
    assert second.strip().endswith("not measured")
    assert last == "targets: 1 met, 1 not measured"


def test_the_columns_of_the_table_stand_below_their_heads() -> None:
    """However long a title is."""
    long = Row("a title that is longer than every other one of this table", "ps", "end", "s")
    head, short, line, *_ = table([judge(Row("short", "ps", "end", "s"), VALUES), judged(long)]).splitlines()
    column = head.index("honcho") + len("honcho")
    assert short[:column].endswith("8.5")
    assert line[:column].endswith("8.5")


@pytest.mark.parametrize(
    ("value", "text"), [(None, "–"), (0.1234, "0.123"), (4.0, "4"), (12.34, "12.3"), (1234.5, "1234"), (-0.5, "-0.5")]
)
def test_numbers_have_three_digits_or_a_little_more(value: float | None, text: str) -> None:
    """More would be noise."""
    assert number(value) == text


def test_every_row_has_its_scenario_and_its_peers() -> None:
    """A row that names what nobody measures would never be met, without a word."""
    by_name = {scenario.name: scenario for scenario in scenarios(["torchrun"])}
    assert {row.scenario for row in ROWS} == by_name.keys()
    for row in ROWS:
        assert row.ours in by_name[row.scenario].competitors
        for target in row.targets:
            assert target.peer in ("", *by_name[row.scenario].competitors)


def test_how_long_checkpoints_hold_up_training(tmp_path: Path) -> None:
    """The median, without the restore before the first step."""
    begun, over = CHECKPOINT
    moments = [(begun, 1), (over, 9), ("step", 10), *[(kind, n) for n in (20, 30, 40) for kind in (begun, over)]]
    lines = [
        json.dumps({"kind": kind, "at": at + (0.25 if kind == over else 0), "task": "chief:0", "pid": 1, "step": 0})
        for kind, at in moments
    ]
    (tmp_path / "notes").write_text("\n".join(lines) + "\n")
    assert held(tmp_path) == 250


def test_a_scenario_can_be_played_by_some_of_its_competitors() -> None:
    """In their order."""
    scenario = Scenario("ps", {"clusterkit": lambda place: {}, "shell": lambda place: {}, "honcho": lambda place: {}})
    assert list(scenario.among(["honcho", "clusterkit"]).competitors) == ["clusterkit", "honcho"]
    assert scenario.among(None) == scenario
