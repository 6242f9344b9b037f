"""Turns options into a job that can run here, or raises one error with all problems."""

from __future__ import annotations

import os
from collections.abc import Collection
from contextlib import suppress
from dataclasses import dataclass, field, replace
from glob import escape
from pathlib import Path

from clusterkit.backends.base import Preflight
from clusterkit.check.findings import Finding
from clusterkit.job import preflight
from clusterkit.job.options import GivenOptions, merged
from clusterkit.job.plan import seed_of
from clusterkit.job.program import with_program, without_interpreter
from clusterkit.job.spec import SHAPING, describe
from clusterkit.store.checkpoint_lock import lock_checkpoints
from clusterkit.store.checkpoints import has_files
from clusterkit.store.directory import RunDirectory
from clusterkit.store.removals import Removals
from clusterkit.store.store import RUN_ID, RunStore
from clusterkit.views.console import Show
from clusterkit.views.narrate import Level
from clusterkit.warm.fork_client import Launch
from clusterkit.words.errors import BadJob, ClusterkitError, RunDirectoryError
from clusterkit.words.job import JobSpec, Setup
from clusterkit.words.model import ProgramKind, Shape
from clusterkit.words.verification import Verification


@dataclass(frozen=True, slots=True)
class Prepared:
    """A job that can run. `resume` is the earlier run that provides the checkpoints; `warnings` are for the user.

    `doubts` are warnings about mistakes in the program with which a run succeeds, but does not train as intended.
    """

    job: JobSpec
    run_id: str | None
    resume: RunDirectory | None
    warnings: tuple[str, ...]
    doubts: tuple[str, ...] = ()
    verification: Verification | None = None  # the verdict of --verify
    continues: bool = False  # True to continue the run `run_id` if it exists


def prepare(given: GivenOptions, only: Collection[str] = (), must_parse: bool = True, starts: bool = True) -> Prepared:
    """Merge the job file with the flags, which take precedence, and check the job. Raises BadJob with every problem.

    `only` selects the tasks to show, such as `worker:1` or `worker`. If `must_parse`, the program must be valid Python.
    Unless `starts`, nothing that the job names is started: interpreters and packages are only looked for, and what
    only a trial can tell of this machine is left to `up`.
    """
    preflight.refuse_deleted_directory()
    given = gather(given)
    job, problems, is_complete = describe(given)
    job, program_problems = with_program(job)
    problems += [*program_problems, *preflight.directory_problems(job), *preflight.interpreter_problems(job, starts)]
    run_id = given.options.get("run_id")
    if run_id is not None and not RUN_ID.fullmatch(run_id):
        what = f"--run-id {run_id!r} can't be a run id: up to 64 letters, digits, dots, dashes and underscores"
        problems.append(f"{what}, a letter or digit first.")
    problems += preflight.tensorboard_problems() if job.tensorboard else []
    problems += preflight.dashboard_problems() if job.needs_dashboard else []
    resume, warnings = None, list[str]()
    try:
        resume = _resume(job)
    except ClusterkitError as error:
        problems.append(str(error))
    if is_complete:
        job, machine_problems, warnings = _preflight(job, starts)
        shown = {name for task in job.tasks for name in (str(task), str(task.type))}
        problems += [f"--only {name}: the job has no such task." for name in only if name not in shown]
        problems += machine_problems
    if problems or not is_complete:
        raise BadJob(problems)
    job = _with_absolute_paths(job)
    if must_parse and job.program.kind is not ProgramKind.COMMAND:
        from clusterkit.check.parsing import refuse_unparsable  # imported here, since a command is not parsed

        refuse_unparsable(job)
    if resume is not None:
        info = resume.info()
        # `began_as` seeds the shuffling of data for which the program sets no seed.
        seed = resume.run_id if info is None else seed_of(info.job, resume.run_id)
        job = replace(job, resume=resume.run_id, began_as=seed)
    if "TF_CONFIG" in os.environ:
        warnings = [*warnings, "TF_CONFIG is set in the environment. It is ignored: every task gets its own."]
    return Prepared(job, run_id, resume, (*given.notes, *warnings), _foreseen(job) if must_parse else ())


def _foreseen(job: JobSpec) -> tuple[str, ...]:
    """Return the doubts about a job's program. Raises BadJob if the program fails in every run."""
    if job.program.kind is ProgramKind.COMMAND or not (job.check or job.shape is not Shape.SINGLE):
        return ()
    from clusterkit.check.reading import foresee  # imported here since other jobs don't need the rules

    foreseen = foresee(job)
    if foreseen.failures:
        failures = sorted(foreseen.failures, key=lambda one: (one.location.file, one.location.line))
        raise BadJob([*map(_told, failures), "With --no-check, it is started anyway."])
    return tuple(map(_told, foreseen.doubts))


def _told(finding: Finding) -> str:
    """Return a finding as one line."""
    return f"{finding.location}: {finding.what} {finding.advice}"


def _preflight(job: JobSpec, starts: bool) -> Preflight:
    """Check the job against this machine or its hosts. Imports little: the fork server starts only afterwards."""
    if job.hosts.count:
        from clusterkit.backends.hosts.preflight import preflight as of_agents
        from clusterkit.engines.base import engine_named

        found = of_agents(job)
        return found._replace(problems=[*engine_named(job.hosts.engine).problems(job), *found.problems])
    from clusterkit.backends.local.resources import preflight as of_local

    return of_local(job, starts=starts)


def gather(flags: GivenOptions) -> GivenOptions:
    """Merge the flags with the job file that they name, and add the options that the engine derives."""
    options = flags.options.copy()
    file = options.pop("file", None)
    flags = flags._replace(options=options)
    try:
        given = without_interpreter(flags if file is None else merged(_read(str(file)), flags))
    except BadJob as error:  # without the file, missing options can't be determined
        return GivenOptions(options, [*flags.problems, *error.problems], flags.wrong | SHAPING)
    if "engine" not in given.options:
        return given
    from clusterkit.engines.base import engine_named

    try:
        return given._replace(options=engine_named(given.options["engine"]).completed(given.options))
    except BadJob as error:
        return GivenOptions(given.options, [*given.problems, *error.problems], given.wrong | {"hosts"})


def _with_absolute_paths(job: JobSpec) -> JobSpec:
    """Make the paths of the program and interpreters absolute if tasks run in other directories.

    With --watch, also make working directories absolute, since they may be deleted and created again.
    """
    moved = any(setup.cwd for setup in job.every_setup.values())
    kind, target = job.program.kind, job.program.target
    is_file = kind is not ProgramKind.MODULE and Path(target).is_file()
    if is_file and (moved or kind is ProgramKind.COMMAND):  # a command without a slash would be looked up in PATH
        job = replace(job, program=replace(job.program, target=str(Path(target).absolute())))

    def absolute(setup: Setup, default: str = "") -> Setup:
        if moved and setup.python is not None and "/" in setup.python:
            setup = replace(setup, python=str(Path(setup.python).absolute()))
        cwd = setup.cwd or default
        return replace(setup, cwd=str(Path(cwd).absolute())) if job.watches and cwd else setup

    setups = {kind: absolute(setup) for kind, setup in job.setups.items()}
    return replace(job, setup=absolute(job.setup, "."), setups=setups)


def _read(job_file: str) -> GivenOptions:
    if not job_file:
        raise BadJob(["-f is empty. Name a job file, or leave it out."])
    try:
        text = Path(job_file).read_text(encoding="utf-8-sig")  # editors on Windows write a byte order mark
    except OSError as error:
        raise BadJob([f"The job file {job_file} can't be read: {error.strerror}."]) from None
    except UnicodeDecodeError:
        raise BadJob([f"The job file {job_file} is not UTF-8 text, as TOML has to be."]) from None
    from clusterkit.job.jobfile import read_job_file  # imported here, since most runs have no job file

    return read_job_file(text, job_file)


def _resume(job: JobSpec) -> RunDirectory | None:
    if not job.resume:
        return None
    run = RunStore().find(job.resume)
    if run.is_live():
        raise ClusterkitError(f"The run {run.run_id} is still running, so it can't be resumed. Stop it first.")
    directory = run.used_checkpoints()
    if not has_files(directory) and not _saved_elsewhere(run):
        raise ClusterkitError(
            f"--resume {run.run_id}: that run left no checkpoint in {directory}, so there is nothing to resume. "
            "Let the program save checkpoints in CLUSTERKIT_CHECKPOINT_DIR, for example with "
            "clusterkit.training.Backup() in Keras' fit or with clusterkit.training.Checkpointer; "
            "or omit --resume to begin at step 0."
        )
    return run


def _saved_elsewhere(run: RunDirectory) -> bool:
    """Return whether the newest checkpoint that the run's tasks reported is in another directory, and still exists."""
    from clusterkit.ledger.takeover import result_of

    result, info = result_of(run), run.info()
    if result is None or info is None or result.checkpoint is None:
        return False
    path = Path(info.cwd, result.checkpoint)
    with suppress(OSError, ValueError):
        return any(path.parent.glob(f"{escape(path.name)}*"))
    return False


@dataclass(frozen=True, slots=True)
class Display:
    """How a run is shown on the terminal."""

    show: Show = field(default_factory=Show)
    level: Level = Level.INFO


@dataclass(frozen=True, slots=True)
class PendingRun:
    """A run that is about to begin in this process or in another process."""

    prepared: Prepared
    run_id: str
    display: Display
    launch: Launch | None = None  # how to start the run's fork server; None for cold starts
    starters: frozenset[int] = frozenset()  # pids of the processes that started the run; never killed as strays

    @property
    def directory(self) -> RunDirectory:
        """Return the run's directory, which may not exist yet."""
        return RunStore().run(self.run_id, self.prepared.job.checkpoint_dir)

    def with_warning(self, warning: str) -> PendingRun:
        return replace(self, prepared=replace(self.prepared, warnings=(*self.prepared.warnings, warning)))


def make_and_lock(directory: RunDirectory) -> tuple[int, ...]:
    """Create a run's directory, and lock it and its checkpoints; return the descriptors that hold the locks.

    Raises RunDirectoryError.
    """
    directory.make()
    Removals(directory.path.parent.parent).discard(directory.run_id)  # an earlier run with this id
    try:
        lock = directory.lock()
        return lock, *lock_checkpoints(directory, RunStore(directory.path.parent.parent).all())
    except RunDirectoryError:
        directory.discard()
        raise
