"""From options to a job: what is not given gets its default, what can't be is named, all of it at once."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from clusterkit.faults.aim import problems_of
from clusterkit.job.devices import GPUS
from clusterkit.job.keras import keras_problems
from clusterkit.job.step_regex import problem_of
from clusterkit.words.faults import Fault
from clusterkit.words.grammar import parse_all
from clusterkit.words.job import (
    Devices,
    JobSpec,
    Limits,
    Network,
    RestartPolicy,
    RestartRules,
    RestartScope,
    Servers,
    Setup,
    StartMode,
)
from clusterkit.words.model import Program, ProgramKind, TaskType

Options = Mapping[str, Any]  # keys are the flags' names with underscores; what was not given is absent

# Names that clusterkit itself sets in every task.
RESERVED = re.compile(
    r"TF_CONFIG|TF_GRPC_REUSE_PORT"
    r"|CLUSTERKIT_(?:RUN_ID|TASK|ATTEMPT|RESTART_REASON|CHECKPOINT_DIR|RUN_DIR|PROGRESS|CORES|MENDS)"
)

# What the system takes in no argument and no variable: NUL, and halves of characters but those that stand for bytes.
UNFIT = re.compile("[\0\ud800-\udc7f\udd00-\udfff]")

MOST = 4096  # tasks; a slip of the finger above it, and the plans alone would fill the memory

_LIMITS = {
    "grace_period": "grace",
    "startup_timeout": "startup",
    "stall_warning": "stall_warning",
    "stall_timeout": "stall",
    "timeout": "job",
}
_RULES = {
    "restart": "policy",
    "restart_budget": "budget",
    "restart_backoff": "backoff",
    "restart_backoff_max": "backoff_max",
    "restart_scope": "scope",
}


_COUNTS = frozenset({"workers", "ps", "chief", "evaluator"})
# Options on which it depends what is right for the others. What is said of a job without them would be misleading.
SHAPING = _COUNTS | {"program", "module", "args", "network", "task"}


def describe(
    options: Options, kind: ProgramKind, wrong: frozenset[str] = frozenset()
) -> tuple[JobSpec | None, list[str]]:
    """The job that the options describe, as far as it can be known, and every problem with them.

    `wrong` are options that were given with a value that can't be used, and are not among the options for that.
    """
    faults, problems = parse_all(options.get("fault", ()))
    of_shape = [] if wrong & {"program", "module", "args"} else _program_problems(options)
    of_shape += _count_problems(options, wrong)
    problems = [*of_shape, *_other_problems(options, wrong), *problems]
    if of_shape or wrong & SHAPING:
        return None, problems
    job = _job(options, kind, tuple(faults))
    return job, [*problems, *(problem for fault in faults for problem in problems_of(fault, job))]


def _job(options: Options, kind: ProgramKind, faults: tuple[Fault, ...]) -> JobSpec:
    program = Program(kind, options.get("module") or options["program"], tuple(options.get("args", ())))
    rules = {field: options[name] for name, field in _RULES.items() if name in options}
    if "policy" in rules:
        rules["policy"] = RestartPolicy(rules["policy"])
    if "scope" in rules:
        rules["scope"] = RestartScope(rules["scope"])
    return JobSpec(
        program=program,
        counts=counts_of(options),
        setup=Setup(dict(options.get("env") or {}), options.get("cwd"), None, options.get("python")),
        setups={TaskType(name): _own_setup(table) for name, table in options.get("task", {}).items()},
        restart=RestartRules(**rules),
        limits=Limits(**{field: options[name] for name, field in _LIMITS.items() if name in options}),
        checkpoint_dir=options.get("checkpoint_dir"),
        resume=options.get("resume"),
        progress_regex=options.get("progress_regex"),
        start=StartMode(options.get("start", StartMode.AUTO)),
        preload=tuple(options.get("preload", ())),
        network=Network(options.get("network", Network.HOST)),
        pcap=options.get("pcap"),
        servers=Servers(options.get("servers", Servers.PROGRAM)),
        keras=options.get("keras"),
        keras_fix=options.get("keras_fix", True),
        devices=Devices(options.get("cpus_per_task"), options.get("gpus_per_task")),
        tensorboard=options.get("tensorboard", False),
        faults=faults,
        seed=options.get("seed"),
    )


def counts_of(options: Options) -> dict[TaskType, int]:
    """How many tasks of each type: `ps` brings the one chief; nothing at all means one worker."""
    given = {name: options[name] for name in ("workers", "ps", "chief", "evaluator") if options.get(name) is not None}
    ps = int(given.get("ps", 0))
    return {
        TaskType.CHIEF: int(given.get("chief", ps > 0)),
        TaskType.WORKER: int(given.get("workers", 0 if any(given.values()) else 1)),
        TaskType.PS: ps,
        TaskType.EVALUATOR: int(given.get("evaluator", False)),
    }


def _own_setup(table: Options) -> Setup:
    args = table.get("args")
    own_args = None if args is None else tuple(args)
    return Setup(dict(table.get("env") or {}), table.get("cwd"), own_args, table.get("python"))


def _program_problems(options: Options) -> list[str]:
    if options.get("program") and options.get("module"):
        return ["Both a program and a module are given. Give one of them."]
    if not options.get("program") and not options.get("module"):
        return ["No program is given. Name a file, a module with -m, or a job file with -f."]
    return []


def _count_problems(options: Options, wrong: frozenset[str]) -> list[str]:
    counts, problems = counts_of(options), []
    for kind, count in counts.items():
        flag = "--workers" if kind is TaskType.WORKER else f"--{kind}"
        if count < 0:
            problems.append(f"{flag} is {count}. It has to be 0 or more.")
        elif count > 1 and kind in (TaskType.CHIEF, TaskType.EVALUATOR):
            problems.append(f"{count} {kind} tasks are asked for. TensorFlow knows at most one.")
    if wrong & _COUNTS:
        return problems
    chief, workers, ps = counts[TaskType.CHIEF], counts[TaskType.WORKER], counts[TaskType.PS]
    if ps > 0 and workers == 0:
        problems.append("There are parameter servers but no workers to train. Add --workers 2.")
    if ps > 0 and chief == 0:
        problems.append("A parameter-server job needs its chief, which is the coordinator. Leave out --no-chief.")
    if sum(counts.values()) > MOST:
        problems.append(f"{sum(counts.values())} tasks are asked for. One machine is taken to hold {MOST} at most.")
    if chief == workers == ps == 0:
        extra = ", only an evaluator" if counts[TaskType.EVALUATOR] else ""
        problems.append(f"The job has no task that trains{extra}. Add --workers 1.")
    return problems


def _other_problems(options: Options, wrong: frozenset[str]) -> list[str]:
    problems = []
    for place, env in [("env", options.get("env") or {})] + [
        (f"task.{kind}.env", table.get("env") or {}) for kind, table in options.get("task", {}).items()
    ]:
        for name, value in env.items():
            if RESERVED.fullmatch(name):
                problems.append(f"{place}: {name} is set by clusterkit in every task and can't be given.")
            elif not name or "=" in name or UNFIT.search(name + value):
                problems.append(f"{place}: {name!r} can't be the name of an environment variable with that value.")
    if options.get("restart_budget", 0) < 0:
        problems.append(f"--restart-budget is {options['restart_budget']}. It has to be 0 or more.")
    problems += [*_preload_problems(options), *_device_problems(options), *keras_problems(options)]
    if options.get("servers") == Servers.BUILTIN and "ps" not in wrong and counts_of(options)[TaskType.PS] <= 0:
        problems.append("--servers builtin is for jobs with parameter servers: workers serve in no other. Add --ps 1.")
    if options.get("pcap") is not None and "network" not in wrong and options.get("network") != Network.VIRTUAL:
        problems.append("--pcap writes what crosses the virtual network. Add --network virtual.")
    if options.get("seed", 0) >= 2**64:
        problems.append(f"--seed is {options['seed']}. It has to be less than 2**64.")
    if (regex := options.get("progress_regex")) is not None:
        problems += [problem] if (problem := problem_of(regex)) else []
    return problems


def _device_problems(options: Options) -> list[str]:
    cpus, gpus = options.get("cpus_per_task"), options.get("gpus_per_task")
    problems = [] if cpus is None or cpus > 0 else [f"--cpus-per-task is {cpus}. It has to be 1 or more."]
    if gpus is not None and gpus < 0:
        problems.append(f"--gpus-per-task is {gpus}. It has to be 0 or more.")
    tables = [options, *options.get("task", {}).values()]
    if gpus is not None and any(GPUS in (table.get("env") or {}) for table in tables):
        problems.append(
            f"--gpus-per-task sets {GPUS} in every task. To hand out some GPUs only, set it for clusterkit itself: "
            f"{GPUS}=2,3 clusterkit up …"
        )
    return problems


def _preload_problems(options: Options) -> list[str]:
    modules = options.get("preload", ())
    problems = [
        f"--preload {name!r} can't be the name of a module."
        for name in modules
        if not all(part.isidentifier() for part in name.split("."))
    ]
    if modules and options.get("start") == StartMode.COLD:
        problems.append("--preload is for warm starts; with --start cold nothing is imported beforehand.")
    return problems
