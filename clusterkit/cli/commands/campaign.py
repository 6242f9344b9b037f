"""Runs a campaign and shows its progress, until the campaign is done or a signal stops it."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from types import FrameType

from clusterkit import __version__
from clusterkit.chaos.model import Outcome
from clusterkit.chaos.runner import Campaign, CampaignSettings, RecordWriter, campaign_json
from clusterkit.chaos.text import baseline_line, failure, interruption, run_line, summary
from clusterkit.chaos.trial import FinishedRun, JobTemplate
from clusterkit.cli.terminal import echo, echo_json, is_screen
from clusterkit.store.store import RunStore
from clusterkit.system.platform import platform_of
from clusterkit.system.process import ENDING
from clusterkit.text.printable import columns, fitted, printable_lines
from clusterkit.views.screen import Screen
from clusterkit.views.statusline import BAR, bar
from clusterkit.words.errors import ClusterkitError
from clusterkit.words.model import number_of


class Stopped(BaseException):
    """Raised by a signal handler to stop the campaign."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.number = number


def run_campaign(template: JobTemplate, terms: CampaignSettings, as_json: bool) -> int:
    """Run the campaign, show its progress, and return the exit code. Raises RunDirectoryError."""
    say = ProgressPrinter(terms.runs, to_stderr=as_json)
    file = RunStore().new_campaign(terms.name)
    made_on = {"clusterkit": __version__, "platform": platform_of(template.job.setup.python)}
    record = RecordWriter.make(file, template, terms, lambda text: echo(f"clusterkit: {text}", err=True), **made_on)
    code, problem = 0, ""
    try:
        with stopping_on_signals():
            say.line(_greeting(terms))
            begun = Campaign.begin(template, terms)
            if isinstance(begun, FinishedRun):
                say.line(_no_baseline(begun))
                record.close("failed", _why_failed(begun))
                return 1
            record.campaign_began(begun)
            say.line(baseline_line(begun.baseline, terms.measure.metric_in(begun.baseline)))
            with closing(begun.run()) as ended:
                for outcome in ended:
                    record.trial_ended(outcome)
                    say.run(outcome, begun)
    except Stopped as stopped:
        code = 128 + stopped.number
    except ClusterkitError as error:
        problem = str(error)
    say.done()
    failed = bool(problem) or any(outcome.violations for outcome in record.outcomes)
    record.close("stopped" if code else "failed" if failed else "passed", problem)
    if problem:
        echo(f"clusterkit: The campaign can't continue. {problem}", err=True)
    if record.campaign is not None:
        for outcome in record.campaign.interrupted:
            say.line(interruption(outcome, record.campaign.shown_replay))
        say.line("\n" + summary(record.outcomes, terms.runs, terms.seed))
        say.line(f"\nAs a page: clusterkit report {terms.name}")
        if as_json:
            echo_json(campaign_json(record.campaign, record.outcomes))
    return code or int(failed)


def _greeting(terms: CampaignSettings) -> str:
    side = "one after the other" if terms.parallel == 1 else f"{terms.parallel} at a time"
    runs = number_of("run", terms.runs)
    return f"campaign {terms.name}: {runs}, {side}, seed {terms.seed}. Actions: {', '.join(terms.actions)}."


def _no_baseline(ended: FinishedRun) -> str:
    return f"✘ The job fails even without faults: {_why_failed(ended)}. Its directory: {ended.run.path}"


def _why_failed(ended: FinishedRun) -> str:
    return "; ".join(ended.why).rstrip(".")


@contextmanager
def stopping_on_signals() -> Iterator[None]:
    """Raise Stopped on the first signal that should end this process; ignore later ones until the end of the block."""

    def stop(number: int, _: FrameType | None) -> None:
        for one in ENDING:
            signal.signal(one, signal.SIG_IGN)
        raise Stopped(number)

    previous = {number: signal.signal(number, stop) for number in ENDING}
    try:
        yield
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)


class ProgressPrinter:
    """Prints messages and a line for each run. On a terminal, a progress bar is shown below them."""

    def __init__(self, runs: int, to_stderr: bool) -> None:
        self._runs, self._to_stderr = runs, to_stderr
        stream = sys.stderr if to_stderr else sys.stdout
        self._screen = Screen(stream.fileno(), self._bar, os.getpgrp()) if is_screen(stream) else None
        self._finished_runs = self._failed = 0

    def line(self, text: str) -> None:
        """Print one or more lines."""
        if self._screen is None:
            echo(text, err=self._to_stderr)
        else:
            self._screen.write([f"{printable_lines(text)}\n".encode("utf-8", "replace")])

    def run(self, outcome: Outcome, campaign: Campaign) -> None:
        """Print how a run ended."""
        self._finished_runs += 1
        self._failed += bool(outcome.violations)
        shrunk = campaign.shrunk.get(outcome.trial.number)
        passed = not outcome.violations
        self.line(run_line(outcome, self._runs) if passed else failure(outcome, shrunk, campaign.shown_replay))

    def done(self) -> None:
        """Remove the progress bar."""
        if self._screen is not None:
            self._screen.end()

    def _bar(self, width: int) -> str:
        failed = f", {self._failed} failed" if self._failed else ""
        count = f" {self._finished_runs} of {number_of('run', self._runs)}{failed}"
        room = width - columns(count)
        drawn = bar(self._finished_runs, self._runs, min(room, BAR[1]), color=False) if room >= BAR[0] else ""
        return fitted(f"{drawn}{count}".strip(), width)
