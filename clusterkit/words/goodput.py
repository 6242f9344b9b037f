"""Goodput: what the time of a run went into. All times in seconds, with microseconds as the smallest unit."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields

PER_SECOND = 1_000_000  # microseconds, in which parts are added up so that no rounding is left over


@dataclass(frozen=True, slots=True)
class Parts:
    """How a run's time divides. Each moment belongs to one part, so the parts sum to the duration.

    | part | what happened in it |
    | --- | --- |
    | startup | processes started, imported, connected and prepared, until the first step began |
    | compilation | by how much the first step took longer than a usual one |
    | training | training that counted: no later attempt computed these steps again |
    | lost | training whose steps a later attempt computed again |
    | checkpointing | training waited for a checkpoint |
    | evaluating | training waited for another phase that makes no steps, such as an evaluation |
    | recovering | training stood still from a failure, or a requested restart, until the next new step |
    | stalled | training stood still, without a failure |
    | stopped | training stood still because a task was paused |
    | ending | the time after the last step, or since the run was being ended |
    | unseen | tasks ran, but the run is over and none of them ever reported a step |
    """

    startup: float = 0.0
    compilation: float = 0.0
    training: float = 0.0
    lost: float = 0.0
    checkpointing: float = 0.0
    evaluating: float = 0.0
    recovering: float = 0.0
    stalled: float = 0.0
    stopped: float = 0.0
    ending: float = 0.0
    unseen: float = 0.0

    @classmethod
    def of(cls, microseconds: Mapping[str, int]) -> Parts:
        """The parts from whole microseconds by their names."""
        return cls(**{name: count / PER_SECOND for name, count in microseconds.items()})

    def items(self) -> list[tuple[str, float]]:
        """Each part with its name, in the order above."""
        return [(field.name, getattr(self, field.name)) for field in fields(self)]


@dataclass(frozen=True, slots=True)
class Goodput:
    """The split of a run's time, so far or at its end.

    | field | meaning |
    | --- | --- |
    | parts | they sum to the duration |
    | seen | steps were reported; otherwise nothing is known of training, and there is no goodput |
    | costliest | the part that cost most beside training, `recovering` together with `lost`; empty if nothing did |
    | most | a sentence about that part with its cause, without a full stop; empty if nothing cost anything |
    """

    parts: Parts = Parts()
    seen: bool = False
    costliest: str = ""
    most: str = ""

    @property
    def duration(self) -> float:
        """How long the run was: the sum of the parts."""
        return sum(round(seconds * PER_SECOND) for _, seconds in self.parts.items()) / PER_SECOND

    @property
    def share(self) -> float | None:
        """Goodput, from 0 to 1: the share of training that counted. None if training cannot be seen."""
        return self.parts.training / self.duration if self.seen and self.duration else None
