"""The result of a run, with what its functions returned, and the exceptions that carry it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from html import escape
from pathlib import Path
from typing import Any, Self

from clusterkit.ledger.takeover import report_of
from clusterkit.store.directory import RunDirectory
from clusterkit.text.printable import printable_lines
from clusterkit.words.account import Account, Goodput, InjectedFault, Recovery, Startup, Straggler
from clusterkit.words.errors import ClusterkitError
from clusterkit.words.outcome import RunResult, RunState


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Result(RunResult):
    """The end of a run. `returns` maps `worker:0` to what the function returned in that task.

    `recoveries` are its failures and restarts in order of time, `faults` its injected faults, `goodput` is what its
    time went into, `startup` how it came to its first step, and `stragglers` are the tasks that were slower than
    their peers.
    """

    __module__ = "clusterkit"

    directory: Path
    returns: Mapping[str, Any]
    recoveries: tuple[Recovery, ...] = ()
    faults: tuple[InjectedFault, ...] = ()
    goodput: Goodput | None = None
    startup: Startup | None = None
    stragglers: tuple[Straggler, ...] = ()

    def __repr__(self) -> str:
        returned = f", returns of {', '.join(self.returns)}" if self.returns else ""
        return f"<Result of {self.directory.name}: {self.state}, {self.reason}{returned}>"

    def _repr_html_(self) -> str:
        """What a notebook shows: the report."""
        return preformatted(self.report())

    @property
    def ok(self) -> bool:
        """Whether the job succeeded, even if a fault was never injected: see `not_injected`."""
        return self.state is RunState.SUCCEEDED

    @classmethod
    def of(cls, result: RunResult, run: RunDirectory, returns: Mapping[str, Any]) -> Self:
        known = {field.name: getattr(result, field.name) for field in fields(result)}
        told = report_of(run)
        account = {field.name: getattr(told, field.name) for field in fields(told)}
        return cls(**known, **account, directory=run.path, returns=returns)

    def report(self) -> str:
        """The report that `up` prints at the end: the cause first, with the end of its log."""
        from clusterkit.views.report import report  # only for those who call this

        recovered = Account(self.recoveries, self.faults, self.goodput, self.startup, self.stragglers)
        return report(self, RunDirectory(self.directory), color=False, recovered=recovered).rstrip("\n")


def preformatted(text: str) -> str:
    """The text in HTML, as it is."""
    return f"<pre>{escape(printable_lines(text))}</pre>"


def read_result(run: RunDirectory, exit_code: int) -> RunResult:
    """How a run ended; a failure, if supervisor and guardian were killed before they could write a result."""
    left_none = RunResult(RunState.FAILED, exit_code, f"the run ended with code {exit_code} and left no result")
    return run.result() or left_none


class RunEnded(ClusterkitError):
    """The run ended before what was asked or waited for. `result` is the result."""

    __module__ = "clusterkit"

    def __init__(self, what: str, result: Result) -> None:
        super().__init__(what, result)
        self.what = what
        self.result = result

    def __str__(self) -> str:
        return f"{self.what}\n{self.result.report()}"


class ClusterFailed(RunEnded):
    """The job failed, or exceeded its `timeout`. `result` is the result."""

    __module__ = "clusterkit"


class WaitTimeout(ClusterkitError, TimeoutError):
    """What was waited for did not happen in time; the run continues. `known` describes each task in a line."""

    __module__ = "clusterkit"

    def __init__(self, what: str, seconds: float, known: str, run_id: str) -> None:
        super().__init__(what, seconds, known, run_id)
        self.what = what
        self.seconds = seconds
        self.known = known
        self.run_id = run_id

    def __str__(self) -> str:
        return f"Waited for {self.what} for {self.seconds:g} s, without success. So far:\n{self.known}"


class StillRunning(ClusterkitError):
    """The run has no result yet."""

    __module__ = "clusterkit"
