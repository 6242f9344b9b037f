"""The account of a run, as `result.json` holds it: recovery report, goodput, start-up and stragglers."""

from __future__ import annotations

from dataclasses import dataclass

from clusterkit.words.goodput import Goodput
from clusterkit.words.recovery import RecoveryReport
from clusterkit.words.startup import Startup
from clusterkit.words.stragglers import Straggler


@dataclass(frozen=True, slots=True)
class Account(RecoveryReport):
    """The recovery report with what the run's time went into. A result of an older version has only the former."""

    goodput: Goodput | None = None
    startup: Startup | None = None
    stragglers: tuple[Straggler, ...] = ()
