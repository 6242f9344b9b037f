"""The job as a frozen value, which is built from the options of words/options.py."""

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
    """The network that connects the tasks."""

    HOST = "host"  # this machine's loopback
    VIRTUAL = "virtual"  # each task has its own network namespace and address


@dataclass(frozen=True, slots=True)
class Devices:
    """The numbers of cores and GPUs for each task (None: not limited), and this machine's available cores and GPUs."""

    cpus: int | None = None
    gpus: int | None = None
    cores: tuple[int, ...] = ()  # the numbers of the available cores; empty if `cpus` is None
    names: tuple[str, ...] = ()  # the available GPUs, as in CUDA_VISIBLE_DEVICES; empty if `gpus` is None


@dataclass(frozen=True, slots=True)
class HostRequest:
    """The hosts that a job requests. Without hosts, its tasks are processes of this machine."""

    engine: str = "local"  # the engine's name in engines/options.py; "local" simulates hosts on this machine
    count: int = 0  # the number of hosts for tasks, without spare hosts
    spare: int = 0  # the number of additional hosts, which get tasks only when another host is lost
    place: tuple[str, ...] = ()  # placement rules, such as `ps=host0`
    interface: str | None = None  # the tasks' network interface; None: the interface of the route to the supervisor
    timeout: float = 30.0  # seconds; a host is treated as lost if its connection is lost for longer
    listen: str | None = None  # the address for agents to connect to, with or without a port; None: the engine chooses
    key: str | None = None  # the path of the file with the run's key; None: clusterkit creates a key
    settings: Mapping[str, Any] = field(default_factory=dict)  # values of the options that only this engine has


class Breakpoints(enum.StrEnum):
    """What `breakpoint()` and `pdb.set_trace()` do in a task."""

    AUTO = "auto"  # HOLD if `up` runs on a terminal, otherwise SKIP
    HOLD = "hold"  # the task waits for `clusterkit debug`
    SKIP = "skip"  # the task logs that no debugger can connect, and continues


@dataclass(frozen=True, slots=True)
class Debugging:
    """How tasks are debugged. With `post_mortem` (`--pdb`), a task that raises an exception waits in the debugger.

    `editors` are the tasks that run debugpy, each as `TASK` or `TASK=PORT`. With `wait`, their programs begin when an
    editor has connected.
    """

    breakpoints: Breakpoints = Breakpoints.AUTO
    post_mortem: bool = False
    editors: tuple[str, ...] = ()
    wait: bool = False

    def editor_port(self, task: Task) -> int | None:
        """Return debugpy's port in the task: 0 for any free port or an invalid port, None without debugpy."""
        for text in self.editors:
            name, _, port = text.partition("=")
            if name in (str(task), str(task.type)):
                return int(port) if port.isascii() and port.isdecimal() else 0
        return None


class Hook(enum.StrEnum):
    """The occasions on which a command of the user runs."""

    FAILURE = "failure"
    RECOVERY = "recovery"
    STALL = "stall"
    END = "end"

    @property
    def flag(self) -> str:
        """Return the option that sets the command of the hook."""
        return f"--on-{self}"


@dataclass(frozen=True, slots=True)
class Hooks:
    """The shell command for each hook, which `/bin/sh -c` executes; None if the hook has no command."""

    failure: str | None = None
    recovery: str | None = None
    stall: str | None = None
    end: str | None = None

    @property
    def commands(self) -> dict[Hook, str]:
        return {hook: command for hook in Hook if (command := getattr(self, hook.value)) is not None}


@dataclass(frozen=True, slots=True)
class Setup:
    """The variables, directory, arguments and interpreter of tasks. For a task type, None means the job's value."""

    env: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    cwd: str | None = None
    args: tuple[str, ...] | None = None
    python: str | None = None


class RestartPolicy(enum.StrEnum):
    """After which exits a task is started again."""

    NEVER = "never"
    ON_FAILURE = "on-failure"
    ALWAYS = "always"


class RestartScope(enum.StrEnum):
    """Which tasks restart together. With `auto`, the job's shape decides."""

    AUTO = "auto"
    TASK = "task"
    JOB = "job"


class StartMode(enum.StrEnum):
    """How attempts start: forked from a process that has imported TensorFlow, or with a fresh interpreter."""

    AUTO = "auto"  # fork, unless the task could behave differently in a fork
    WARM = "warm"  # fork even if the program does not seem to import TensorFlow
    COLD = "cold"


class TfConfig(enum.StrEnum):
    """Which TF_CONFIG a task uses."""

    PROGRAM = "program"  # the TF_CONFIG that the program sets, as many tutorials do, or else clusterkit's
    OURS = "ours"  # always clusterkit's TF_CONFIG, even if the program sets its own
    ALWAYS = "always"  # as PROGRAM, and the only training task of a job has a TF_CONFIG, too


class Convention(enum.StrEnum):
    """The environment variables, in addition to TF_CONFIG, by which the tasks of a job find each other."""

    TENSORFLOW = "tensorflow"
    KERAS = "keras"  # for the distribution API of Keras 3 on JAX
    JAX = "jax"


class Servers(enum.StrEnum):
    """The program that the workers and parameter servers of a parameter-server job run."""

    PROGRAM = "program"  # the user's program, which has to recognize that its task is a server
    BUILTIN = "builtin"  # clusterkit's own server; the user's program is only the coordinator's code


@dataclass(frozen=True, slots=True)
class RestartRules:
    """Restart policy, budget and backoff. Times in seconds."""

    policy: RestartPolicy = RestartPolicy.ON_FAILURE
    budget: int = 3
    backoff: float = 1.0
    backoff_max: float = 30.0
    scope: RestartScope = RestartScope.AUTO
    forgive_after: float = 600.0  # seconds of progress after a restart until the full budget is restored
    insists: bool = False  # True if the user set the budget. Then even a usage error is followed by a restart.
    min_workers: int | None = None  # the smallest number of workers with which the job continues; None: all


# Seconds. The steps of a task are told in batches that come a second or more apart, and later on a busy machine. With a
# limit for stalls that is not much longer, healthy training would count as a stall.
SHORT_STALL = 4.0


@dataclass(frozen=True, slots=True)
class Limits:
    """Time limits in seconds. 0 means no limit for `startup`, `stall_warning`, `stall` and `job`."""

    grace: float = 10.0
    finish: float = 10.0  # the total time for the other training tasks to finish after the chief's success
    servers: float = 3.0  # the time for servers, which never return from `Server.join()`, after the chief's success
    collateral: float = 1.0
    evaluator: float = 30.0  # the time for the evaluator to evaluate the last checkpoint after the chief's success
    startup: float = 120.0
    stall_warning: float = 60.0
    stall: float = 0.0
    job: float = 0.0
    drain: float = 2.0  # the time for a task's output to reach end of file after the task's last process has ended


@dataclass(frozen=True)  # no slots: `cached_property` needs a `__dict__`
class JobSpec:
    """The user's job: a program and the number of tasks of each type."""

    program: Program
    counts: Mapping[TaskType, int]
    setup: Setup = Setup()
    setups: Mapping[TaskType, Setup] = field(default_factory=lambda: MappingProxyType({}))
    restart: RestartRules = RestartRules()
    limits: Limits = Limits()
    checkpoint_dir: str | None = None
    resume: str | None = None
    began_as: str | None = None  # the id of the first run in the chain of runs that this run resumes
    watch: bool = False  # True if a change of the program restarts the tasks
    watch_fresh: bool = False  # True if a change of the program restarts the tasks, and they train from step 0
    progress_regex: str | None = None
    start: StartMode = StartMode.AUTO
    preload: tuple[str, ...] = ()
    network: Network = Network.HOST
    convention: Convention = Convention.TENSORFLOW
    tf_config: TfConfig = TfConfig.PROGRAM
    servers: Servers = Servers.PROGRAM
    keras: int | None = None  # the major version of Keras behind `tf.keras`; None: TensorFlow's default
    check: bool = True  # True to refuse a program with a line at which every run fails
    patches: bool = True  # True to patch Keras where it fails or is wrong on several workers
    devices: Devices = field(default_factory=Devices)
    hosts: HostRequest = field(default_factory=HostRequest)
    allow: tuple[str, ...] = ()  # the reservations (words/outcome.py) with which a success still has exit code 0
    verify: str = "no"  # the value of --verify, such as "yes", "20" or "required:20"
    tensorboard: bool = False  # True to run TensorBoard during the job
    dashboard: bool = False  # True to run the dashboard during the job
    dashboard_control: bool = False  # True to let the dashboard control the run
    hooks: Hooks = field(default_factory=Hooks)
    debug: Debugging = field(default_factory=Debugging)
    pcap: str | None = None  # the path of the file for packets of the virtual network
    faults: tuple[Fault, ...] = ()
    record: str | None = (
        None  # the steps whose state the tasks record, such as "0,1,hold=50"; None: nothing is recorded
    )
    every_step: bool = False  # True if tasks report each step at once, as they do while a fault waits for a step
    part_of: str | None = None  # the campaign or exam of the run: `campaign/NAME` or `exam/NAME`
    seed: int | None = None  # the seed of all random choices in the run; None: drawn when the run begins
    given_up: tuple[Task, ...] = ()  # the workers without which the job continues
    show_env: bool = False  # True to store and show the values of environment variables

    @property
    def every_setup(self) -> dict[str, Setup]:
        """Return each setup by the prefix of its options in job files: "" for the job, `task.worker.` for workers."""
        return {"": self.setup, **{f"task.{kind}.": setup for kind, setup in self.setups.items()}}

    @property
    def tells_every_step(self) -> bool:
        """Return whether tasks report each step at once from the beginning, and not in batches."""
        stalls = (self.limits.stall, self.limits.stall_warning)
        return self.every_step or any(0 < limit < SHORT_STALL for limit in stalls)

    @property
    def watches(self) -> bool:
        return self.watch or self.watch_fresh

    @property
    def needs_dashboard(self) -> bool:
        return self.dashboard or self.dashboard_control

    @cached_property
    def tasks(self) -> tuple[Task, ...]:
        """Return every task except the workers in `given_up`, chief first."""
        every = (Task(kind, index) for kind in TYPE_ORDER for index in range(self.counts.get(kind, 0)))
        return tuple(task for task in every if task not in self.given_up)

    @cached_property
    def training(self) -> tuple[Task, ...]:
        """Return the tasks that train or coordinate: all except ps and evaluator."""
        return tuple(task for task in self.tasks if task.trains)

    @cached_property
    def steppers(self) -> tuple[Task, ...]:
        """Return the tasks that report steps: all training tasks of a gang, or the coordinator."""
        return tuple(task for task in self.training if not self.is_server(task))

    @cached_property
    def cluster(self) -> frozenset[Task]:
        """Return all tasks except the evaluator, which is not part of the cluster."""
        return frozenset(task for task in self.tasks if task.type is not TaskType.EVALUATOR)

    @property
    def shape_text(self) -> str:
        """Return the numbers of tasks as text, such as `1 chief, 2 workers, 1 ps`."""
        return ", ".join(number_of(kind, count) for kind, count in self.counts.items() if count)

    @property
    def shape(self) -> Shape:
        if self.counts.get(TaskType.PS, 0):
            return Shape.PARAMETER_SERVER
        training = self.counts.get(TaskType.CHIEF, 0) + self.counts.get(TaskType.WORKER, 0)
        return Shape.MULTI_WORKER if training > 1 else Shape.SINGLE

    @property
    def leader(self) -> Task:
        """Return the chief; without a chief, the first worker, as in TensorFlow."""
        return self.training[0]

    def listens(self, task: Task) -> bool:
        """Return whether the task listens on its port when it is up. With JAX, only the first process listens."""
        return self.convention is Convention.TENSORFLOW or task == self.leader

    def is_server(self, task: Task) -> bool:
        """Return whether the task only serves, and never returns from TensorFlow's `Server.join()`."""
        return self.shape is Shape.PARAMETER_SERVER and task.type in (TaskType.PS, TaskType.WORKER)
