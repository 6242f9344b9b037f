"""The job: the options that a user can give, and the frozen values they become. A new option is added here."""

from __future__ import annotations

import enum
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from types import MappingProxyType
from typing import Annotated, Literal, Protocol, TypedDict

from clusterkit.words.faults import Fault
from clusterkit.words.model import TYPE_ORDER, Program, Shape, Task, TaskType
from clusterkit.words.resources import Devices, Hosts, Network


class PathLike(Protocol):
    """An object that stands for a path, such as a pathlib.Path."""

    def __fspath__(self) -> str: ...


Path = str | PathLike
Duration = float | str  # seconds, or "1m30s"


@dataclass(frozen=True, slots=True)
class Option:
    """What the command line, job files and the Python API need to know of an option beside its name and type.

    `field` is where its value goes in JobSpec, `limits.grace` for example; the help shows the default of that field, or
    `default` instead. `least` and `most` are the bounds of a number. `in_file`: it is a key of job files, too.
    """

    help: str
    field: str = ""
    metavar: str | None = None
    default: str = ""
    least: int = 0
    most: int | None = None
    short: str = ""
    in_file: bool = True


class Options(TypedDict, total=False):
    """What a job is, apart from its program: the flags of `clusterkit up`, under the same names."""

    file: Annotated[
        Path, Option("Read the job from a file; flags override it.", metavar="JOB.TOML", short="-f", in_file=False)
    ]
    module: Annotated[str, Option("Run a module, as `python -m NAME`, instead of PROGRAM.", metavar="NAME", short="-m")]
    workers: Annotated[int, Option("Worker tasks.", default="1, if no task is asked for")]
    ps: Annotated[int, Option("Parameter servers. They add a chief, the coordinator.")]
    chief: Annotated[bool, Option("A chief beside the workers. Without one, worker:0 is the chief.")]
    evaluator: Annotated[bool, Option("An evaluator beside the training tasks.")]
    env: Annotated[Mapping[str, object], Option("A variable for every task; NAME alone passes yours on.", "setup.env")]
    cwd: Annotated[Path, Option("The directory in which the tasks run.", "setup.cwd", "DIR")]
    python: Annotated[Path, Option("The interpreter of the tasks.", "setup.python", "PATH", "clusterkit's own")]
    start: Annotated[
        Literal["auto", "warm", "cold"],
        Option(
            "Fork tasks from a process that has imported TensorFlow (warm), where it is safe (auto), or not.", "start"
        ),
    ]
    preload: Annotated[Sequence[str], Option("A module that warm starts have imported, too.", "preload", "MODULE")]
    restart: Annotated[
        Literal["never", "on-failure", "always"], Option("When a task that ended is restarted.", "restart.policy")
    ]
    restart_budget: Annotated[int, Option("Restarts before the job fails.", "restart.budget")]
    restart_backoff: Annotated[
        Duration, Option("The wait before the first restart. It doubles each time.", "restart.backoff")
    ]
    restart_backoff_max: Annotated[Duration, Option("The longest wait before a restart.", "restart.backoff_max")]
    restart_scope: Annotated[
        Literal["auto", "task", "job"],
        Option("Which tasks restart together; auto: what the strategy needs.", "restart.scope"),
    ]
    grace_period: Annotated[Duration, Option("The time from SIGTERM to SIGKILL.", "limits.grace")]
    startup_timeout: Annotated[
        Duration, Option("The time for all tasks to be connected; 0: no limit.", "limits.startup")
    ]
    stall_warning: Annotated[
        Duration, Option("The time without progress before a warning; 0: none.", "limits.stall_warning")
    ]
    stall_timeout: Annotated[
        Duration, Option("The time without progress before the stuck task is killed.", "limits.stall")
    ]
    timeout: Annotated[Duration, Option("The time for the whole job; then exit code 124.", "limits.job")]
    run_id: Annotated[str, Option("A name for the run.", metavar="ID", default="from the time", in_file=False)]
    checkpoint_dir: Annotated[
        Path, Option("Where the job saves its checkpoints.", "checkpoint_dir", "DIR", "in the run directory")
    ]
    resume: Annotated[str, Option("Continue from the checkpoints of an earlier run.", "resume", "RUN")]
    fault: Annotated[str | Sequence[str], Option("Break something: 'kill worker:1 @ step=100'.", metavar="FAULT")]
    seed: Annotated[int, Option("The seed of what is random; replays a run.", "seed", most=2**64 - 1)]
    network: Annotated[
        Literal["host", "virtual"],
        Option("host: loopback; virtual: an address for each task, and a network that can be broken.", "network"),
    ]
    pcap: Annotated[Path, Option("Write the packets of the virtual network to this file.", "pcap", "FILE")]
    tf_config: Annotated[
        Literal["program", "ours"], Option("Whose TF_CONFIG the tasks use if the program sets its own.", "tf_config")
    ]
    servers: Annotated[
        Literal["program", "builtin"],
        Option(
            "What workers and ps of a parameter-server job run: the program, or clusterkit's own server.", "servers"
        ),
    ]
    keras: Annotated[Literal[2, 3], Option("The version of Keras behind tf.keras.", "keras", default="TensorFlow's, 3")]
    patches: Annotated[bool, Option("Patch Keras where it fails or is wrong on several workers.", field="patches")]
    cpus_per_task: Annotated[int, Option("Cores of its own that each task is pinned to.", "devices.cpus", least=1)]
    gpus_per_task: Annotated[int, Option("GPUs that each training task gets.", "devices.gpus")]
    engine: Annotated[
        Literal["local", "slurm", "agents"],
        Option("What starts the agents: this machine, Slurm, or somebody else.", "hosts.engine"),
    ]
    hosts: Annotated[int, Option("Hosts to place the tasks on.", "hosts.count", default="none: this machine")]
    spare_hosts: Annotated[int, Option("Hosts beside those, for when one is lost.", "hosts.spare")]
    place: Annotated[
        Sequence[str], Option("Tasks of one type, or one, on a host: ps=host0.", "hosts.place", "TASK=HOST")
    ]
    interface: Annotated[str, Option("The network interface over which tasks connect.", "hosts.interface", "NAME")]
    agent_timeout: Annotated[
        Duration, Option("The time for which a host may be cut off before it is counted as lost.", "hosts.timeout")
    ]
    listen: Annotated[str, Option("Where the supervisor waits for agents.", "hosts.listen", "ADDRESS[:PORT]")]
    agent_key: Annotated[Path, Option("The run's key, if it is not to be made.", "hosts.key", "FILE")]
    time: Annotated[Duration, Option("The time limit of Slurm's job.", "hosts.time", default="the partition's")]
    partition: Annotated[str, Option("Slurm's partition.", "hosts.partition", "NAME", "Slurm's default")]
    sbatch_arg: Annotated[Sequence[str], Option("Another option of sbatch.", "hosts.sbatch_args", "--NAME=VALUE")]
    tensorboard: Annotated[bool, Option("Run TensorBoard beside the job.", "tensorboard")]
    progress_regex: Annotated[
        str, Option("Finds the step in the log, for programs that report none.", "progress_regex", "RE")
    ]


class TaskOptions(TypedDict, total=False):
    """What is different for one task type: `[task.worker]` of a job file."""

    env: Mapping[str, object]
    cwd: Path
    args: Sequence[str]
    python: Path


class JobOptions(Options, total=False):
    """Everything that a command line or a job file can say about a job."""

    program: Path
    args: Sequence[str]
    task: Mapping[TaskType, TaskOptions]


@dataclass(frozen=True, slots=True)
class Setup:
    """Environment additions, directory, arguments and interpreter; None means: as the job has it."""

    env: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    cwd: str | None = None
    args: tuple[str, ...] | None = None
    python: str | None = None


class RestartPolicy(enum.StrEnum):
    """When a task that ended is started again."""

    NEVER = "never"
    ON_FAILURE = "on-failure"
    ALWAYS = "always"


class RestartScope(enum.StrEnum):
    """Which tasks restart together; `auto` asks the shape."""

    AUTO = "auto"
    TASK = "task"
    JOB = "job"


class StartMode(enum.StrEnum):
    """How attempts start: forked from a process that has imported TensorFlow, or with a fresh interpreter."""

    AUTO = "auto"  # forked where that is the same to the task
    WARM = "warm"  # also where the program does not seem to import TensorFlow
    COLD = "cold"


class TfConfig(enum.StrEnum):
    """Whose TF_CONFIG a task uses."""

    PROGRAM = "program"  # the program's, if it sets one, as many tutorials do
    OURS = "ours"  # clusterkit's, whatever the program sets


class Servers(enum.StrEnum):
    """What the workers and parameter servers of a parameter-server job run."""

    PROGRAM = "program"  # the program, which has to find out that it is to serve
    BUILTIN = "builtin"  # clusterkit's own server; the program is the coordinator's code alone


@dataclass(frozen=True, slots=True)
class RestartRules:
    """Restart policy, budget and backoff. Times in seconds."""

    policy: RestartPolicy = RestartPolicy.ON_FAILURE
    budget: int = 3
    backoff: float = 1.0
    backoff_max: float = 30.0
    scope: RestartScope = RestartScope.AUTO
    forgive_after: float = 600.0  # seconds of progress since the last restart after which the budget is full again


@dataclass(frozen=True, slots=True)
class Limits:
    """How long things may take, in seconds; 0 switches the optional ones off."""

    grace: float = 10.0
    finish: float = 10.0  # what the other training tasks get, in total, after the chief's success
    servers: float = 3.0  # the same for servers, which never return from TensorFlow's `Server.join()`
    collateral: float = 1.0
    evaluator: float = 30.0  # what the evaluator gets for the last checkpoint after the chief's success
    startup: float = 120.0
    stall_warning: float = 60.0
    stall: float = 0.0
    job: float = 0.0
    drain: float = 2.0  # what a task's output gets to reach its end once every process of the task is gone


@dataclass(frozen=True)  # no slots: what follows from the counts is worked out once, and every event asks for it
class JobSpec:
    """What the user asked to run: a program and how many tasks of each type."""

    program: Program
    counts: Mapping[TaskType, int]
    setup: Setup = Setup()
    setups: Mapping[TaskType, Setup] = field(default_factory=lambda: MappingProxyType({}))
    restart: RestartRules = RestartRules()
    limits: Limits = Limits()
    checkpoint_dir: str | None = None
    resume: str | None = None
    progress_regex: str | None = None
    start: StartMode = StartMode.AUTO
    preload: tuple[str, ...] = ()
    network: Network = Network.HOST
    tf_config: TfConfig = TfConfig.PROGRAM
    servers: Servers = Servers.PROGRAM
    keras: int | None = None  # the major version that `tf.keras` is; None: TensorFlow's default
    patches: bool = True  # whether Keras is patched where it fails or is wrong on several workers
    devices: Devices = field(default_factory=Devices)
    hosts: Hosts = field(default_factory=Hosts)
    tensorboard: bool = False  # whether TensorBoard runs beside the job
    pcap: str | None = None  # where the packets of the virtual network are written to
    faults: tuple[Fault, ...] = ()
    seed: int | None = None  # of everything that is random in the run; None: drawn when it begins

    @property
    def every_setup(self) -> dict[str, Setup]:
        """Every setup by its place in a job file: "" for the job's own, `task.worker.` for that of the workers."""
        return {"": self.setup, **{f"task.{kind}.": setup for kind, setup in self.setups.items()}}

    @cached_property
    def tasks(self) -> tuple[Task, ...]:
        """Every task, chief first."""
        return tuple(Task(kind, index) for kind in TYPE_ORDER for index in range(self.counts.get(kind, 0)))

    @cached_property
    def training(self) -> tuple[Task, ...]:
        """Tasks that train or coordinate: all but ps and evaluator."""
        return tuple(task for task in self.tasks if task.trains)

    @cached_property
    def cluster(self) -> frozenset[Task]:
        """All tasks but the evaluator, which is not part of the cluster."""
        return frozenset(task for task in self.tasks if task.type is not TaskType.EVALUATOR)

    @property
    def shape(self) -> Shape:
        """The strategy that the counts imply."""
        if self.counts.get(TaskType.PS, 0):
            return Shape.PARAMETER_SERVER
        return Shape.MULTI_WORKER if len(self.training) > 1 else Shape.SINGLE

    @property
    def leader(self) -> Task:
        """The chief, or worker:0, which TensorFlow takes as chief where there is none."""
        return self.training[0]

    def is_server(self, task: Task) -> bool:
        """Whether the task only serves: it never returns from TensorFlow's `Server.join()`."""
        return self.shape is Shape.PARAMETER_SERVER and task.type in (TaskType.PS, TaskType.WORKER)
