"""What the API raises. Bad input is `BadJob`, as everywhere; these are about runs that were started."""

from __future__ import annotations

from clusterkit.api.result import Result
from clusterkit.words.errors import ClusterkitError


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
