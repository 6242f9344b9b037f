"""Updates the record of a campaign whenever a run begins or ends. Reports and the page show the record."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from clusterkit.chaos.model import Outcome, Trial
from clusterkit.chaos.runner import Campaign, CampaignSettings
from clusterkit.chaos.text import document
from clusterkit.chaos.trial import JobTemplate
from clusterkit.store.campaigns import RUNNING, CampaignFile
from clusterkit.words import wire
from clusterkit.words.secrets import without_secrets

FORMAT = 1  # the version of the record's format; readers ignore unknown keys


@dataclass(slots=True)
class RecordWriter:
    """Writes the record of a campaign. Several threads may call it; if the disk is full, the campaign continues."""

    file: CampaignFile
    head: dict[str, Any]
    warn: Callable[[str], None]
    campaign: Campaign | None = None
    outcomes: list[Outcome] = field(default_factory=list)
    _running: dict[int, Trial] = field(default_factory=dict)
    _warned: bool = False
    _lock: threading.RLock = field(default_factory=threading.RLock)

    @classmethod
    def make(cls, file: CampaignFile, asked: JobTemplate, terms: CampaignSettings, warn: Callable[[str], None],
             **more: Any) -> RecordWriter:  # fmt: skip
        """Create the record of a new campaign, with `more` as additional entries. Raises RunDirectoryError."""
        record = cls(file, {**_head(asked, terms), **more}, warn)
        file.make(record.document())
        return record

    def campaign_began(self, campaign: Campaign) -> None:
        """Record that the run without faults has succeeded, and have the campaign report the start of each run."""
        with self._lock:
            self.campaign = campaign
            campaign.began_at = self.trial_began
            self._write()

    def trial_began(self, trial: Trial) -> None:
        with self._lock:
            self._running[trial.number] = trial
            self._write()

    def trial_ended(self, outcome: Outcome) -> None:
        """Record that a run has ended and, if it failed, that its schedule was shrunk."""
        with self._lock:
            self._running.pop(outcome.trial.number, None)
            self.outcomes.append(outcome)
            self.outcomes.sort(key=lambda one: one.trial.number)
            self._write()

    def close(self, state: str, problem: str = "") -> None:
        """Record the final state, `passed`, `failed` or `stopped`; `problem` is why the campaign could not continue."""
        with self._lock:
            self._running.clear()
            self.head |= {"state": state, "problem": problem, "ended": time.time()}
            self._write()
            self.file.close()

    def document(self) -> dict[str, Any]:
        """Return the current record. Times are in seconds; `begun` and `ended` are wall times."""
        finished = {} if self.campaign is None else campaign_json(self.campaign, self.outcomes)
        running = [
            {"run": trial.number, "run_id": f"{self.head['campaign']}-{trial.number}", "seed": trial.seed,
             "faults": list(map(str, trial.faults))}
            for trial in self._running.values()
        ]  # fmt: skip
        return {**self.head, **finished, "running": sorted(running, key=lambda one: one["run"])}

    def _write(self) -> None:
        try:
            self.file.write(self.document())
        except OSError as error:
            if not self._warned:
                self._warned = True
                self.warn(f"The campaign's record {self.file.path} can't be written: {error.strerror}.")


def campaign_json(campaign: Campaign, outcomes: list[Outcome]) -> dict[str, Any]:
    terms = campaign.terms
    head = {"campaign": terms.name, "seed": terms.seed, "asked_for": terms.runs, "actions": list(terms.actions)}
    return document(campaign.baseline, outcomes, campaign.shrunk, campaign.replay, campaign.interrupted, **head)


def _head(asked: JobTemplate, terms: CampaignSettings) -> dict[str, Any]:
    return {
        "format": FORMAT,
        "campaign": terms.name,
        "state": RUNNING,
        "problem": "",
        "begun": time.time(),
        "ended": None,
        "command": _command(asked, terms),
        "cwd": str(Path.cwd()),
        "seed": terms.seed,
        "asked_for": terms.runs,
        "used": list(terms.actions),
        "rate": terms.rate,
        "parallel": terms.parallel,
        "metric": terms.measure.name,
        "tolerance": terms.measure.tolerance,
        "job": wire.encode(without_secrets(asked.job)),
    }


def _command(asked: JobTemplate, terms: CampaignSettings) -> str:
    """Return the command that repeats the campaign. Like `JobTemplate.command`, it contains no secrets."""
    own = [f"--runs={terms.runs}", f"--actions={','.join(terms.actions)}", f"--rate={terms.rate:g}"]
    own += [] if terms.measure.name is None else [f"--metric={terms.measure.name}"]
    own += [] if terms.measure.tolerance is None else [f"--tolerance={terms.measure.tolerance:g}"]
    own += ["--fail-fast"] * terms.fail_fast + ["--keep"] * terms.keep
    return asked.with_changes({"seed": terms.seed}, "run_id").command("chaos", *own)
