"""What a run came to, with what its functions returned."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, Self

from clusterkit.client.store import RESULT, read_json, result_from
from clusterkit.recovery.reading import report_of
from clusterkit.words.outcome import RunResult, RunState
from clusterkit.words.recovery import InjectedFault, Recovery, RecoveryReport


@dataclass(frozen=True, slots=True, kw_only=True)
class Result(RunResult):
    """The end of a run. `returns` maps `worker:0` to what the function returned in that task.

    `recoveries` are its failures and restarts in the order of time, `faults` what was broken on purpose.
    """

    directory: Path
    returns: Mapping[str, Any]
    recoveries: tuple[Recovery, ...] = ()
    faults: tuple[InjectedFault, ...] = ()

    @property
    def ok(self) -> bool:
        """Whether the job succeeded. That also holds where a fault was never injected: see `not_injected`."""
        return self.state is RunState.SUCCEEDED

    @classmethod
    def of(cls, run: RunResult, directory: Path, returns: Mapping[str, Any]) -> Self:
        """The result of a run in its directory."""
        known = {field.name: getattr(run, field.name) for field in fields(run)}
        told = report_of(directory)
        return cls(**known, directory=directory, returns=returns, recoveries=told.recoveries, faults=told.faults)

    def report(self) -> str:
        """The report that `up` prints at the end: the cause first, with the end of its log."""
        from clusterkit.views.report import report  # only a run that is told of needs it

        recovered = RecoveryReport(self.recoveries, self.faults)
        return report(self, self.directory, color=False, recovered=recovered).rstrip("\n")


def read_result(directory: Path, exit_code: int) -> RunResult:
    """result.json; what can be said without it where supervisor and guardian were killed before it was written."""
    unknown = f"the run ended with code {exit_code} and left no result"
    otherwise = {"state": RunState.FAILED.value, "exit_code": exit_code, "reason": unknown}
    result = result_from(read_json(directory / RESULT)) or result_from(otherwise)
    assert result is not None
    return result
