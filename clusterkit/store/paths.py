"""The names of a run's files; no other module knows them."""

from __future__ import annotations

from pathlib import PurePath
from typing import Generic, TypeVar

from clusterkit.words.model import Task

P_co = TypeVar("P_co", bound=PurePath, covariant=True)


class Paths(Generic[P_co]):
    """The files of a run. The job keeps its checkpoints in `checkpoint_dir`, or below `path`."""

    def __init__(self, path: P_co, checkpoint_dir: P_co | None = None) -> None:
        self.path = path
        self.run_id = path.name
        self.checkpoints = checkpoint_dir or path / "checkpoints"
        self.submitted = path.parent.parent / "submitted" / path.name  # what a queue got
        self.job_file = path / "job.json"  # what was asked for
        self.result_file = path / "result.json"  # how the run ended
        self.reserve = path / "reserve"  # takes the room that result.json needs when the disk is full
        self.journal = path / "journal.jsonl"  # everything that happened and was decided, an event a line
        self.lock_file = path / "lock"  # held by the supervisor as long as the run is live
        self.console = path / "console.log"  # what a run in the background printed
        self.control_socket = path / "control.sock"
        self.control_path = path / "control.path"  # names the control socket, where that path is too long for one
        self.agents_key = path / "agents.pem"  # with which agents and supervisor prove themselves to each other
        self.tensorboard = path / "tensorboard"  # what TensorBoard shows
        self.dashboard = path / "dashboard"  # the address of the run's dashboard, with its token
        self.hooks_log = path / "hooks.log"  # what the commands of --on-failure and the like wrote
        self.all_stacks = path / "stacks"  # stack dumps, and reports about tasks that hang
        self.recorded = path / "recorded"  # what the tasks of an exam have computed
        self.all_tasks = path / "tasks"
        self.usage = path / "usage.jsonl"  # what the tasks have used of the machine
        self.arrivals = self.all_tasks / "arrivals"  # when which part of which log was written

    def of_task(self, task: Task) -> P_co:
        return self.all_tasks / str(task)

    def log(self, task: Task, attempt: int) -> P_co:
        """The file with the exact bytes that the attempt wrote."""
        return self.of_task(task) / f"attempt-{attempt}.log"

    def progress(self, task: Task) -> P_co:
        """The named pipe through which the task reports its steps."""
        return self.of_task(task) / "progress"

    def requests(self, task: Task) -> P_co:
        """The named pipe through which the task gets requests, such as for a profile."""
        return self.of_task(task) / "requests"

    def debugger(self, task: Task) -> P_co:
        """The socket on which the task listens while it is held for the debugger."""
        return self.of_task(task) / "debugger.sock"

    def stacks(self, task: Task, attempt: int) -> P_co:
        """The file with the attempt's stack dumps."""
        return self.all_stacks / f"{task}.attempt-{attempt}.txt"


RunPaths = Paths[PurePath]
