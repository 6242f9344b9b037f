"""What is typed at a terminal: no task reads it."""

from __future__ import annotations

from clusterkit.explain.matching import explain
from clusterkit.explain.row import Evidence, TaskEvidence
from clusterkit.words.model import Task
from tests.histories import job

TEXT = """Traceback (most recent call last):
  File "/home/me/train.py", line 3, in <module>
    print(input("How many epochs? "))
          ^^^^^^^^^^^^^^^^^^^^^^^^^^
EOFError: EOF when reading a line"""
OTHER = TEXT.replace("EOF when reading a line", "Ran out of input")  # of pickle, for an empty file


def test_a_program_that_asks() -> None:
    """Of clusterkit's tasks this is known; of a log from elsewhere it is not."""
    asks, other = (TaskEvidence(Task.parse("worker:1"), text) for text in (TEXT, OTHER))
    found = explain(Evidence((asks,), job()))
    assert [one.row for one in found] == ["no-standard-input"]
    assert found[0].means == "worker:1 reads its standard input at train.py:3, and tasks have none."
    assert explain(Evidence((asks,))) == []
    assert explain(Evidence((other,), job())) == []
