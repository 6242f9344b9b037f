"""The job and its resources: frozen values, which the options of words/options.py become."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from types import MappingProxyType
from typing import Any

from clusterkit.words.faults import Fault
from clusterkit.words.model import TYPE_ORDER, Program, Shape, Task, TaskType, number_of


class Network(enum.StrEnum):
    """The network between the tasks."""

    HOST = "host"  # this machine's loopback
    VIRTUAL = "virtual"  # each task has a network namespace and an address of its own


@dataclass(frozen=True, slots=True)
class Devices:
    """Each task's share of this machine, None for everything; and the available cores and GPUs."""

    cpus: int | None = None
    gpus: int | None = None
    cores: tuple[int, ...] = ()  # by number; found where `cpus` is given
    names: tuple[str, ...] = ()  # of GPUs, as CUDA_VISIBLE_DEVICES has them; found where `gpus` is given


@dataclass(frozen=True, slots=True)
class HostRequest:
    """The hosts of a job. Without any, its tasks are processes of this machine."""

    engine: str = "local"  # its name in engines/options.py; "local": this machine, with stand-ins for hosts
    count: int = 0
    spare: int = 0  # hosts beside `count` on which no task is placed as long as no other host is lost
    place: tuple[str, ...] = ()  # rules, such as `ps=host0`
    interface: str | None = None  # whose address other tasks connect to; None: the one that leads to the supervisor
    timeout: float = 30.0  # seconds for which a host may be cut off before it is counted as lost
    listen: str | None = None  # the address, with or without a port, where agents connect; None: as the engine needs
    key: str | None = None  # the file with the run's key, if somebody else has made it
    settings: Mapping[str, Any] = field(default_factory=dict)  # the options that this engine alone has, as given


class Breakpoints(enum.StrEnum):
    """What `breakpoint()` and `pdb.set_trace()` do in a task."""

    AUTO = "auto"  # as HOLD where `up` runs on a terminal, else as SKIP
    HOLD = "hold"  # the task waits for `clusterkit debug`
    SKIP = "skip"  # the task says that nobody can connect, and continues


@dataclass(frozen=True, slots=True)
class Debugging:
    """How tasks are debugged. `post_mortem`, from `--pdb`: a task that raises is held.

    `editors` are the tasks that run debugpy, each as `TASK` or `TASK=PORT`; if they `wait`, the program begins when an
    editor has connected.
    """

    breakpoints: Breakpoints = Breakpoints.AUTO
    post_mortem: bool = False
    editors: tuple[str, ...] = ()
    wait: bool = False

    def editor_port(self, task: Task) -> int | None:
        """The port at which debugpy listens in the task, 0 for a free or an invalid one; None if it runs none."""
        for text in self.editors:
            name, _, port = text.partition("=")
            if name in (str(task), str(task.type)):
                return int(port) if port.isascii() and port.isdecimal() else 0
        return None


class Hook(enum.StrEnum):
    """When a command of the user runs."""

    FAILURE = "failure"
    RECOVERY = "recovery"
    STALL = "stall"
    END = "end"

    @property
    def flag(self) -> str:
        """The option that names its command."""
        return f"--on-{self}"


@dataclass(frozen=True, slots=True)
class Hooks:
    """The command of each hook, for `/bin/sh -c`, or None."""

    failure: str | None = None
    recovery: str | None = None
    stall: str | None = None
    end: str | None = None

    @property
    def commands(self) -> dict[Hook, str]:
        """The given commands."""
        return {hook: command for hook in Hook if (command := getattr(self, hook.value)) is not None}


@dataclass(frozen=True, slots=True)
class Setup:
    """Environment additions, directory, arguments and interpreter; None means the job's."""

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
    """Which tasks restart together; `auto` follows the shape."""

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


class Convention(enum.StrEnum):
    """The variables by which the tasks of a job find each other, besides TF_CONFIG."""

    TENSORFLOW = "tensorflow"
    KERAS = "keras"  # of Keras 3's own distribution, on JAX
    JAX = "jax"


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
    insists: bool = False  # on its budget, which was asked for: whatever failed, a restart is tried
    min_workers: int | None = None  # with so many a job continues when others are given up; None: it fails


@dataclass(frozen=True, slots=True)
class Limits:
    """Time limits in seconds; 0 disables the optional ones."""

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
    """The job of the user: a program and how many tasks of each type."""

    program: Program
    counts: Mapping[TaskType, int]
    setup: Setup = Setup()
    setups: Mapping[TaskType, Setup] = field(default_factory=lambda: MappingProxyType({}))
    restart: RestartRules = RestartRules()
    limits: Limits = Limits()
    checkpoint_dir: str | None = None
    resume: str | None = None
    began_as: str | None = None  # the run whose training a chain of resumed runs continues
    watch: bool = False  # whether a change of the program restarts the tasks
    watch_fresh: bool = False  # the same, and they train from the start then
    progress_regex: str | None = None
    start: StartMode = StartMode.AUTO
    preload: tuple[str, ...] = ()
    network: Network = Network.HOST
    convention: Convention = Convention.TENSORFLOW
    tf_config: TfConfig = TfConfig.PROGRAM
    servers: Servers = Servers.PROGRAM
    keras: int | None = None  # the major version that `tf.keras` is; None: TensorFlow's default
    patches: bool = True  # whether Keras is patched where it fails or is wrong on several workers
    devices: Devices = field(default_factory=Devices)
    hosts: HostRequest = field(default_factory=HostRequest)
    strict: bool = False  # whether a job whose tasks trained alone, each for itself, has not succeeded
    tensorboard: bool = False  # whether TensorBoard runs beside the job
    dashboard: bool = False  # whether the dashboard does
    dashboard_control: bool = False  # and whether it may act on the run
    hooks: Hooks = field(default_factory=Hooks)
    debug: Debugging = field(default_factory=Debugging)
    pcap: str | None = None  # where the packets of the virtual network are written to
    faults: tuple[Fault, ...] = ()
    record: str | None = (
        None  # the steps whose state the tasks record, such as "0,1,hold=50"; None: nothing is recorded
    )
    part_of: str | None = None  # `campaign/NAME` or `exam/NAME`, whose run it is
    seed: int | None = None  # of everything that is random in the run; None: drawn when it begins
    given_up: tuple[Task, ...] = ()  # workers that the job continues without
    show_env: bool = False  # whether the values of the variables in its setups are stored and shown

    @property
    def every_setup(self) -> dict[str, Setup]:
        """Every setup by its place in a job file: "" for the job's own, `task.worker.` for the workers'."""
        return {"": self.setup, **{f"task.{kind}.": setup for kind, setup in self.setups.items()}}

    @property
    def watches(self) -> bool:
        """Whether the tasks restart when the program changes."""
        return self.watch or self.watch_fresh

    @property
    def needs_dashboard(self) -> bool:
        """Whether the page's server runs beside the job."""
        return self.dashboard or self.dashboard_control

    @cached_property
    def tasks(self) -> tuple[Task, ...]:
        """Every task that is not given up, chief first."""
        every = (Task(kind, index) for kind in TYPE_ORDER for index in range(self.counts.get(kind, 0)))
        return tuple(task for task in every if task not in self.given_up)

    @cached_property
    def training(self) -> tuple[Task, ...]:
        """Tasks that train or coordinate: all but ps and evaluator."""
        return tuple(task for task in self.tasks if task.trains)

    @cached_property
    def steppers(self) -> tuple[Task, ...]:
        """Tasks that make steps: those of a gang, or the coordinator."""
        return tuple(task for task in self.training if not self.is_server(task))

    @cached_property
    def cluster(self) -> frozenset[Task]:
        """All tasks but the evaluator, which is not part of the cluster."""
        return frozenset(task for task in self.tasks if task.type is not TaskType.EVALUATOR)

    @property
    def shape_text(self) -> str:
        """The tasks by type: `1 chief, 2 workers, 1 ps`."""
        return ", ".join(number_of(kind, count) for kind, count in self.counts.items() if count)

    @property
    def shape(self) -> Shape:
        """The strategy that the counts imply."""
        if self.counts.get(TaskType.PS, 0):
            return Shape.PARAMETER_SERVER
        training = self.counts.get(TaskType.CHIEF, 0) + self.counts.get(TaskType.WORKER, 0)
        return Shape.MULTI_WORKER if training > 1 else Shape.SINGLE

    @property
    def leader(self) -> Task:
        """The chief, or the first worker, which TensorFlow takes as chief otherwise."""
        return self.training[0]

    def listens(self, task: Task) -> bool:
        """Whether the task opens its port when it is up. With JAX, only the first process does."""
        return self.convention is Convention.TENSORFLOW or task == self.leader

    def is_server(self, task: Task) -> bool:
        """Whether the task only serves: it never returns from TensorFlow's `Server.join()`."""
        return self.shape is Shape.PARAMETER_SERVER and task.type in (TaskType.PS, TaskType.WORKER)
