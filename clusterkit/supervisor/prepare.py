"""Preparing: options become a job that can run here, or one error with every problem; nothing is started."""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from clusterkit.hands import preflight, resources
from clusterkit.hands.rundir import RUN_ID, find_run, is_live
from clusterkit.rules.spec import build_job
from clusterkit.supervisor.checking import refuse_errors
from clusterkit.words.errors import BadJob
from clusterkit.words.model import JobSpec, ProgramKind, Setup


@dataclass(frozen=True, slots=True)
class Prepared:
    """A job that can run, the run it continues, and what the user should know before it starts."""

    job: JobSpec
    run_id: str | None
    resume: Path | None
    warnings: tuple[str, ...]


def prepare(
    options: Mapping[str, Any], job_file: str | None = None, only: Collection[str] = (), found: Sequence[str] = ()
) -> Prepared:
    """Merge the job file with the flags, which win, and check everything. Raises BadJob.

    `only` are the tasks that are to be shown, each as `worker:1` or `worker`; `found` are problems known before.
    """
    merged = dict(options)
    if job_file is not None:
        merged = over(read(job_file), merged)
    kind, wrong = preflight.program_kind(merged)
    problems = [*found, *wrong]
    problems += preflight.setup_problems(merged)
    run_id = merged.get("run_id")
    if run_id is not None and not RUN_ID.fullmatch(run_id):
        problems.append(
            f"--run-id {run_id!r} can't be a run id: up to 64 letters, digits, dots, dashes and underscores, "
            f"a letter or digit first."
        )
    resume = None
    try:
        resume = _resume(merged)
    except BadJob as error:
        problems += error.problems
    try:
        job = build_job(merged, kind)
    except BadJob as error:
        raise BadJob([*error.problems, *problems]) from None
    shown = {name for task in job.tasks for name in (str(task), str(task.type))}
    problems += [f"--only {name}: the job has no such task." for name in only if name not in shown]
    problems += preflight.network_problems(job)
    problems += preflight.tensorboard_problems() if job.tensorboard else []
    job, wrong = preflight.with_devices(job)
    problems += wrong
    if problems:
        raise BadJob(problems)
    job = _anchored(job)
    if not merged.get("force"):
        refuse_errors(job)
    warnings = [*resources.shortages(job), *_inherited()]
    return Prepared(replace(job, resume=resume.name if resume else None), run_id, resume, tuple(warnings))


def _anchored(job: JobSpec) -> JobSpec:
    """The job with its program and interpreters where the user named them, also for tasks in other directories."""
    moves = any(setup.cwd for setup in (job.setup, *job.setups.values()))
    kind, target = job.program.kind, job.program.target
    is_file = kind is not ProgramKind.MODULE and Path(target).is_file()
    if is_file and (moves or kind is ProgramKind.COMMAND):  # a command without a slash would be looked up in PATH
        job = replace(job, program=replace(job.program, target=str(Path(target).absolute())))
    if not moves:
        return job
    setups = {kind: _with_anchored_python(setup) for kind, setup in job.setups.items()}
    return replace(job, setup=_with_anchored_python(job.setup), setups=setups)


def _with_anchored_python(setup: Setup) -> Setup:
    if setup.python is None or "/" not in setup.python:
        return setup
    return replace(setup, python=str(Path(setup.python).absolute()))


def over(below: dict[str, Any], above: dict[str, Any]) -> dict[str, Any]:
    """Flags over the file: single values replace, environments merge; a program given anew has its own arguments."""
    env = {**(below.get("env") or {}), **(above.get("env") or {})}
    if "program" in above or "module" in above:
        below = {key: value for key, value in below.items() if key not in ("program", "module", "args")}
    return {**below, **above, **({"env": env} if env else {})}


def read(job_file: str) -> dict[str, Any]:
    """The options in a job file. Raises BadJob."""
    from clusterkit.rules.jobfile import read_job_file  # loads pydantic: 9 MB and 0.1 s, for two processes of each run

    try:
        text = Path(job_file).read_text(encoding="utf-8")
    except OSError as error:
        raise BadJob([f"The job file {job_file} can't be read: {error.strerror}."]) from None
    except UnicodeDecodeError:
        raise BadJob([f"The job file {job_file} is not UTF-8 text, as TOML has to be."]) from None
    return read_job_file(text, job_file)


def _resume(options: Mapping[str, Any]) -> Path | None:
    if not options.get("resume"):
        return None
    run = find_run(options["resume"])
    if is_live(run):
        raise BadJob([f"The run {run.name} is still going on, so it can't be resumed. Stop it first."])
    return run


def _inherited() -> list[str]:
    if "TF_CONFIG" not in os.environ:
        return []
    return ["TF_CONFIG is set in the environment. It is ignored: every task gets its own."]
