"""A diagnosis: what a rule says of a fact."""

from __future__ import annotations

import enum
from collections.abc import Iterator
from dataclasses import dataclass


class Grade(enum.StrEnum):
    """What a diagnosis means for somebody who wants to run a job."""

    FINE = "fine"
    NOTE = "note"  # good to know, and nothing to do about it
    DOUBT = "doubt"  # something will be slower, missing, or other than expected
    WRONG = "wrong"  # it does not work


class Topic(enum.StrEnum):
    """The groups of diagnoses, in the order in which they are shown; the value is the title."""

    PYTHON = "Python and its packages"
    MACHINE = "The machine"
    STATE = "Where runs are kept"
    ENVIRONMENT = "The environment"
    JOB = "The job"


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """One sentence or two about one fact; `about` is the interpreter, where it is about one."""

    topic: Topic
    name: str
    grade: Grade
    text: str
    about: str = ""


Judged = Iterator[tuple[str, Grade, str]]  # name, grade, text
