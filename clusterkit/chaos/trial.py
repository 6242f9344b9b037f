"""Runs one job repeatedly, for a campaign or an exam: derives the job and the series' name from options."""

from __future__ import annotations

import shlex
import shutil
import tempfile
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import cast

from clusterkit.api.options import gathered
from clusterkit.api.supervisor import PUSH, Supervisor
from clusterkit.chaos.invariants import DEFAULT, Measure, violations
from clusterkit.chaos.model import Baseline, Outcome, Trial, fault_outcomes
from clusterkit.chaos.schedule import budget
from clusterkit.chaos.shrinking import pinned
from clusterkit.job.options import (
    GivenOptions,
    JobOptions,
    Options,
    env_flags,
    job_flags,
    missing_in_shell,
    pasteable_env_flags,
)
from clusterkit.store.cleaning import find_leaks, remove
from clusterkit.store.directory import RunDirectory
from clusterkit.store.journal import JournalReader
from clusterkit.store.store import RunStore, new_run_id
from clusterkit.supervisor.prepare import prepare
from clusterkit.words.errors import BadJob, ClusterkitError
from clusterkit.words.events import Event, FaultInjected
from clusterkit.words.job import JobSpec, RestartRules
from clusterkit.words.outcome import RunResult, RunState
from clusterkit.words.secrets import without_credentials

NOT_RECORDED = ("cause", "collateral", "attempts")  # long entries of result.json that the record omits
# A run's timeout is TIMEOUT_FACTOR times the duration of the baseline, but at least LEAST_TIMEOUT seconds.
LEAST_TIMEOUT, TIMEOUT_FACTOR = 60.0, 10.0
NO_TIMEOUT = 1e9  # seconds; practically unlimited, since --timeout ends the run


During = Callable[[Supervisor, RunDirectory], None]
LONGEST_NAME = 40  # characters; the maximum length of the name with which the ids of the runs begin


class CannotRun(ClusterkitError):
    """A run of a campaign can't be started, for a reason that has nothing to do with its job."""


@dataclass(frozen=True, slots=True)
class JobTemplate:
    """The job of a campaign, and the options from which it was made."""

    job: JobSpec
    options: JobOptions

    def given_options(self) -> GivenOptions:
        """Return the options in the form that `Supervisor` takes."""
        options = self.options.copy()
        given = gathered(options.pop("program", None), options.pop("args", ()), options)
        if "fault" in options and not options["fault"]:
            given.options["fault"] = ()  # an omitted option would not replace the faults of a job file
        return given

    def command(self, name: str = "up", *own: str, shell: Mapping[str, str] | None = None) -> str:
        """Return the command line `clusterkit NAME OWN…` for the job. Secrets are not included.

        The shell's environment has to provide them. With `shell`, the variables of the shell into which the user may
        paste the command, other values of --env are included. A command that is stored has none of them.
        """
        return shlex.join(map(without_credentials, ["clusterkit", name, *own, *self.words(shell)]))

    def words(self, shell: Mapping[str, str] | None = None) -> list[str]:
        """Return command-line arguments: the options, the program and the program's arguments."""
        options = self.options.copy()
        options.pop("env", None)
        show = self.job.show_env
        flags = env_flags(self.env, show) if shell is None else pasteable_env_flags(self.env, show, shell)
        return [*flags, *job_flags(options)]

    @property
    def env(self) -> dict[str, str]:
        """The variables that were given as options, not those of a job file."""
        return {name: str(value) for name, value in self.options.get("env", {}).items()}

    def left_out(self, shell: Mapping[str, str]) -> list[str]:
        """Return the variables whose values a command for this shell leaves out, and which the shell does not have."""
        return missing_in_shell(self.env, self.job.show_env, shell)

    def with_changes(self, changes: Options, *without: str) -> JobTemplate:
        """Return a copy with changed options and without the options in `without`."""
        kept = {name: value for name, value in self.options.items() if name not in without}
        return replace(self, options=cast(JobOptions, kept | changes))


@dataclass(slots=True)
class FinishedRun:
    """A finished run, read from its files."""

    run: RunDirectory
    result: RunResult | None
    events: list[tuple[float, Event]]
    problems: list[str]

    @property
    def has_succeeded(self) -> bool:
        return self.result is not None and self.result.state is RunState.SUCCEEDED

    @property
    def why(self) -> list[str]:
        """The reasons why the run failed, as clauses or sentences."""
        return self.problems or [self.result.reason if self.result else "it left no result"]


@dataclass(slots=True)
class Trials:
    """Runs trials until `stop` is called. Thread-safe."""

    template: JobTemplate
    campaign: str
    keep: bool = False
    measure: Measure = DEFAULT
    kind: str = "campaign"  # "campaign" or "exam"
    store: RunStore = field(default_factory=RunStore)
    stopped: bool = False
    _live: set[Supervisor] = field(default_factory=set)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def baseline(self) -> FinishedRun:
        """Run the job without faults.

        While a fault waits for a step, tasks report every step at once. They do so here as well: so the baseline shows
        how long after the report of a step the checkpoint is written, and faults can hit the write.
        """
        return self.run_job(f"{self.campaign}-baseline", {"fault": [], "every_step": True})

    def run(self, trial: Trial, baseline: Baseline, name: str = "") -> Outcome:
        """Run a trial, and check the invariants. `name` is set for candidates of shrinking, whose files are removed."""
        run_id = f"{self.campaign}-{trial.number}{name}"
        ended = self.run_job(run_id, self._options_of(trial))
        job, events = replace(self.template.job, faults=trial.faults), ended.events
        stopped = self.stopped
        left = () if stopped else find_leaks(self.store, run_id).sentences
        found = [*violations(job, baseline, ended.result, events, left, self.measure), *ended.problems]
        outcome = Outcome(
            trial=trial,
            run_id=run_id,
            directory=str(ended.run.path),
            duration=0.0 if ended.result is None else ended.result.duration,
            violations=tuple(found),
            injections=fault_outcomes(job, events, not found),
            pinned=pinned([event for _, event in events if isinstance(event, FaultInjected)]),
            record={key: value for key, value in ended.run.read_result().items() if key not in NOT_RECORDED},
            interrupted=stopped and bool(events) and not ended.has_succeeded,
        )
        if name or not (outcome.interrupted if stopped else found or self.keep):
            self.remove(run_id)
        return outcome

    def replay(self, trial: Trial, shell: Mapping[str, str] | None = None) -> str:
        """Return a command that runs the trial again; `shell` is as for `JobTemplate.command`."""
        places = self._own_paths(f"{self.campaign}-{trial.number}-replay")
        return self.template.with_changes({**places, **self._options_of(trial)}, "run_id").command(shell=shell)

    def remove(self, run_id: str) -> None:
        """Remove a run's directory, checkpoints and packet capture."""
        places = self._own_paths(run_id)
        with suppress(ClusterkitError, OSError):
            remove(self.store.run(run_id), force=True)
        if "checkpoint_dir" in places:
            shutil.rmtree(places["checkpoint_dir"], ignore_errors=True)
        if "pcap" in places:
            Path(places["pcap"]).unlink(missing_ok=True)

    def stop(self) -> None:
        """End all live runs, and start no more runs."""
        with self._lock:
            self.stopped = True
            live = list(self._live)
        patience = self.template.job.limits.grace + PUSH
        ending = [threading.Thread(target=supervisor.end, args=(patience,)) for supervisor in live]
        for thread in ending:
            thread.start()
        for thread in ending:
            thread.join()

    def run_job(self, run_id: str, changes: Options, during: During = lambda supervisor, run: None) -> FinishedRun:
        """Run the job with changed options, and wait for its end. Call `during` after the start. Raises CannotRun."""
        try:
            return self._run_to_end(run_id, changes, during)
        except OSError as error:  # for example, the disk is full, or there are too many open files
            raise CannotRun(f"The run {run_id} can't be started: {error.strerror or error}.") from None

    def _run_to_end(self, run_id: str, changes: Options, during: During) -> FinishedRun:
        run = self.store.run(run_id)
        own: Options = {"verify": "no", "run_id": run_id, "part_of": f"{self.kind}/{self.campaign}"}
        invoked = self.template.with_changes({**self._own_paths(run_id), **own, **changes}).given_options()
        with tempfile.TemporaryDirectory(prefix="clusterkit-") as temporary:
            with self._lock:
                if self.stopped:
                    return FinishedRun(run, None, [], [])
                supervisor = Supervisor(invoked, run_id, self.store.home, Path(temporary, "console"))
                self._live.add(supervisor)
            during(supervisor, run)
            supervisor.wait(NO_TIMEOUT)
            with self._lock:
                self._live.discard(supervisor)
            result = run.result()
            problems = supervisor.problems() if result is None else []
            supervisor.close(run)
        stamped = JournalReader(run).events()
        events = [(at - stamped[0][0], event) for at, event in stamped]
        return FinishedRun(run, result, events, problems)

    def _options_of(self, trial: Trial) -> Options:
        """Return the options of a trial. They include a sufficient restart budget unless the user set a budget."""
        own = self.restart_budget(budget(trial.faults, self.template.job.restart))
        return {**own, "seed": trial.seed, "fault": list(map(str, trial.faults))}

    def restart_budget(self, restarts: int) -> Options:
        """Return an option that allows this number of restarts; no option if the user set a budget."""
        usual = self.template.job.restart.budget == RestartRules().budget
        return {"restart_budget": restarts} if usual and "restart_budget" not in self.template.options else {}

    def limit(self, duration: float) -> None:
        """Derive the timeout of later runs from the duration of a run, in seconds, unless the user set a timeout."""
        if not self.template.job.limits.job:
            self.template = self.template.with_changes(
                {"timeout": round(max(LEAST_TIMEOUT, TIMEOUT_FACTOR * duration))}
            )

    def _own_paths(self, run_id: str) -> Options:
        """If the user set paths for checkpoints or captured packets, return paths that only this run uses."""
        places: Options = {}
        if self.template.job.checkpoint_dir is not None:
            places["checkpoint_dir"] = str(Path(self.template.job.checkpoint_dir, run_id))
        if self.template.job.pcap is not None:
            file = Path(self.template.job.pcap)
            places["pcap"] = str(file.with_name(f"{file.stem}-{run_id}{file.suffix}"))
        return places


def template_from(options: GivenOptions) -> tuple[JobTemplate, tuple[str, ...]]:
    """Check the options; return the job and warnings for the user. Raises BadJob."""
    prepared = prepare(options)
    if prepared.job.watches:
        raise BadJob(["--watch is not for series of runs: one that fails would wait for a change of its program."])
    return JobTemplate(prepared.job, options.options), prepared.warnings


def campaign_name(asked: JobTemplate, kind: str) -> str:
    """Return the name of a campaign or an exam, with which the ids of its runs begin. Raises BadJob."""
    name = str(asked.options.get("run_id") or f"{kind}-{new_run_id()}")
    if len(name) > LONGEST_NAME:
        raise BadJob([f"--run-id has {len(name)} letters; the names of its runs need some more. Use {LONGEST_NAME}."])
    return name
