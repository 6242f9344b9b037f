"""`clusterkit rm`, `prune` and `reap`: remove finished runs and campaigns, and end the processes of lost runs."""

from __future__ import annotations

import sys
import time
from typing import NoReturn

import click

from clusterkit.cli.addressing import RunId
from clusterkit.cli.help import DURATION, Command, json_option, option
from clusterkit.cli.terminal import can_ask, echo, echo_json, say
from clusterkit.store.campaigns import CampaignFile
from clusterkit.store.cleaning import StillLive, StillWanted, can_continue, reap_strays, remove
from clusterkit.store.directory import RunDirectory
from clusterkit.store.store import MOST_SHOWN, NoSuchRun, RunStore, newest_first
from clusterkit.text.spelling import listed
from clusterkit.words.errors import ClusterkitError
from clusterkit.words.model import number_of


@click.command("rm", cls=Command, examples=[("rm 20261122-080115-c2ea mine", "")])
@click.argument("runs", nargs=-1, required=True, type=RunId(), metavar="RUN...")
@option("--prefix", is_flag=True, help="RUN may be the beginning of an id. Without --prefix, ask on a terminal.")
@option("--force", is_flag=True, help="Also remove runs that --continue could continue: suspended and lost ones.")
@json_option
def rm(runs: tuple[str, ...], prefix: bool, force: bool, as_json: bool) -> None:
    """Remove runs that are over, with everything in their directories, or the records of finished campaigns."""
    store, found, problems = RunStore(), list[RunDirectory | CampaignFile](), list[ClusterkitError]()
    for name in dict.fromkeys(runs):
        try:
            found.append(_find(store, name, prefix))
        except ClusterkitError as error:
            problems.append(error)
    removed = list[str]()
    for one in found:
        try:
            one.remove() if isinstance(one, CampaignFile) else remove(one, "`clusterkit rm`", force)
            removed.append(_id(one))
        except ClusterkitError as error:
            problems.append(error)
    _print_and_exit(removed, problems, {"removed": removed}, as_json)


def _find(store: RunStore, name: str, prefix: bool) -> RunDirectory | CampaignFile:
    """Return the run or campaign with this id. Raises NoSuchRun.

    The beginning of an id is accepted if --prefix is given or the user agrees.
    """
    found = store.find_any(name)
    whole = _id(found)
    question = f"{name!r} is the beginning of the id {whole}. Remove {whole}?"
    if prefix or name == whole or (can_ask() and click.confirm(question, err=True)):
        return found
    raise NoSuchRun(f"{whole} was not removed: {name!r} is the beginning of its id. Give the whole id, or --prefix.")


@click.command(
    "prune",
    cls=Command,
    examples=(
        ("prune --older-than 7d", "Runs that ended more than a week ago."),
        ("prune --keep 20 --dry-run", "Show what would be removed if 20 runs were kept."),
    ),
)
@option("--older-than", type=DURATION, metavar="AGE", help="Runs that ended longer ago than this, such as 7d.")
@option("--keep", type=click.IntRange(min=0), metavar="N", help="All finished runs except the newest N.")
@option("--dry-run", is_flag=True, help="Only print which runs would be removed.")
@json_option
def prune(older_than: float | None, keep: int | None, dry_run: bool, as_json: bool) -> None:
    """Remove old runs that are over, and the records of old campaigns, selected by --older-than, --keep, or both.

    Runs that --continue could continue are kept: suspended ones, and those that lost their supervisor.
    """
    if older_than is None and keep is None:
        raise click.UsageError("Select runs with --older-than 7d, --keep 10, or both.")
    now, store, least = time.time(), RunStore(), older_than or 0.0
    ended = [run for run in newest_first(store.all()) if run.is_over()]
    wanted = [run for run in ended if can_continue(run)]
    over = [run for run in ended if run not in wanted][keep or 0 :]
    records = sorted((one for one in store.campaigns() if not one.is_live()), key=lambda one: one.changed())
    campaigns = records[::-1][keep or 0 :]
    kept = [run.run_id for run in wanted if now - run.changed() >= least]
    removed, problems = list[str](), list[ClusterkitError]()
    chosen: list[RunDirectory | CampaignFile] = [*over, *campaigns]
    for one in chosen:
        if now - one.changed() < least:
            continue
        try:
            if not dry_run:
                one.remove() if isinstance(one, CampaignFile) else remove(one, "`clusterkit prune`")
            removed.append(_id(one))
        except (StillLive, StillWanted):
            kept.append(_id(one))  # somebody continues the run, or resumes from it, since it was listed
        except ClusterkitError as error:
            problems.append(error)
    if kept and not as_json:
        say(_about_kept(kept))
    _print_and_exit(removed, problems, {"removed": removed, "kept": kept}, as_json)


def _about_kept(kept: list[str]) -> str:
    what, them = ("1 run that", "it") if len(kept) == 1 else (f"{len(kept)} runs that", "them")
    names = listed(kept, MOST_SHOWN)
    return (
        f"Kept {what} can be continued with `up --run-id ID --continue`: {names}. "
        f"`clusterkit rm --force ID` removes {them}."
    )


def _print_and_exit(
    removed: list[str], problems: list[ClusterkitError], answer: dict[str, list[str]], as_json: bool
) -> NoReturn:
    """Print the ids of what was removed, print all problems, and exit."""
    if as_json:
        echo_json(answer)
    else:
        echo("".join(f"{name}\n" for name in removed), nl=False)
    for problem in problems:
        say(problem)
    sys.exit(1 if problems else 0)


def _id(one: RunDirectory | CampaignFile) -> str:
    return one.run_id if isinstance(one, RunDirectory) else one.campaign_id


@click.command("reap", cls=Command, examples=[("reap --all", "In every state directory.")])
@option("--all", "everywhere", is_flag=True, help="Also for runs in other state directories.")
def command(everywhere: bool) -> None:
    """Kill the processes of runs that lost their supervisor."""
    counts = reap_strays(everywhere)
    for run_id, count in counts.items():
        echo(f"Ended {number_of('process', count)} of the run {run_id}.")
    if not counts:
        echo("Nothing was left behind.")
