"""Where a run keeps its files: the one place that knows their names."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import PurePath
from typing import Generic, TypeVar

from clusterkit.words.model import Task

P_co = TypeVar("P_co", bound=PurePath, covariant=True)


@dataclass(frozen=True)
class Paths(Generic[P_co]):
    """The files of a run. `checkpoint_dir` is where the job keeps its checkpoints elsewhere."""

    path: P_co
    checkpoint_dir: P_co | None = None

    @property
    def run_id(self) -> str:
        """The directory's name."""
        return self.path.name

    @property
    def checkpoints(self) -> P_co:
        """Where programs put their checkpoints."""
        return self.checkpoint_dir or self.path / "checkpoints"

    @property
    def job_file(self) -> P_co:
        """What was asked for."""
        return self.path / "job.json"

    @property
    def result_file(self) -> P_co:
        """How the run ended."""
        return self.path / "result.json"

    @property
    def journal(self) -> P_co:
        """Everything that happened and was decided, an event a line."""
        return self.path / "journal.jsonl"

    @property
    def lock_file(self) -> P_co:
        """Held by the supervisor for as long as the run is live."""
        return self.path / "lock"

    @property
    def console(self) -> P_co:
        """What a run in the background printed."""
        return self.path / "console.log"

    @property
    def control_socket(self) -> P_co:
        """Where the supervisor takes requests, unless that path is too long for a socket."""
        return self.path / "control.sock"

    @property
    def control_path(self) -> P_co:
        """Names the place of a control socket that is elsewhere."""
        return self.path / "control.path"

    @property
    def tensorboard(self) -> P_co:
        """The directory that TensorBoard shows."""
        return self.path / "tensorboard"

    @property
    def all_stacks(self) -> P_co:
        """The directory of stack dumps and of reports about tasks that hang."""
        return self.path / "stacks"

    @property
    def all_tasks(self) -> P_co:
        """The directory of the tasks' own directories."""
        return self.path / "tasks"

    @property
    def arrivals(self) -> P_co:
        """When which part of which log was written."""
        return self.all_tasks / "arrivals"

    def of_task(self, task: Task) -> P_co:
        """The directory of a task's logs and pipes."""
        return self.all_tasks / str(task)

    def log(self, task: Task, attempt: int) -> P_co:
        """The exact bytes that the attempt wrote."""
        return self.of_task(task) / f"attempt-{attempt}.log"

    def progress(self, task: Task) -> P_co:
        """The named pipe through which the task reports its steps."""
        return self.of_task(task) / "progress"

    def requests(self, task: Task) -> P_co:
        """The named pipe through which the task is asked for something, such as a profile."""
        return self.of_task(task) / "requests"

    def stacks(self, task: Task, attempt: int) -> P_co:
        """Where the attempt's stack dumps go."""
        return self.all_stacks / f"{task}.attempt-{attempt}.txt"


RunPaths = Paths[PurePath]
