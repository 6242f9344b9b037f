"""The names of a run's files. No other module builds these paths."""

from __future__ import annotations

from pathlib import PurePath
from typing import Generic, TypeVar

from clusterkit.words.model import Task

# The variable that names a state directory which is trusted whoever owns it, such as a volume of a container.
TRUSTED_HOME = "CLUSTERKIT_TRUSTED_HOME"
P_co = TypeVar("P_co", bound=PurePath, covariant=True)


class Paths(Generic[P_co]):
    """The paths of a run's files. Checkpoints are in `checkpoint_dir` or, if that is None, below `path`."""

    def __init__(self, path: P_co, checkpoint_dir: P_co | None = None) -> None:
        self.path = path
        self.run_id = path.name
        self.checkpoints = checkpoint_dir or path / "checkpoints"
        self.submitted = path.parent.parent / "submitted" / path.name  # files submitted to an engine's queue
        self.job_file = path / "job.json"  # the job, with the run's seed and endpoints
        self.result_file = path / "result.json"  # how the run ended
        self.reserve = path / "reserve"  # a file that is deleted to make room for result.json if the disk is full
        self.journal = path / "journal.jsonl"  # all events of the run, including decisions, one per line
        self.lock_file = path / "lock"  # held by the supervisor as long as the run is live
        self.console = path / "console.log"  # the output of a run in the background
        self.control_socket = path / "control.sock"
        self.agents_key = path / "agents.pem"  # the key by which agents and the supervisor authenticate each other
        self.tensorboard = path / "tensorboard"  # TensorBoard's log directory
        self.dashboard = path / "dashboard"  # the address of the run's dashboard, with its token
        self.hooks_log = path / "hooks.log"  # the output of hooks, such as the command of --on-failure
        self.all_stacks = path / "stacks"  # stack dumps, and reports about tasks that hang
        self.recorded = path / "recorded"  # values computed by the tasks, recorded for an exam
        self.examined = path / "exam.json"  # the cells of an exam that were judged by this run
        self.all_tasks = path / "tasks"
        self.usage = path / "usage.jsonl"  # samples of the CPU, memory and GPUs that the tasks use
        self.arrivals = self.all_tasks / "arrivals"  # the times at which parts of the logs were written

    def of_task(self, task: Task) -> P_co:
        return self.all_tasks / str(task)

    def log(self, task: Task, attempt: int) -> P_co:
        """Return the path of the file with the attempt's output, byte for byte."""
        return self.of_task(task) / f"attempt-{attempt}.log"

    def progress(self, task: Task) -> P_co:
        """Return the path of the named pipe through which the task reports its steps."""
        return self.of_task(task) / "progress"

    def requests(self, task: Task) -> P_co:
        """Return the path of the named pipe through which the task gets requests, such as for a profile."""
        return self.of_task(task) / "requests"

    def debugger(self, task: Task) -> P_co:
        """Return the path of the socket on which the task listens while it is stopped in the debugger."""
        return self.of_task(task) / "debugger.sock"

    def stacks(self, task: Task, attempt: int) -> P_co:
        """Return the path of the file with the attempt's stack dumps."""
        return self.all_stacks / f"{task}.attempt-{attempt}.txt"


RunPaths = Paths[PurePath]
