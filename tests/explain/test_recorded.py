"""What TensorFlow, Keras and others said in the programs of mistakes, recorded: each text is explained by its row.

The fixture holds the error of each program of tests/children/mistakes, shortened, below the id of its row.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from clusterkit.explain import addresses, checkpoints, data, environment, keras, loops, migration, replicas, servers
from clusterkit.explain.matching import explain
from clusterkit.explain.row import Evidence, Row, TaskEvidence
from clusterkit.words.model import ProgramKind
from tests.histories import build_job

_ROOMS = (addresses, servers, keras, migration, data, checkpoints, environment, loops, replicas)
ROWS: dict[str, Row] = {row.id: row for room in _ROOMS for row in room.ROWS}
_PARTS = (Path(__file__).parent / "recorded.txt").read_text().split("=== ")[1:]
RECORDED = {id_: text for id_, _, text in (part.partition("\n") for part in _PARTS)}


def test_every_row_is_recorded() -> None:
    """No row without a text, no text without a row."""
    assert sorted(RECORDED) == sorted(ROWS)


@pytest.mark.parametrize("id_", RECORDED)
def test_a_recorded_text_is_explained_by_its_row_alone(id_: str) -> None:
    """Also where the text comes from a log, of which nothing else is known; no sentence lacks a word."""
    evidence = Evidence((TaskEvidence(text=RECORDED[id_]),))
    (explanation,) = explain(evidence)
    assert explanation.row == id_
    for said, template in ((explanation.means, ROWS[id_].means), (explanation.advice, ROWS[id_].advice)):
        assert said.count("…") == template.count("…")


def test_data_that_ends_is_no_matter_of_parameter_servers_in_a_gang() -> None:
    """The row's advice is for coordinators."""
    ended = (TaskEvidence(text=RECORDED["finite-data-on-parameter-servers"]),)
    gang: dict[str, Any] = {"program": "train.py", "workers": 2}
    assert explain(Evidence(ended, build_job(gang, ProgramKind.SCRIPT))) == []
    assert len(explain(Evidence(ended, build_job({**gang, "ps": 1}, ProgramKind.SCRIPT)))) == 1
