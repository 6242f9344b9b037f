"""The options of a job, for the command line, job files and Python.

Options about hosts are in engines/options.py. The docstrings of the option groups are the headings of `up --help`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Literal, Protocol, TypedDict


class PathLike(Protocol):
    """An object that represents a path, such as a pathlib.Path."""

    def __fspath__(self) -> str: ...


Path = str | PathLike
Duration = float | str  # a number of seconds, or a text such as "1m30s"


@dataclass(frozen=True, slots=True)
class Option:
    """The properties of an option, besides its name and type, for the command line, job files and the Python API.

    `field` is the field of JobSpec that the option sets, such as `limits.grace`. The help shows the default of that
    field, or `default` if given. `least` and `most` are the bounds of a number. `in_file` is True if job files may
    contain the option. `hidden` is True if the help does not show the option, since only other commands use it.
    """

    help: str
    field: str = ""
    metavar: str | None = None
    default: str = ""
    least: int = 0
    most: int | None = None
    short: str = ""
    in_file: bool = True
    hidden: bool = False


class ShapeOptions(TypedDict, total=False):
    """Tasks"""

    file: Annotated[
        Path, Option("Read the job from a file; flags override it.", metavar="JOB.TOML", short="-f", in_file=False)
    ]
    module: Annotated[str, Option("Run a module, as `python -m NAME`, instead of PROGRAM.", metavar="NAME", short="-m")]
    workers: Annotated[int, Option("How many workers.", default="1 if no task is requested")]
    ps: Annotated[int, Option("How many parameter servers; adds a chief (coordinator).")]
    chief: Annotated[bool, Option("A chief in addition to the workers. Without one, worker:0 is the chief.")]
    evaluator: Annotated[bool, Option("An evaluator in addition to the training tasks.")]


class ProcessOptions(TypedDict, total=False):
    """Processes"""

    env: Annotated[Mapping[str, object], Option("A variable for every task; NAME alone keeps its value.", "setup.env")]
    show_env: Annotated[bool, Option("Show the values of these variables in files, reports and pages.", "show_env")]
    cwd: Annotated[Path, Option("The directory in which the tasks run.", "setup.cwd", "DIR")]
    python: Annotated[Path, Option("The tasks' interpreter.", "setup.python", "PATH", "clusterkit's own")]
    start: Annotated[
        Literal["auto", "warm", "cold"],
        Option(
            "warm: fork tasks from a process that has imported TensorFlow; cold: do not fork; auto: fork if safe.",
            "start",
        ),
    ]
    preload: Annotated[Sequence[str], Option("Another module to import before tasks are forked.", "preload", "MODULE")]


class RestartOptions(TypedDict, total=False):
    """Restarts"""

    restart: Annotated[
        Literal["never", "on-failure", "always"], Option("When to restart a task that has ended.", "restart.policy")
    ]
    restart_budget: Annotated[int, Option("Number of restarts before the job fails.", "restart.budget")]
    restart_backoff: Annotated[
        Duration,
        Option(
            "The wait before a restart, doubled each time. After progress, the first restart does not wait.",
            "restart.backoff",
        ),
    ]
    restart_backoff_max: Annotated[Duration, Option("The longest wait before a restart.", "restart.backoff_max")]
    restart_scope: Annotated[
        Literal["auto", "task", "job"],
        Option("Which tasks restart together; auto: as the strategy requires.", "restart.scope"),
    ]
    watch: Annotated[bool, Option("Restart all tasks when the program or one of its own modules changes.", "watch")]
    watch_fresh: Annotated[bool, Option("The same, but train from step 0 again.", "watch_fresh")]
    min_workers: Annotated[
        int,
        Option(
            "Continue with at least N workers when others are lost for good.",
            "restart.min_workers",
            default="the job fails",
            least=1,
        ),
    ]


class TimeOptions(TypedDict, total=False):
    """Time limits"""

    grace_period: Annotated[Duration, Option("The time from SIGTERM to SIGKILL.", "limits.grace")]
    startup_timeout: Annotated[Duration, Option("The time for all tasks to connect; 0: no limit.", "limits.startup")]
    stall_warning: Annotated[
        Duration, Option("The time without progress before a warning; 0: no warning.", "limits.stall_warning")
    ]
    stall_timeout: Annotated[
        Duration, Option("The time without progress before the stuck task is killed.", "limits.stall")
    ]
    timeout: Annotated[Duration, Option("The time limit for the whole job; then exit code 124.", "limits.job")]


class RunOptions(TypedDict, total=False):
    """Run and checkpoints"""

    run_id: Annotated[str, Option("A name for the run.", metavar="ID", default="from the time", in_file=False)]
    checkpoint_dir: Annotated[
        Path, Option("Where the job saves its checkpoints.", "checkpoint_dir", "DIR", "in the run directory")
    ]
    resume: Annotated[str, Option("Begin a new run from an earlier run's checkpoints.", "resume", "RUN")]


class FaultOptions(TypedDict, total=False):
    """Faults and network"""

    fault: Annotated[str | Sequence[str], Option("Break something: 'kill worker:1 @ step=100'.", metavar="FAULT")]
    seed: Annotated[
        int, Option("The seed for all random choices; the same seed repeats a run's faults.", "seed", most=2**64 - 1)
    ]
    network: Annotated[
        Literal["host", "virtual"],
        Option("host: loopback; virtual: an address for each task, and a network that can be broken.", "network"),
    ]
    pcap: Annotated[Path, Option("Write the virtual network's packets to this file.", "pcap", "FILE")]


class LibraryOptions(TypedDict, total=False):
    """TensorFlow and Keras"""

    convention: Annotated[
        Literal["tensorflow", "keras", "jax"],
        Option("keras, jax: also set the variables that Keras on JAX, or JAX, reads.", "convention"),
    ]
    tf_config: Annotated[
        Literal["program", "ours", "always"],
        Option(
            "Whose TF_CONFIG the tasks use if the program sets its own. always: as program, and also for one worker.",
            "tf_config",
        ),
    ]
    servers: Annotated[
        Literal["program", "builtin"],
        Option(
            "What workers and ps of a parameter-server job run: the program, or clusterkit's own server.", "servers"
        ),
    ]
    keras: Annotated[Literal[2, 3], Option("The version of Keras behind tf.keras.", "keras", default="TensorFlow's, 3")]
    allow: Annotated[
        Sequence[str],
        Option(
            "Exit with code 0, not 3, although tasks train alone, a worker has not finished, the loss is NaN …",
            "allow",
            "alone|unfinished|nan|faults|verify|unsaved",
        ),
    ]
    verify: Annotated[
        bool | int | str,
        Option(
            "Before the job, compare its first 5 or N steps with those of one process; required: start only if equal.",
            "verify",
            "[N|required|required:N]",
        ),
    ]
    check: Annotated[
        bool, Option("Refuse a program with a line at which every run fails, before anything starts.", field="check")
    ]
    patches: Annotated[bool, Option("Patch Keras where it fails or is wrong on several workers.", field="patches")]


class DeviceOptions(TypedDict, total=False):
    """Cores and GPUs"""

    cpus_per_task: Annotated[int, Option("Pin each task to N cores of its own.", "devices.cpus", least=1)]
    gpus_per_task: Annotated[int, Option("Give each training task N GPUs.", "devices.gpus")]


class DebugOptions(TypedDict, total=False):
    """Debugging"""

    breakpoints: Annotated[
        Literal["auto", "hold", "skip"],
        Option(
            "Whether a task waits at breakpoint() for `clusterkit debug`; auto: if `up` runs on a terminal.",
            "debug.breakpoints",
        ),
    ]
    pdb: Annotated[bool, Option("Hold a task that raises an exception, for `clusterkit debug`.", "debug.post_mortem")]
    debugpy: Annotated[
        Sequence[str], Option("Run debugpy in this task, for an editor.", "debug.editors", "TASK[=PORT]")
    ]
    debugpy_wait: Annotated[bool, Option("With --debugpy: start the program once an editor is attached.", "debug.wait")]


class ProgressOptions(TypedDict, total=False):
    """Progress"""

    dashboard: Annotated[bool, Option("Serve a page that shows the run in a browser.", "dashboard")]
    dashboard_control: Annotated[bool, Option("The same, and the page can control the run.", "dashboard_control")]
    tensorboard: Annotated[bool, Option("Run TensorBoard during the job.", "tensorboard")]
    progress_regex: Annotated[
        str, Option("Finds the step in the log if the program reports no steps.", "progress_regex", "RE")
    ]
    part_of: Annotated[
        str, Option("The campaign or exam to which the run belongs.", "part_of", "KIND/NAME", hidden=True)
    ]
    every_step: Annotated[
        bool, Option("Have the tasks report each step at once, not in batches.", "every_step", hidden=True)
    ]
    record: Annotated[
        str, Option("Record what the tasks have computed after these steps.", "record", "STEPS", hidden=True)
    ]


class HookOptions(TypedDict, total=False):
    """Hooks"""

    on_failure: Annotated[
        str, Option("Run when a task has failed, with the event as JSON on standard input.", "hooks.failure", "COMMAND")
    ]
    on_recovery: Annotated[str, Option("Run when the run has recovered from a failure.", "hooks.recovery", "COMMAND")]
    on_stall: Annotated[str, Option("Run when training has stalled.", "hooks.stall", "COMMAND")]
    on_end: Annotated[str, Option("Run when the run has ended.", "hooks.end", "COMMAND")]


class TaskOptions(TypedDict, total=False):
    """The options that can differ for one task type: `[task.worker]` of a job file."""

    env: Mapping[str, object]
    cwd: Path
    args: Sequence[str]
    python: Path
