"""What the page shows, as entities: small JSON values under a key, which the server sends when they change.

The state of a run on the page is one flat map from key to entity. The fold (`RunModel`) takes the journal's events and
changes entities; each knows the offset of the journal line that changed it last. A message of the event stream has the
entities that changed since the offset that the client has, so that a client which connects again, also to another
server, misses nothing and sees nothing twice. The report file embeds the same map.

Times are seconds since the run began; `wall` is seconds since 1970. Texts are for people, and plain.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from clusterkit.words.job import HostRequest


@dataclass(frozen=True, slots=True)
class Run:
    """Key `run`."""

    id: str
    program: str = ""  # `ps_train.py`
    command: str = ""  # as the user could type it
    shape: str = ""  # `1 chief, 2 workers, 1 ps`
    strategy: str = ""  # `ParameterServerStrategy`
    phase: str = "starting"  # starting, running, stopping, over
    state: str = ""  # of the result: succeeded, failed, interrupted, lost …; empty while it runs
    now: str = ""  # a live run's situation in a word: starting, training, stalled, paused, recovering …
    text: str = ""  # the same as a sentence, or the final one
    why: str = ""
    heading: str = "Why"  # of `why`; of a run that succeeded, it is what happened
    todo: str = ""  # what to do about it
    commands: tuple[str, ...] = ()  # for that, as they can be typed
    error: tuple[str, ...] = ()  # what the task printed that failed
    is_error: bool = False  # whether `why` says no more than `error`
    wall: float = 0.0  # when it began
    ended: float | None = None
    step: int | None = None
    total: int | None = None
    saved: int | None = None  # the step of the newest checkpoint
    unsaved: int = 0  # steps after it, which a restart trains again
    speed: float | None = None  # steps/s
    metric: str | None = None  # the main one that its tasks report
    restarts: int = 0
    exit_code: int | None = None
    network: str = "host"  # host, virtual
    engine: str = HostRequest().engine
    tensorboard: str | None = None
    resume: str | None = None  # the command that resumes it
    directory: str = ""


@dataclass(frozen=True, slots=True)
class CampaignVerdict:
    """Key `verdict`: what the campaign of the run found wrong with it, if anything."""

    campaign: str
    violations: tuple[str, ...]
    replay: str  # the command


@dataclass(frozen=True, slots=True)
class TaskRow:
    """Key `task/worker:1`. `color` is its number in the run: there are eight colors, each in several line styles."""

    task: str
    type: str
    color: int
    state: str  # as `ps` shows it
    attempt: int
    host: str | None
    endpoint: str | None
    pid: int | None
    ready: bool
    step: int | None
    old: bool  # whether the step and the metrics are those of an earlier attempt
    steps: bool  # whether the task makes steps; under parameter servers, the coordinator does
    total: int | None
    speed: float | None
    metrics: Mapping[str, float | str | None]
    cpu: float | None  # percent
    memory: int | None  # bytes
    faults: tuple[str, ...]  # those that are open
    note: str  # a straggler's verdict, what a start waits for


@dataclass(frozen=True, slots=True)
class Segment:
    """A part of an attempt's bar. `kind`: start, run, lost (steps that were computed again), stopped, stalled, idle."""

    begin: float
    end: float | None  # None: goes on
    kind: str
    text: str = ""


@dataclass(frozen=True, slots=True)
class Attempt:
    """Key `attempt/worker:1/2`. `how`: running, success, failed, fault, collateral, asked, ended, lost."""

    task: str
    attempt: int
    begin: float
    end: float | None
    how: str
    text: str  # `killed by SIGKILL, by fault 1`
    segments: tuple[Segment, ...]
    steps: tuple[int, int] | None  # the first and the last that it reported
    resumed: int | None


@dataclass(frozen=True, slots=True)
class Mark:
    """Key `mark/12`. `kind`: fault, heal, checkpoint, stall, restart, warning, request, host."""

    at: float
    kind: str
    task: str | None  # None: of the run
    text: str
    until: float | None = None  # of a fault that lasts
    number: int | None = None  # of the fault


@dataclass(frozen=True, slots=True)
class CauseLink:
    """Key `link/3`: a line from a cause to what it brought down."""

    cause: tuple[str, float]  # task, time
    effect: tuple[str, float]
    text: str


@dataclass(frozen=True, slots=True)
class StoryLine:
    """A line of a story. `kind`: cause, collateral, why, fault, restart, back, step, warning or empty."""

    at: float
    text: str
    kind: str = ""
    task: str | None = None


@dataclass(frozen=True, slots=True)
class Story:
    """Key `story/3`: an incident as people tell it, with the numbers of the recovery table."""

    at: float
    title: str
    lines: tuple[StoryLine, ...]
    seconds: float | None  # from the first death or injection to the first new step
    lost: int | None = None  # steps
    detected: float | None = None
    planned: float | None = None
    up: float | None = None
    first_step: float | None = None
    checkpoint: str | None = None
    log: tuple[str, int] | None = None  # task and attempt whose log it begins in


@dataclass(frozen=True, slots=True)
class TimeShare:
    """A part of the run's time."""

    name: str
    seconds: float


@dataclass(frozen=True, slots=True)
class Goodput:
    """Key `goodput`: the run's time, split; the parts add up to `seconds`."""

    seconds: float
    goodput: float | None  # 0 to 1
    parts: tuple[TimeShare, ...]
    most: str  # what cost most, a sentence


@dataclass(frozen=True, slots=True)
class Startup:
    """Key `startup/worker:1`: the phases of its first attempt; `critical` is on the longest chain to the first step."""

    task: str
    phases: tuple[Segment, ...]
    critical: tuple[bool, ...]


@dataclass(frozen=True, slots=True)
class NetworkCell:
    """Key `cell/worker:1/ps:0`: the virtual network from the first task to the second."""

    source: str
    target: str
    bytes: int | None
    rate: float | None  # bytes/s
    delay: float | None  # seconds
    loss: float | None  # 0 to 1
    cut: bool
    faults: tuple[int, ...]  # their numbers, to heal them


@dataclass(frozen=True, slots=True)
class StallVerdict:
    """Key `stall/2`: a warning of a stall, and what each task was found to do."""

    since: float  # when the last step was reported
    at: float  # when the stall was noticed
    text: str
    tasks: tuple[tuple[str, str], ...]  # task, verdict
    report: str | None  # the file of the stacks, below `/api/run/ID/file/stacks/`


@dataclass(frozen=True, slots=True)
class Resolved:
    """Key `job`: the resolved job as a job file, and each task's TF_CONFIG as JSON text."""

    file: str
    tf_configs: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class SeriesInfo:
    """Key `series/loss/chief:0`: there is such a curve. `version` grows with its points."""

    name: str  # step, cpu, memory, or a metric
    task: str
    unit: str
    version: int
    last: float | None


@dataclass(frozen=True, slots=True)
class RunRow:
    """Key `run/20261121-135408-0381` in the list of all runs."""

    id: str
    program: str
    shape: str
    state: str
    wall: float
    seconds: float | None = None
    step: int | None = None
    restarts: int = 0
    text: str = ""
    part_of: str = ""  # `campaign/NAME` or `exam/NAME`
    metric: tuple[str, float | None] | None = None  # the main one and its last value


@dataclass(frozen=True, slots=True)
class CampaignRun:
    """Key `of/7`: a run of a campaign."""

    number: int
    seed: int
    actions: tuple[str, ...]  # of its faults: kill, stop …
    faults: tuple[str, ...]  # as the grammar writes them
    outcome: str  # passed, failed, interrupted, running
    violations: tuple[str, ...]
    seconds: float
    recoveries: tuple[float, ...]  # seconds each
    lost: tuple[int, ...]
    replay: str  # the command
    run: str | None  # its run id, if its directory was kept


Entity = Any  # one of these
