"""Builds a job from options: fills in defaults, and reports all problems at once."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import replace
from itertools import chain
from typing import Any, NamedTuple, cast

from clusterkit.faults.aim import problems_of
from clusterkit.job.debugging import debugging_problems
from clusterkit.job.devices import GPUS
from clusterkit.job.keras import keras_problems
from clusterkit.job.options import OPTIONS, GivenOptions, JobOptions
from clusterkit.job.plan import RESERVED, convention_problems
from clusterkit.words import wire
from clusterkit.words.faults import Fault
from clusterkit.words.job import Hook, HostRequest, JobSpec, Network, RestartPolicy, Servers, StartMode
from clusterkit.words.model import Program, ProgramKind, Shape, TaskType, number_of
from clusterkit.words.outcome import Reservation

# Characters that can't be in an argument or variable: NUL, and surrogates that do not stand for undecodable bytes.
UNFIT_CHARACTERS = re.compile("[\0\ud800-\udc7f\udd00-\udfff]")

MOST_TASKS = 4096  # the maximum number of tasks on one machine; with a mistyped number, the plans could fill the memory
MOST_TASKS_ON_HOSTS = 16_384  # the maximum number of tasks in all; a message with all endpoints is at most 1 MiB
LONGEST_COMMAND = 30_000  # characters; the maximum length of a hook, since the system limits an argument to 128 KiB

# The entries of --record, which task/patches/recorder/recorder.py reads.
_RECORDED = re.compile(
    r"\d+|no-dropout|nudge|deferred|follow=[\w.-]+/[a-z]+-\d+\.\d+|phases|(?:stop|until)=\d+|"
    r"hold=(?:all|[a-z]+-\d+)/[a-z0-9-]+"
)
_COUNTS = frozenset({"workers", "ps", "chief", "evaluator"})
# The options that decide which other options are valid. If one is invalid, reports about the others would mislead.
SHAPING = _COUNTS | {"program", "module", "args", "network", "task"}

# Options whose text is not a path, name or argument, or has its own check.
_PARSED_ELSEWHERE = frozenset({"env", "fault", "preload", "progress_regex", "run_id", *(f"on_{hook}" for hook in Hook)})


class Described(NamedTuple):
    """The job that options describe, and every problem with the options.

    `is_complete` is False if options that decide which tasks exist are invalid; rules about tasks are then not checked.
    """

    job: JobSpec
    problems: list[str]
    is_complete: bool


def describe(given: GivenOptions) -> Described:
    """Build the job and check it. The program's kind is MODULE or SCRIPT; `with_program` finds out the actual kind."""
    given = _with_fit_text(given)
    options, wrong = given.options, given.wrong
    faults, fault_problems = _faults(options)
    job = replace(_job(options), faults=tuple(faults))
    job = replace(job, restart=replace(job.restart, insists="restart_budget" in options))
    shape_problems = [] if wrong & {"program", "module", "args"} else _program_problems(options)
    shape_problems += [*_out_of_bounds(options, _COUNTS), *_count_problems(job, wrong)]
    others = [*_out_of_bounds(options, OPTIONS.keys() - _COUNTS), *_other_problems(job, wrong), *fault_problems]
    is_complete = not (shape_problems or wrong & SHAPING)
    task_problems = [problem for fault in faults for problem in problems_of(fault, job)] if is_complete else []
    task_problems += debugging_problems(job) if is_complete else []
    return Described(job, [*given.problems, *shape_problems, *others, *task_problems], is_complete)


def _faults(options: JobOptions) -> tuple[list[Fault], list[str]]:
    """Return the valid faults, and the problems with the invalid ones."""
    if not (texts := options.get("fault", ())):
        return [], []
    from clusterkit.words.grammar import parse_all  # imported here, since most jobs have no faults

    return parse_all(texts)


def _with_fit_text(given: GivenOptions) -> GivenOptions:
    """Remove options with text that can't be a path, name or argument, and add a problem for each."""
    found = {name: [*_text_problems(name, value)] for name, value in given.options.items()}
    options = {name: value for name, value in given.options.items() if not found[name]}
    wrong = given.wrong | {name for name, problems in found.items() if problems}
    return GivenOptions(cast(JobOptions, options), [*given.problems, *chain.from_iterable(found.values())], wrong)


def _text_problems(name: str, value: object, where: str = "") -> Iterator[str]:
    if name == "task" and isinstance(value, Mapping):
        for kind, table in value.items():
            for key, of_kind in table.items():
                yield from _text_problems(key, of_kind, f"task.{kind}.")
    elif name not in _PARSED_ELSEWHERE:
        called = OPTIONS[name].flag if name in OPTIONS and not where else f"{where}{name}"
        if value == "" and name not in ("program", "module"):
            yield f"{called} is empty. Give a value, or leave it out."
        for text in value if isinstance(value, list | tuple) else [value]:
            if isinstance(text, str) and UNFIT_CHARACTERS.search(text):
                yield f"{called}: {text!r} has a character that can't be passed to a program, such as NUL."


def _job(options: JobOptions) -> JobSpec:
    kind = ProgramKind.MODULE if options.get("module") else ProgramKind.SCRIPT
    target = options.get("module") or options.get("program", "")
    fields: dict[str, Any] = {
        "program": Program(kind, str(target), tuple(options.get("args", ()))),
        "counts": counts_of(options),
        "setups": options.get("task", {}),
    }
    for name, value in options.items():
        if name in OPTIONS and (field := OPTIONS[name].about.field):
            table, _, last = field.rpartition(".")
            (fields.setdefault(table, {}) if table else fields)[last] = value
    if settings := {name: value for name, value in options.items() if name in OPTIONS and OPTIONS[name].engine}:
        fields.setdefault("hosts", {})["settings"] = settings
    job: JobSpec = wire.decode(JobSpec, wire.encode(fields))
    return job


def counts_of(options: JobOptions) -> dict[TaskType, int]:
    """Return the number of tasks of each type. `ps` adds a chief; without any count, the job has one worker."""
    workers, ps = options.get("workers"), options.get("ps", 0)
    chief, evaluator = options.get("chief"), options.get("evaluator", False)
    return {
        TaskType.CHIEF: int(ps > 0 if chief is None else chief),
        TaskType.WORKER: int(not (ps or chief or evaluator)) if workers is None else workers,
        TaskType.PS: ps,
        TaskType.EVALUATOR: int(evaluator),
    }


def _program_problems(options: JobOptions) -> list[str]:
    if options.get("program") and options.get("module"):
        return ["Both a program and a module are given. Give one of them."]
    if not options.get("program") and not options.get("module"):
        return ["No program is given. Name a file, a module with -m, or a job file with -f."]
    return []


def _out_of_bounds(options: JobOptions, names: Collection[str]) -> Iterator[str]:
    for name, value in options.items():
        if name not in names or type(value) is not int:
            continue
        entry = OPTIONS[name]
        if value < entry.about.least:
            yield f"{entry.flag} is {value}. It has to be {entry.about.least} or more."
        elif entry.about.most is not None and value > entry.about.most:
            yield f"{entry.flag} is {value}. It has to be {entry.about.most} or less."


def _count_problems(job: JobSpec, wrong: frozenset[str]) -> Iterator[str]:
    chief, workers, ps, evaluator = (job.counts[kind] for kind in TaskType)
    for kind, count in ((TaskType.CHIEF, chief), (TaskType.EVALUATOR, evaluator)):
        if count > 1:
            yield f"{count} {kind} tasks are asked for. TensorFlow knows at most one."
    if wrong & _COUNTS:
        return
    if ps > 0 and workers == 0:
        yield "There are parameter servers but no workers to train. Add --workers 2."
    if ps > 0 and chief == 0:
        yield "A parameter-server job needs its chief, which is the coordinator. Leave out --no-chief."
    tasks, hosts = sum(job.counts.values()), job.hosts.count
    if tasks > MOST_TASKS * max(1, hosts):
        yield f"{tasks} tasks are asked for. One machine is taken to hold {MOST_TASKS} at most."
    elif tasks > MOST_TASKS_ON_HOSTS:
        yield f"{tasks} tasks are asked for. A job has {MOST_TASKS_ON_HOSTS} at most, on however many hosts."
    if chief == workers == ps == 0:
        extra = ", only an evaluator" if evaluator else ""
        yield f"The job has no task that trains{extra}. Add --workers 1."


def _other_problems(job: JobSpec, wrong: frozenset[str]) -> Iterator[str]:
    for where, setup in job.every_setup.items():
        for name, value in setup.env.items():
            if name in RESERVED:
                yield f"{where}env: {name} is set by clusterkit in every task and can't be given."
            elif not name or "=" in name or UNFIT_CHARACTERS.search(name + value):
                yield f"{where}env: {name!r} can't be the name of an environment variable with that value."
    known = [str(each) for each in Reservation]
    for name in job.allow:
        if name not in known:
            yield f"--allow {name!r} is none of these: {', '.join(known)}."
    yield from preload_problems(job.preload)
    if job.preload and job.start is StartMode.COLD:
        yield "--preload is for warm starts; with --start cold nothing is imported beforehand."
    if job.devices.gpus is not None and any(GPUS in setup.env for setup in job.every_setup.values()):
        yield (
            f"--gpus-per-task sets {GPUS} in every task. To hand out some GPUs only, set it for clusterkit itself: "
            f"{GPUS}=2,3 clusterkit up …"
        )
    yield from keras_problems(job)
    yield from convention_problems(job)
    yield from _min_workers_problems(job, wrong)
    if job.servers is Servers.BUILTIN and "ps" not in wrong and job.counts[TaskType.PS] <= 0:
        yield "--servers builtin is for jobs with parameter servers: workers serve in no other. Add --ps 1."
    for hook, command in job.hooks.commands.items():
        if not command.strip() or UNFIT_CHARACTERS.search(command):
            yield f"{hook.flag} {command!r} is not a command. Give one, such as 'cat >> events.jsonl'."
        elif len(command) > LONGEST_COMMAND:
            yield f"{hook.flag} is longer than {LONGEST_COMMAND} characters. Put the command into a script."
    yield from _host_problems(job, wrong)
    if job.watches and job.hosts.count > 0:
        yield "--watch is for a job on this machine: agents' hosts may have other files. Leave out --watch or --hosts."
    if job.pcap is not None and "network" not in wrong and job.network is not Network.VIRTUAL:
        yield "--pcap writes what crosses the virtual network. Add --network virtual."
    if job.record is not None and not all(map(_RECORDED.fullmatch, job.record.split(","))):
        yield f"--record {job.record!r} has to be numbers of steps, such as 0,1,50."
    if job.progress_regex is not None:
        from clusterkit.job.step_regex import problem_of

        if problem := problem_of(job.progress_regex):
            yield problem


def preload_problems(modules: Iterable[str]) -> Iterator[str]:
    for name in modules:
        if not all(part.isidentifier() for part in name.split(".")):
            yield f"--preload {name!r} can't be the name of a module."


def _min_workers_problems(job: JobSpec, wrong: frozenset[str]) -> Iterator[str]:
    least, workers = job.restart.min_workers, job.counts[TaskType.WORKER]
    if least is not None and job.restart.policy is RestartPolicy.NEVER:
        yield (
            "--min-workers restarts tasks, which --restart never forbids. To give a worker up at its first failure, "
            "use --restart-budget 0 instead."
        )
    if least is None or least < 1 or wrong & _COUNTS:
        return
    if job.shape is Shape.SINGLE or workers < 1:
        yield f"--min-workers {least} is for a job of several workers. Add --workers {max(2, least)}."
    elif least > workers:
        worker_count = number_of("worker", workers)
        yield f"--min-workers is {least}, and the job has {worker_count}. It has to be {workers} or less."


def _host_problems(job: JobSpec, wrong: frozenset[str]) -> Iterator[str]:
    hosts, without_hosts = job.hosts, HostRequest()
    for name in hosts.settings:
        if (entry := OPTIONS[name]).engine != hosts.engine:
            yield f"{entry.flag} is for {entry.group}. Add --engine {entry.engine}."
    if hosts.count > 0 or "hosts" in wrong:
        return
    given = {
        f"--engine {hosts.engine}": hosts.engine != without_hosts.engine,
        "--spare-hosts": hosts.spare > 0,
        "--place": bool(hosts.place),
        "--interface": hosts.interface is not None,
        "--agent-timeout": hosts.timeout != without_hosts.timeout,
        "--listen": hosts.listen is not None,
        "--agent-key": hosts.key is not None,
    }
    for flag, is_given in given.items():
        if is_given:
            yield f"{flag} is for a job on several hosts. Add --hosts 2."
