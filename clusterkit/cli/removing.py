"""`clusterkit rm` and `clusterkit prune`: remove finished runs, with their logs and checkpoints, and campaigns."""

from __future__ import annotations

import sys
import time

import click

from clusterkit.cli.addressing import RunId
from clusterkit.cli.errors import exit_on_error
from clusterkit.cli.help import Command, option
from clusterkit.cli.options import Duration
from clusterkit.cli.params import echo_json, json_option
from clusterkit.cli.terminal import echo


@click.command("rm", cls=Command, examples=[("rm 20261122-080115-c2ea mine", "")])
@click.argument("runs", nargs=-1, required=True, type=RunId(), metavar="RUN...")
@json_option
def rm(runs: tuple[str, ...], as_json: bool) -> None:
    """Remove finished runs with everything in their directories, or the records of campaigns. Live ones are refused."""
    from clusterkit.client.campaigns import CampaignFile
    from clusterkit.client.cleaning import remove
    from clusterkit.client.store import RunStore
    from clusterkit.words.errors import ClusterkitError

    removed, problems = list[str](), list[ClusterkitError]()
    for name in runs:
        try:
            found = RunStore().find_any(name)
            if isinstance(found, CampaignFile):
                found.remove()
                removed.append(found.campaign_id)
            else:
                remove(found)
                removed.append(found.run_id)
        except ClusterkitError as error:
            problems.append(error)
    _print(removed, as_json)
    for problem in problems:
        echo(f"clusterkit: {problem}", err=True)
    sys.exit(1 if problems else 0)


@click.command(
    "prune",
    cls=Command,
    examples=(
        ("prune --older-than 7d", "Runs that ended more than a week ago."),
        ("prune --keep 20 --dry-run", "Show what would go if 20 stayed."),
    ),
)
@option("--older-than", type=Duration(), metavar="AGE", help="Runs that ended longer ago than this, such as 7d.")
@option("--keep", type=click.IntRange(min=0), metavar="N", help="All finished runs but the newest N.")
@option("--dry-run", is_flag=True, help="Only print which runs would be removed.")
@json_option
def prune(older_than: float | None, keep: int | None, dry_run: bool, as_json: bool) -> None:
    """Remove old finished runs, selected by --older-than, --keep, or both, and the records of campaigns likewise."""
    from clusterkit.client.cleaning import remove
    from clusterkit.client.store import RunStore, newest_first

    if older_than is None and keep is None:
        raise click.UsageError("Select runs with --older-than 7d, --keep 10, or both.")
    now, store = time.time(), RunStore()
    with exit_on_error():
        over = [run for run in newest_first(store.all()) if run.is_over()][keep or 0 :]
        chosen = [run for run in over if now - run.changed() >= (older_than or 0.0)]
        ended = sorted(
            (one for one in store.campaigns() if not one.is_live()), key=lambda one: one.changed(), reverse=True
        )
        campaigns = [one for one in ended[keep or 0 :] if now - one.changed() >= (older_than or 0.0)]
        for run in chosen if not dry_run else ():
            remove(run)
        for campaign in campaigns if not dry_run else ():
            campaign.remove()
    _print([*(run.run_id for run in chosen), *(campaign.campaign_id for campaign in campaigns)], as_json)


def _print(removed: list[str], as_json: bool) -> None:
    if as_json:
        echo_json({"removed": removed})
    else:
        echo("".join(f"{name}\n" for name in removed), nl=False)
