"""The matrix: what it tries, and what it makes of pytest's reports."""

from __future__ import annotations

import pytest

from benchmarks.matrix.environments import oldest_version
from benchmarks.matrix.slices import SLICES, Outcome, read_report
from benchmarks.matrix.table import Results, add, failures, table
from benchmarks.matrix.versions import NEWEST_PYTHON, Combination, combinations
from tests.support import ROOT

REPORT = """<testsuites><testsuite time="12.3">
<testcase name="passes"/>
<testcase name="is skipped"><skipped message="no virtual network here"/></testcase>
<testcase name="fails"><failure message="AssertionError: 1 is not 2&#10;  more of it">the traceback</failure></testcase>
<testcase name="has no fixture"><error message="failed on setup"/></testcase>
</testsuite></testsuites>"""


def test_every_tensorflow_is_tried_on_every_python_that_it_has_wheels_for() -> None:
    """And with its oldest Keras once."""
    names = [one.name for one in combinations([(3, 10), (3, 12), (3, 13), (3, 14)])]
    assert names[:3] == ["2.16-py3.12", "2.16-py3.12-oldest-keras", "2.17-py3.12"]
    assert names[-3:] == ["2.21-py3.12", "2.21-py3.12-oldest-keras", "2.21-py3.13"]
    assert len(names) == 2 * len(NEWEST_PYTHON) + 2
    assert list(combinations([(3, 14)])) == []


def test_tf_keras_has_tensorflows_version() -> None:
    """It works with no other."""
    assert Combination("2.18", (3, 12)).requirements[:2] == ("tensorflow==2.18.*", "tf_keras==2.18.*")


@pytest.mark.parametrize(
    ("wanted", "oldest"), [(["keras>=3.0.0"], "3.0.0"), (["keras >=3.10.0"], "3.10.0"), (["keras<4,>=3.5.0"], "3.5.0")]
)
def test_the_oldest_keras_is_what_tensorflow_says(wanted: list[str], oldest: str) -> None:
    """In the metadata of its wheel, however they are written."""
    assert oldest_version(wanted) == oldest


def test_every_part_of_the_slice_has_tests() -> None:
    """Files that exist, with the marker in them."""
    for files in SLICES.values():
        for file in files:
            assert "mark.matrix" in (ROOT / "tests" / file).read_text()


def test_a_report_is_counted() -> None:
    """Errors in a fixture are failures, too; of each the first line is kept."""
    outcome = read_report(REPORT)
    assert (outcome.passed, outcome.skipped, outcome.seconds) == (1, 1, 12.3)
    assert outcome.failed == {"fails": "AssertionError: 1 is not 2", "has no fixture": "failed on setup"}


def test_results_become_a_table() -> None:
    """What was not run is said; failures stand below by their names."""
    results: Results = {}
    packages = {"tensorflow": "2.16.2", "keras": "3.15.1", "numpy": "1.26.4"}
    add(results, "2.16-py3.11", packages, "jobs", Outcome(2, seconds=61.6))
    add(results, "2.16-py3.11", packages, "facts", read_report(REPORT))
    shown = table(results)
    row = next(line for line in shown.splitlines() if line.startswith("| 2.16-py3.11 |"))
    assert row.startswith("| 2.16-py3.11 | 2.16.2 | 3.15.1 | 1.26.4 | 2 passed (62 s) | not run |")
    assert row.endswith("| 1 passed, **2 failed**, 1 skipped (12 s) |")
    assert "- 2.16-py3.11, facts: `fails`: AssertionError: 1 is not 2" in shown
    assert failures(results) == 2
