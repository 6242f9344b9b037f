"""`clusterkit fault`: injects faults into a live run, or ends them."""

from __future__ import annotations

from typing import Any

import click

from clusterkit.cli.addressing import OnRun, RunId, live_run
from clusterkit.cli.help import json_option, option
from clusterkit.cli.terminal import echo, echo_json
from clusterkit.faults.aim import live_problems_of
from clusterkit.store.control import Client
from clusterkit.store.directory import RunDirectory
from clusterkit.store.store import RUN_ID
from clusterkit.words.errors import ClusterkitError
from clusterkit.words.faults import ON_STORAGE, SYNONYMS, Fault, FaultAction
from clusterkit.words.grammar import EXAMPLE, parse_all


class BadFault(ClusterkitError):
    """Raised if some of the faults can't be injected. The command then injects no faults."""

    exit_code = 2


class RunOrFault(RunId):
    """A run id or a fault; completion suggests runs."""

    name = "fault"
    what = "A run id or a fault"


class OnFaults(OnRun):
    """A command that takes a run and faults, which are passed as `run` and `texts`."""

    words = "[RUN] FAULT..."
    kind = RunOrFault()

    def address(self, ctx: click.Context, words: list[str]) -> None:
        if words and words[0].split() == [words[0]] and words[0] not in {*FaultAction, *SYNONYMS}:
            if not RUN_ID.fullmatch(words[0]):
                ctx.fail(f"{words[0]!r} is neither a run nor a fault. Write a fault in quotes: {EXAMPLE!r}.")
            self.set_run(ctx, words.pop(0))
        if len(words) > 1 and words[0] in {*FaultAction, *SYNONYMS} - ON_STORAGE:
            ctx.fail(f"Write a fault in quotes: {' '.join(words)!r}.")
        ctx.params["texts"] = tuple(words)

    def error_hint(self, word: str) -> str:
        return f" It is not a fault either: a fault begins with an action ({', '.join(FaultAction)})."


@click.command(
    "fault",
    cls=OnFaults,
    examples=(
        ("fault 'kill worker:1'", "Kill a worker now."),
        ("fault 'stop any for=10s @ step=500'", "Freeze a task for a while."),
        ("fault 2026 'partition worker:0 | ps:0'", "Cut two tasks of a run off from each other."),
        ("fault --heal", "End all open faults."),
    ),
)
@option("--heal", is_flag=True, help="End every open fault now.")
@json_option
def command(run: str | None, texts: tuple[str, ...], heal: bool, as_json: bool) -> None:
    """Inject faults. A FAULT is 'ACTION TARGET [for=10s] [@ TRIGGER]', such as 'kill worker:1 @ step=100'.

    \b
    Actions on tasks:
      kill, term, stop (freezes it), slow [share=20%], hang-start,
      memory [limit=1GB]
    Actions on the virtual network, between tasks and the rest, or between
    two sides, 'worker:0,ps:0 | worker:1':
      partition, delay [by=100ms jitter=10ms], loss [share=10%],
      rate [limit=100KB], reset
    Actions on checkpoints:
      corrupt-checkpoint [how=flip|truncate], disk-full
    Targets:
      worker:1, worker (one at random), worker:*, any, all, random(2)
    Triggers (without one, the fault happens now):
      20s, step=100, ready, checkpoint, restart, restart=2 (the second),
      every=10s, every=50steps, every=checkpoint; with a probability: p=0.5;
      with `up --fault` only: phase=saving, phase=restoring:2 and others
    """
    faults = _parse(texts)
    if not faults and not heal:
        raise BadFault("No fault given. Write one, such as 'kill worker:1', or use --heal.")
    chosen, answers = _request(run, faults, heal)
    if as_json:
        echo_json(answers)
        return
    if heal:
        echo(f"Healed: {', '.join(answers[0]['tasks']) or 'no fault was open'}.")
    for fault in faults:
        echo(f"{chosen.run_id}: {fault}")


def _parse(texts: tuple[str, ...]) -> list[Fault]:
    """Parse the faults. Raises BadFault, which lists the problems in all of the faults."""
    faults, problems = parse_all(texts)
    if problems:
        raise BadFault("\n".join(problems))
    return faults


def _request(run: str | None, faults: list[Fault], heal: bool) -> tuple[RunDirectory, list[dict[str, Any]]]:
    chosen = live_run(run)
    info = chosen.info()
    if info and (problems := [p for fault in faults for p in live_problems_of(fault, info.job)]):
        raise BadFault("\n".join(problems))  # reported together here; the run would report one problem at a time
    with Client(chosen) as client:
        answers = [client.call("heal")] if heal else []
        return chosen, answers + [client.call("fault", fault=str(fault)) for fault in faults]
