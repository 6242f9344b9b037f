"""A diagnosis: the verdict of a rule on a fact."""

from __future__ import annotations

import enum
from collections.abc import Iterator
from dataclasses import dataclass


class Grade(enum.StrEnum):
    """How serious a diagnosis is for a user who wants to run a job."""

    FINE = "fine"
    NOTE = "note"  # information; nothing to do
    DOUBT = "doubt"  # a job may be slower, lack something, or behave unexpectedly
    WRONG = "wrong"  # a job does not work


class Topic(enum.StrEnum):
    """The groups of diagnoses, in the order of the output; the value is the title."""

    PYTHON = "Python and its packages"
    MACHINE = "The machine"
    STATE = "Where runs are kept"
    ENVIRONMENT = "The environment"
    JOB = "The job"


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """One or two sentences about one fact; `about` is the interpreter that they are about, if any."""

    topic: Topic
    name: str
    grade: Grade
    text: str
    about: str = ""


Judged = Iterator[tuple[str, Grade, str]]  # name, grade, text
