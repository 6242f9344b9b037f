"""Diagnoses, which are the results of evaluating facts by rules, and their output as text and as JSON."""

from __future__ import annotations

import enum
import textwrap
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from clusterkit.text.printable import printable


class Rating(enum.StrEnum):
    """The severity of a diagnosis for a user who wants to run a job."""

    FINE = "fine"
    NOTE = "note"  # information; no action needed
    DOUBT = "doubt"  # a job may be slower, lack something, or behave unexpectedly
    WRONG = "wrong"  # a job does not work


class Topic(enum.StrEnum):
    """The topics by which diagnoses are grouped, in the order of the output. Each value is the title of the topic."""

    PYTHON = "Python and its packages"
    MACHINE = "The machine"
    STATE = "Where runs are kept"
    ENVIRONMENT = "The environment"
    JOB = "The job"


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """The result of evaluating a fact, in one or two sentences. `about` is the interpreter in question, if any."""

    topic: Topic
    name: str
    grade: Rating
    text: str
    about: str = ""


Judged = Iterator[tuple[str, Rating, str]]  # the name, rating and text of each diagnosis
MARKS = {Rating.FINE: "✔", Rating.NOTE: "·", Rating.DOUBT: "!", Rating.WRONG: "✘"}
COLORS = {Rating.FINE: "\033[32m", Rating.NOTE: "\033[2m", Rating.DOUBT: "\033[33m", Rating.WRONG: "\033[31m"}
PLAIN = "\033[0m"
WIDTH = 100  # columns; longer lines are wrapped, except commands


def as_text(found: Sequence[Diagnosis], color: bool) -> str:
    """Format the diagnoses by topic, with a summary at the end."""
    lines = []
    pythons = {one.about for one in found if one.about}
    for topic in Topic:
        group = [one for one in found if one.topic is topic]
        lines += [topic.value] if group else []
        for one in group:
            # If there are several interpreters, name the interpreter, unless the text already does.
            about = f"{one.about}: " if len(pythons) > 1 and one.about not in one.text else ""
            lines += _lines(one, about, color)
    return "\n".join([*lines, _summary(found), ""])


def as_json(found: Sequence[Diagnosis]) -> dict[str, Any]:
    """Convert the diagnoses to a JSON document, with the numbers of WRONG and DOUBT ratings."""
    return {
        "findings": [
            {
                "topic": one.topic.name.lower(),
                "name": one.name,
                "grade": one.grade.value,
                "text": one.text,
                "interpreter": one.about or None,
            }
            for one in found
        ],
        "wrong": _count(found, Rating.WRONG),
        "doubts": _count(found, Rating.DOUBT),
    }


def _lines(one: Diagnosis, about: str, color: bool) -> list[str]:
    mark = MARKS[one.grade]
    mark = f"{COLORS[one.grade]}{mark}{PLAIN}" if color else mark
    sentence, run, command = printable(one.text).partition(" Run: ")
    lines = textwrap.wrap(f"{about}{sentence}", WIDTH - 4, break_long_words=False, break_on_hyphens=False)
    lines += [f"Run: {command}"] if run else []
    return [f"  {mark} {lines[0]}", *(f"    {line}" for line in lines[1:])]


def _count(found: Sequence[Diagnosis], grade: Rating) -> int:
    return sum(one.grade is grade for one in found)


def _summary(found: Sequence[Diagnosis]) -> str:
    wrong, doubts = _count(found, Rating.WRONG), _count(found, Rating.DOUBT)
    if not wrong and not doubts:
        return "Nothing is wrong."
    text = "Nothing is wrong" if not wrong else "1 thing is wrong" if wrong == 1 else f"{wrong} things are wrong"
    things = "1 thing" if doubts == 1 else f"{doubts} things"
    return f"{text}; {things} may matter to you (!)." if doubts else f"{text}."
