"""Verifies a job: runs its first steps in one process and on its workers, and compares what they compute."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Sequence
from contextlib import suppress
from functools import partial

from clusterkit import __version__
from clusterkit.chaos.trial import FinishedRun, JobTemplate, Trials
from clusterkit.check.own_files import own_files
from clusterkit.exam.equality import never
from clusterkit.exam.recording import NUDGE, Recording, following
from clusterkit.exam.recordings import by_task, recordings
from clusterkit.exam.runs import STEPS, WIDTH, with_workers, workers_of
from clusterkit.exam.verdict import ON_HOSTS, PARAMETER_SERVERS, not_comparable, verdict
from clusterkit.job.options import GivenOptions, Options
from clusterkit.store.store import RunStore, new_run_id
from clusterkit.store.verdicts import VerdictStore, key_of
from clusterkit.system.platform import platform_of
from clusterkit.text.printable import printable
from clusterkit.views.tracebacks import cause_lines
from clusterkit.words import wire
from clusterkit.words.job import JobSpec
from clusterkit.words.model import ProgramKind, Shape
from clusterkit.words.outcome import RunState
from clusterkit.words.verification import Equality, Verification, VerifyRequest

LONGEST = 300.0  # seconds; a run whose first steps take longer is ended, unless the job has a shorter time limit
SEED = 1  # the seed of both runs if the job has none
# Options that the runs of a verification do without, since they act outside the run or end it in another way.
OMITTED = (
    *("fault", "run_id", "watch", "watch_fresh", "min_workers", "restart", "restart_budget", "pcap", "network"),
    *("dashboard", "dashboard_control", "tensorboard", "on_failure", "on_recovery", "on_stall", "on_end"),
    *("pdb", "debugpy", "debugpy_wait", "evaluator", "allow"),
)
VERSIONS = ("python", "tensorflow", "keras", "tf_keras", "numpy")
LIBRARIES = ("TF_", "KERAS_", "XLA_", "JAX_")  # the variables of the shell on which a verdict depends


class Verifier:
    """Verifies one job. `close` ends its runs and removes them."""

    def __init__(self, job: JobSpec, options: GivenOptions, request: VerifyRequest) -> None:
        template = JobTemplate(job, options.options).with_changes({}, *OMITTED)
        self.trials = Trials(template, f"verify-{new_run_id()}", kind="verification")
        self.job, self.request = job, request
        self.store = VerdictStore(self.trials.store.home)
        self._started: list[str] = []  # the ids of the runs

    def known(self) -> Verification | None:
        """Return the verdict if it needs no run: an earlier one, or the reason why the job can't be compared."""
        if self.job.shape is Shape.PARAMETER_SERVER:
            return not_comparable(PARAMETER_SERVERS)
        if self.job.hosts.count:
            return not_comparable(ON_HOSTS)
        return None if (key := self._key()) is None else self.store.find(key)

    def verify(self) -> Verification:
        """Run the first steps twice, and return and store the verdict. Raises CannotRun."""
        workers = workers_of(self.job)
        alone = self._run("one-process", with_workers(self.job, 1))
        if isinstance(alone, Verification):
            return alone
        several = self._run("workers", {})
        if isinstance(several, Verification):
            return several
        rerun = partial(self._follow, several[0]) if several else never
        found = verdict(next(iter(alone), None), several, workers, self.request.steps, rerun)
        if found.equality is not Equality.NOT_COMPARABLE and (key := self._key()) is not None:
            self.store.keep(key, found)
        return found

    def close(self) -> None:
        self.trials.stop()
        for run_id in self._started:
            self.trials.remove(run_id)

    def _follow(self, leader: Recording, nudged: bool) -> Recording | None:
        """Run the first steps in one process that follows the workers: see `clusterkit.exam.equality.Rerun`."""
        name = "nudged" if nudged else "followed"
        words = [following(self._run_id("workers"), leader), *([NUDGE] if nudged else [])]
        followed = self._run(name, with_workers(self.job, 1), *words)
        return None if isinstance(followed, Verification) else next(iter(followed), None)

    def _run(self, name: str, changes: Options, *words: str) -> Sequence[Recording] | Verification:
        """Run the first steps; return the recordings, the leader's first, or the verdict if the run failed before.

        The texts in `words` are added to --record.
        """
        steps = self.request.steps
        due = [*(str(step) for step in STEPS if step < steps), str(steps), *words]
        limit = min(self.job.limits.job or LONGEST, LONGEST)
        own: Options = {
            "verify": "no",
            "record": ",".join([*due, "no-dropout", f"stop={steps}"]),
            "seed": SEED if self.job.seed is None else self.job.seed,
            "restart": "never",
            "timeout": limit,
        }
        run_id = self._run_id(name)
        self._started.append(run_id)
        run = self.trials.run_job(run_id, {**own, **changes})
        tasks = sorted(by_task(recordings(run.run.recorded)), key=lambda one: one.task != self.job.leader)
        if run.has_succeeded or (tasks and all(recording.end is not None for recording in tasks)):
            return tasks
        where = "in one process" if changes else "on its workers"
        if run.result is not None and run.result.state is RunState.TIMED_OUT:
            return not_comparable(f"its first {steps} steps did not end {where} within {limit:g} s")
        why = "; ".join(one.rstrip(".") for one in _reasons(run))
        return not_comparable(f"its first steps fail {where}: {why}")

    def _run_id(self, name: str) -> str:
        return f"{self.trials.campaign}-{name}"

    def _key(self) -> str | None:
        """Return the name of the verdict; None if the versions or the program's files are not known."""
        platform = platform_of(self.job.setup.python)
        if "tensorflow" not in platform or self.job.program.kind is ProgramKind.COMMAND:
            return None
        files = None
        with suppress(OSError):
            files = own_files(self.job)
        if files is None or files.program not in files.digests:
            return None
        job = self.job
        return key_of({
            "files": {str(path): digest for path, digest in files.digests.items()},
            "program": wire.encode(job.program),
            "setups": [wire.encode(setup) for setup in (job.setup, *job.setups.values())],
            "counts": {str(kind): count for kind, count in job.counts.items() if count},
            "versions": {name: platform.get(name, "") for name in VERSIONS},
            "clusterkit": __version__,
            "libraries": {name: text for name, text in os.environ.items() if name.startswith(LIBRARIES)},
            "options": [job.seed, job.resume, str(job.convention), job.keras, job.patches, str(job.tf_config)],
            "steps": self.request.steps,
        })  # fmt: skip


def _reasons(run: FinishedRun) -> list[str]:
    """Return why a run failed, and an explanation or the last line of the error."""
    result = run.result
    if result is None or result.cause is None:
        return run.why
    if result.explanations:
        return [*run.why, str(result.explanations[0])]
    return [*run.why, *(printable(line) for line in cause_lines(result.cause.tail, WIDTH)[-1:])]


def program_key(job: JobSpec) -> str:
    """Return the name of a program in the store of verdicts, which does not depend on its content or arguments."""
    target = job.program.target if job.program.kind is ProgramKind.MODULE else os.path.realpath(job.program.target)
    return hashlib.sha256(os.fsencode(target)).hexdigest()[:40]


def met_first(job: JobSpec) -> bool:
    """Note that a program was verified, examined or mentioned; return whether this was the first time."""
    return VerdictStore(RunStore().home).is_new(program_key(job))
