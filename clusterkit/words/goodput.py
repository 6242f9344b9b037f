"""Goodput: how the time of a run divides. All times in seconds, with microseconds as the smallest unit."""

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
    | duration | of the run: the sum of the parts |
    | share | goodput, from 0 to 1: the share of training that counted; None if no step was reported |
    | parts | what the time went into |
    | seen | steps were reported; otherwise nothing is known of training |
    | costliest | the part that cost most beside training, `recovering` together with `lost`; empty if nothing did |
    | most | a sentence about that part with its cause, without a full stop; empty if nothing cost anything |
    """

    duration: float = 0.0
    share: float | None = None
    parts: Parts = Parts()
    seen: bool = False
    costliest: str = ""
    most: str = ""

    @classmethod
    def of(cls, microseconds: Mapping[str, int], seen: bool, costliest: str, most: str) -> Goodput:
        """The split from whole microseconds by the names of the parts."""
        total = sum(microseconds.values())
        share = microseconds.get("training", 0) / total if seen and total else None
        return cls(total / PER_SECOND, share, Parts.of(microseconds), seen, costliest, most)
