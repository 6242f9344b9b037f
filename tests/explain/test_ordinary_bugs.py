"""No false explanation: programs with ordinary bugs, and logs of other systems, get none.

The fixtures hold what small programs wrote to standard error, each below its name; their directory was replaced.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from clusterkit.explain.log import explain_log
from clusterkit.explain.matching import explain
from clusterkit.explain.row import Evidence, TaskEvidence
from clusterkit.words.job import JobSpec
from clusterkit.words.model import ProgramKind, Task, TaskType
from clusterkit.words.outcome import Exit, RunState
from tests.histories import build_job


def texts(name: str) -> dict[str, str]:
    """The texts of a fixture, by their names."""
    parts = (Path(__file__).parent / name).read_text().split("=== ")[1:]
    return {title: text for title, _, text in (part.partition("\n") for part in parts)}


BUGS, OTHERS = texts("ordinary_bugs.txt"), texts("other_systems.txt")
SHAPES: dict[str, dict[str, Any]] = {"a gang": {"workers": 2}, "parameter servers": {"workers": 2, "ps": 1}}


def job_of(**counts: int) -> JobSpec:
    """A job of this shape."""
    return build_job({"program": "train.py", **counts}, ProgramKind.SCRIPT)


def rows(*texts: str, job: JobSpec | None) -> list[str]:
    """The rows that fit when worker:1 has failed so, and then the others."""
    tasks = [TaskEvidence(Task(TaskType.WORKER, 1 - at), text, "", Exit(code=1)) for at, text in enumerate(texts)]
    return [explanation.row for explanation in explain(Evidence(tuple(tasks), job, RunState.FAILED))]


def test_there_are_enough() -> None:
    """As many as the table is to be held against."""
    assert len(BUGS) >= 60
    assert len(OTHERS) >= 10


@pytest.mark.parametrize("text", BUGS.values(), ids=BUGS)
def test_an_ordinary_bug_has_no_explanation(text: str) -> None:
    """Neither as a log nor in a run of any shape, whatever the other tasks say because of it."""
    assert explain_log([text.encode()]).explanations == []
    mixed = "".join(f"worker:{n} │ {line}\n" for line in text.splitlines() for n in (0, 1))
    assert explain_log([mixed.encode()]).explanations == []
    aborted = "UnavailableError: Collective ops is aborted by: Socket closed"
    for counts in SHAPES.values():
        assert rows(text, aborted, job=job_of(**counts)) == []


@pytest.mark.parametrize("text", OTHERS.values(), ids=OTHERS)
def test_a_log_of_another_system_has_no_explanation(text: str) -> None:
    """It may speak of workers, heartbeats and collectives, too."""
    assert explain_log([text.encode()]).explanations == []
