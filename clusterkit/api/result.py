"""The result of a run, which includes the return values of a function, and exceptions that contain a result."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from html import escape
from pathlib import Path
from typing import Any, Self

from clusterkit.ledger.takeover import account_of
from clusterkit.store.directory import RunDirectory
from clusterkit.text.printable import printable_lines
from clusterkit.words.account import Account, Goodput, InjectedFault, Recovery, Startup, Straggler
from clusterkit.words.errors import ClusterkitError
from clusterkit.words.outcome import RunResult, RunState


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Result(RunResult):
    """The result of a run. `returns` maps a task such as `worker:0` to the function's return value in that task.

    `recoveries` are the failures and restarts, sorted by time; `faults` are the injected faults; `goodput` shows how
    the run's time was spent; `startup` shows how the time until the first step was spent; `stragglers` are the tasks
    that were slower than their peers.
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
        """Return the HTML that a notebook shows: the report."""
        return preformatted(self.report())

    @property
    def ok(self) -> bool:
        """True if the job succeeded, even if not as it was asked to (see `reservations`)."""
        return self.state is RunState.SUCCEEDED

    @classmethod
    def of(cls, result: RunResult, run: RunDirectory, returns: Mapping[str, Any]) -> Self:
        known = {field.name: getattr(result, field.name) for field in fields(result)}
        told = account_of(run)
        account = {field.name: getattr(told, field.name) for field in fields(told)}
        return cls(**known, **account, directory=run.path, returns=returns)

    def report(self) -> str:
        """Return the report that `up` prints at the end. If the run failed, it begins with the cause and its log."""
        from clusterkit.views.report import report  # imported here, since few programs call this method

        recovered = Account(self.recoveries, self.faults, self.goodput, self.startup, self.stragglers)
        return report(self, RunDirectory(self.directory), color=False, recovered=recovered).rstrip("\n")


def preformatted(text: str) -> str:
    """Return the text as HTML with the same line breaks and spaces."""
    return f"<pre>{escape(printable_lines(text))}</pre>"


def read_result(run: RunDirectory, exit_code: int) -> RunResult:
    """Return a run's result; a failure if supervisor and guardian were killed before they could write a result."""
    left_none = RunResult(RunState.FAILED, exit_code, f"the run ended with code {exit_code} and left no result")
    return run.result() or left_none


class RunEnded(ClusterkitError):
    """The run ended before a request reached it, or before an awaited event. `result` is the run's result."""

    __module__ = "clusterkit"

    def __init__(self, what: str, result: Result) -> None:
        super().__init__(what, result)
        self.what = what
        self.result = result

    def __str__(self) -> str:
        return f"{self.what}\n{self.result.report()}"


class ClusterFailed(RunEnded):
    """The job failed or exceeded its `timeout`. `result` is the run's result."""

    __module__ = "clusterkit"


class WaitTimeout(ClusterkitError, TimeoutError):
    """The awaited event did not happen in time; the run continues. `known` describes each task in one line."""

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
