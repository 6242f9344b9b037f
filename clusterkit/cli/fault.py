"""`clusterkit fault`: inject faults into a live run, or end them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from clusterkit.cli.errors import exit_on_error
from clusterkit.cli.params import RunId, echo_json, json_option, run_option
from clusterkit.cli.terminal import echo
from clusterkit.words.errors import ClusterkitError

if TYPE_CHECKING:
    from clusterkit.client.directory import RunDirectory
    from clusterkit.words.faults import Fault


class BadFault(ClusterkitError):
    """The faults cannot be injected; none was."""

    exit_code = 2


class RunOrFault(RunId):
    """A run id or a fault; completion suggests runs."""

    name = "fault"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        if not value:
            self.fail("A run id or a fault is not empty.", param, ctx)
        return str(value)


@click.command("fault")
@run_option
@click.argument("words", nargs=-1, type=RunOrFault(), metavar="[RUN] FAULT...")
@click.option("--heal", is_flag=True, help="End every open fault now.")
@json_option
def command(run: str | None, words: tuple[str, ...], heal: bool, as_json: bool) -> None:
    """Inject faults. A FAULT is 'ACTION TARGET [for=10s] [@ TRIGGER]', such as 'kill worker:1 @ step=100'.

    \b
    Actions  on tasks: kill, term, stop, slow [share=20%], hang-start, memory [limit=1GB]
             on the virtual network: partition, delay [by=100ms jitter=10ms],
             loss [share=10%], rate [limit=100KB], reset;
             of tasks from the rest, or 'worker:0,ps:0 | worker:1'
             on checkpoints: corrupt-checkpoint [how=flip|truncate], disk-full
    Targets  worker:1, worker (one at random), worker:*, any, all, random(2)
    Triggers 20s, step=100, ready, checkpoint, restart (restart=2: the second), every=10s,
             every=50steps, every=checkpoint; and p=0.5 for a probability. Without one: now.
    """
    with exit_on_error():
        run, faults = _split(run, words)
        if not faults and not heal:
            raise BadFault("No fault given. Write one, such as 'kill worker:1', or use --heal.")
        chosen, answers = _ask(run, faults, heal)
    if as_json:
        echo_json(answers)
        return
    if heal:
        echo(f"Healed: {', '.join(answers[0]['tasks']) or 'no fault was open'}.")
    for fault in faults:
        echo(f"{chosen.run_id}: {fault}")


def _split(run: str | None, words: tuple[str, ...]) -> tuple[str | None, list[Fault]]:
    """The run, where the first word names one, and the faults. Raises BadFault with the problems of all of them."""
    from clusterkit.words.faults import FaultAction
    from clusterkit.words.grammar import parse_all

    if run is None and words and words[0].split() == [words[0]] and words[0] not in set(FaultAction):
        run, words = words[0], words[1:]
    faults, problems = parse_all(words)
    if problems:
        raise BadFault("\n".join(problems))
    return run, faults


def _ask(run: str | None, faults: list[Fault], heal: bool) -> tuple[RunDirectory, list[dict[str, Any]]]:
    from clusterkit.client.control import Client
    from clusterkit.client.store import RunStore
    from clusterkit.faults.aim import live_problems_of

    chosen = RunStore().choose(run, finished=False)
    info = chosen.info()
    if info and (problems := [p for fault in faults for p in live_problems_of(fault, info.job)]):
        raise BadFault("\n".join(problems))  # the run would report them one at a time
    with Client(chosen) as client:
        answers = [client.call("heal")] if heal else []
        return chosen, answers + [client.call("fault", fault=str(fault)) for fault in faults]
