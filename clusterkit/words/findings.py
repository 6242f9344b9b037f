"""What a look at a program's text has found: what will go wrong in the job, where, and what to do, as frozen values."""

from __future__ import annotations

import enum
from dataclasses import dataclass


class Severity(enum.StrEnum):
    """How sure it is."""

    ERROR = "error"  # it fails, whenever the job is started
    WARNING = "warning"  # it fails, or does what nobody wants, under conditions that the text does not decide


@dataclass(frozen=True, slots=True)
class Place:
    """A line of a file."""

    file: str
    line: int

    def __str__(self) -> str:
        return f"{self.file}:{self.line}"


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that will go wrong: `what` says for which job, `advice` what to do."""

    id: str
    severity: Severity
    place: Place
    what: str
    advice: str

    def __str__(self) -> str:
        return f"{self.place}: {self.severity}: {self.what} {self.advice} [{self.id}]"


@dataclass(frozen=True, slots=True)
class Versions:
    """What the tasks will import, as far as it can be known without importing it; None: not known."""

    tensorflow: tuple[int, int] | None = None
    keras: int | None = None  # the major version that `tf.keras` is
