"""Where a run keeps its files: the one place that knows their names."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import PurePosixPath

from clusterkit.words.model import Task


@dataclass(frozen=True, slots=True)
class RunPaths:
    """Where a run keeps its things."""

    root: PurePosixPath
    run_id: str
    checkpoints: PurePosixPath

    def log(self, task: Task, attempt: int) -> PurePosixPath:
        """The exact bytes that the attempt wrote."""
        return self.root / "tasks" / str(task) / f"attempt-{attempt}.log"

    @property
    def arrivals(self) -> PurePosixPath:
        """When which part of which log was written."""
        return self.root / "tasks" / "arrivals"

    def progress(self, task: Task) -> PurePosixPath:
        """The named pipe through which the task reports its steps."""
        return self.root / "tasks" / str(task) / "progress"

    def requests(self, task: Task) -> PurePosixPath:
        """The named pipe through which the task is asked for something, such as a profile."""
        return self.root / "tasks" / str(task) / "requests"

    def stacks(self, task: Task, attempt: int) -> PurePosixPath:
        """Where the attempt's stack dumps go."""
        return self.root / "stacks" / f"{task}.attempt-{attempt}.txt"
