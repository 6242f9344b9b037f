"""Entities: small JSON values that describe what the page shows. The server sends an entity when the entity changes.

The page stores the state of a run as a flat map from keys to entities. `RunModel` reads the journal's events, updates
the entities, and remembers the journal offset of each entity's last change. A client knows up to which journal offset
it has all changes. A message of the event stream contains the entities that changed after that offset. So a
client that reconnects, even to another server, misses no change and receives no change twice. A report file embeds the
same map.

Times are in seconds since the run began, but `wall` is in seconds since 1970. Texts are plain text for people.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from clusterkit.words.job import HostRequest


@dataclass(frozen=True, slots=True)
class Run:
    """A run, as shown on the page of that run. The key is `run`."""

    id: str
    program: str = ""  # such as `ps_train.py`
    command: str = ""  # the command that starts the run, as a user would type it
    shape: str = ""  # such as `1 chief, 2 workers, 1 ps`
    strategy: str = ""  # such as `ParameterServerStrategy`
    phase: str = "starting"  # starting, running, stopping or over
    state: str = ""  # how the run ended: succeeded, failed, interrupted, lost …; empty while the run is live
    now: str = ""  # what a live run is doing, in one word: starting, training, stalled, paused, recovering …
    text: str = ""  # what a live run is doing, or how the run ended, as a sentence
    why: str = ""  # an explanation of `text`
    heading: str = "Why"  # the heading above `why`; for a successful run, `What happened`
    todo: str = ""  # a sentence that says what the user can do
    commands: tuple[str, ...] = ()  # commands for `todo`, as a user would type them
    error: tuple[str, ...] = ()  # the lines that the failed task printed about its error
    is_error: bool = False  # True if `why` only repeats `error`
    wall: float = 0.0  # the wall time at which the run began
    ended: float | None = None
    step: int | None = None
    total: int | None = None
    saved: int | None = None  # the step of the newest checkpoint
    unsaved: int = 0  # the number of steps since the newest checkpoint; a restart would repeat these steps
    speed: float | None = None  # steps/s
    metric: str | None = None  # the name of the main metric that tasks report
    restarts: int = 0
    exit_code: int | None = None
    network: str = "host"  # host or virtual
    engine: str = HostRequest().engine
    tensorboard: str | None = None
    resume: str | None = None  # the command that resumes the run
    directory: str = ""


@dataclass(frozen=True, slots=True)
class CampaignVerdict:
    """What a campaign or an exam says of one of its runs. The key is `verdict`.

    A campaign lists the problems with the run in `violations`. An exam has a text instead, which says how the cells of
    the run ended.
    """

    campaign: str
    violations: tuple[str, ...]
    replay: str  # the command that repeats the run or the exam's cell
    kind: str = "campaign"  # "campaign" or "exam"
    text: str = ""


@dataclass(frozen=True, slots=True)
class TaskRow:
    """A task. Example key: `task/worker:1`."""

    task: str
    type: str
    color: int  # the number of the task in the run, from which the page derives a color and a line style
    state: str  # the state that `clusterkit ps` shows
    attempt: int
    host: str | None
    endpoint: str | None
    pid: int | None
    ready: bool
    step: int | None
    old: bool  # True if the step and the metrics are those of an earlier attempt
    steps: bool  # True if the task reports steps; with parameter servers, only the coordinator reports steps
    total: int | None
    speed: float | None
    metrics: Mapping[str, float | str | None]
    cpu: float | None  # in percent of one core
    memory: int | None  # in bytes
    faults: tuple[str, ...]  # the actions of the open faults that affect the task
    note: str  # says that the task is waiting in a debugger, or why it is slower than its peers; may be empty


@dataclass(frozen=True, slots=True)
class Segment:
    """A part of the bar that shows an attempt, or of the bar that shows a startup.

    For an attempt, `kind` is start, run, lost (the steps were later computed again), stopped, stalled or idle.
    """

    begin: float
    end: float | None  # None if the segment has not ended yet
    kind: str
    text: str = ""


@dataclass(frozen=True, slots=True)
class Attempt:
    """An attempt of a task. Example key: `attempt/worker:1/2`."""

    task: str
    attempt: int
    begin: float
    end: float | None
    how: str  # running, or how the attempt ended: success, failed, fault, collateral, asked, ended or lost
    text: str  # how the attempt ended, such as `killed by SIGKILL, by fault 1`
    segments: tuple[Segment, ...]
    steps: tuple[int, int] | None  # the first and the last step that the attempt reported
    resumed: int | None  # the step at which the attempt resumed


@dataclass(frozen=True, slots=True)
class Mark:
    """A mark on the time axis. Example key: `mark/12`."""

    at: float
    kind: str  # fault, heal, checkpoint, stall, restart, warning, request or host
    task: str | None  # None if the mark concerns the whole run
    text: str
    until: float | None = None  # when a temporary fault ends
    number: int | None = None  # the number of the fault


@dataclass(frozen=True, slots=True)
class CauseLink:
    """A line from a failed attempt to another attempt that failed as a result. Example key: `link/3`."""

    cause: tuple[str, float]  # the task that failed first, and the time of the failure
    effect: tuple[str, float]
    text: str


@dataclass(frozen=True, slots=True)
class StoryLine:
    """A line of a story. `kind` is cause, collateral, why, fault, restart, back, step, warning or empty."""

    at: float
    text: str
    kind: str = ""
    task: str | None = None


@dataclass(frozen=True, slots=True)
class Story:
    """The description of an incident, with the numbers for the table of recoveries. Example key: `story/3`."""

    at: float
    title: str
    lines: tuple[StoryLine, ...]
    seconds: float | None  # the time from the injection or the first death to the first new step
    lost: int | None = None  # the number of steps that were computed again
    detected: float | None = None  # when the failure was detected
    planned: float | None = None  # when the supervisor decided to restart tasks
    up: float | None = None  # when the restarted tasks were up
    first_step: float | None = None  # when the first new step was completed
    checkpoint: str | None = None
    log: tuple[str, int] | None = None  # the task and attempt in whose log the incident begins
    kind: str = "recovery"  # recovery, failure (nothing was restarted after it) or fault (no task died of it)
    went_on: bool = False  # True if training continued meanwhile; `seconds` then ends when all tasks were up again


@dataclass(frozen=True, slots=True)
class TimeShare:
    """How much of the run's time was spent in one way, such as training."""

    name: str
    seconds: float


@dataclass(frozen=True, slots=True)
class Goodput:
    """How the run spent its time; the parts add up to `seconds`. The key is `goodput`."""

    seconds: float
    goodput: float | None  # the fraction of the time that was training, 0 to 1
    parts: tuple[TimeShare, ...]
    most: str  # a sentence that names the largest loss of time


@dataclass(frozen=True, slots=True)
class Startup:
    """The phases of a task's first attempt up to its first step. Example key: `startup/worker:1`."""

    task: str
    phases: tuple[Segment, ...]
    critical: tuple[bool, ...]  # for each phase, True if the phase delayed the run's first step


@dataclass(frozen=True, slots=True)
class NetworkCell:
    """The virtual network from one task to another, in one direction. Example key: `cell/worker:1/ps:0`."""

    source: str
    target: str
    bytes: int | None
    rate: float | None  # the limit of the transfer rate, in bytes/s
    delay: float | None  # the added delay, in seconds
    loss: float | None  # the fraction of packets that is lost, 0 to 1
    cut: bool  # True if a partition separates the tasks
    faults: tuple[int, ...]  # the numbers of the open faults that affect this cell


@dataclass(frozen=True, slots=True)
class StallVerdict:
    """A warning that training is stalled, and what each task was doing at that time. Example key: `stall/2`."""

    since: float  # when the last step was reported
    at: float  # when the stall was noticed
    text: str
    tasks: tuple[tuple[str, str], ...]  # the name of each task, and what the task was doing
    report: str | None  # the name of the file with all stacks, in `/api/run/ID/file/stacks/`


@dataclass(frozen=True, slots=True)
class Resolved:
    """The complete job as the text of a job file, and each task's TF_CONFIG as JSON text. The key is `job`."""

    file: str
    tf_configs: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class SeriesInfo:
    """A curve, without its points. Example key: `series/loss/chief:0`."""

    name: str  # step, cpu, memory, gpu, gpu memory, or the name of a metric
    task: str
    unit: str
    version: int  # the number of points that were added so far
    last: float | None  # the newest value


@dataclass(frozen=True, slots=True)
class RunRow:
    """A run in the list of all runs. Example key: `run/20261121-135408-0381`."""

    id: str
    program: str
    shape: str
    state: str
    wall: float
    seconds: float | None = None
    step: int | None = None
    restarts: int = 0
    text: str = ""
    part_of: str = ""  # `campaign/NAME` or `exam/NAME`, if the run is part of a campaign or an exam
    metric: tuple[str, float | None] | None = None  # the name and the last value of the main metric


@dataclass(frozen=True, slots=True)
class CampaignRun:
    """A run of a campaign. Example key: `of/7`."""

    number: int
    seed: int
    actions: tuple[str, ...]  # the actions of the run's faults, such as kill or stop
    faults: tuple[str, ...]  # each fault as a user would write it, such as `kill worker:1 @ step=3`
    outcome: str  # passed, failed, interrupted or running
    violations: tuple[str, ...]
    seconds: float
    recoveries: tuple[float, ...]  # the duration of each recovery, in seconds
    lost: tuple[int, ...]  # for each recovery, the number of steps that were computed again
    replay: str  # the command that repeats the run
    run: str | None  # the run id, if the run's directory was kept


Entity = Any  # any of the entity classes
