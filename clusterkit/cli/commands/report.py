"""`clusterkit report`: writes a run or a campaign to a file."""

from __future__ import annotations

import os
import stat
import sys
from contextlib import suppress
from pathlib import Path

import click
from click.shell_completion import CompletionItem

from clusterkit.cli.addressing import OnRun, RunId
from clusterkit.cli.help import option
from clusterkit.cli.terminal import echo, write_as_it_is
from clusterkit.store.campaigns import CampaignFile
from clusterkit.store.directory import RunDirectory
from clusterkit.store.store import RunStore
from clusterkit.system.files import why_not_reached
from clusterkit.views.tables import size
from clusterkit.words.errors import RunDirectoryError

FORMATS = ("html", "md")
USUAL_NAMES = {"html": "report.html", "md": "report.md"}
ENDINGS = {".html": "html", ".htm": "html", ".md": "md"}
MARK = b"clusterkit report: "  # a text near the beginning of every report
STDOUT = "-"


class RunOrCampaign(RunId):
    """The id of a run or a campaign, or the beginning of one."""

    name = "run"
    what = "The id of a run or a campaign"

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
        campaigns = [] if ctx.params.get("words") else RunStore().campaigns()
        found = [CompletionItem(one.campaign_id) for one in campaigns if one.campaign_id.startswith(incomplete)]
        return [*super().shell_complete(ctx, param, incomplete), *found]


class OnRunOrCampaign(OnRun):
    """A command that acts on one run or campaign."""

    words = "[RUN|CAMPAIGN]"
    kind = RunOrCampaign()


@click.command(
    "report",
    cls=OnRunOrCampaign,
    usual="the newest live run, or else the newest run or campaign",
    examples=(
        ("report", "The newest run, as report.html."),
        ("report chaos-20261122-110549 -o chaos.html", "A campaign."),
        ("report --format md -o -", "For an issue or a pull request."),
    ),
)
@option(
    "-o", "--output", metavar="FILE", help="Where to write it; - is standard output.",
    show_default="report.html or report.md",
)  # fmt: skip
@option(
    "--format", "kind", type=click.Choice(FORMATS),
    help="An HTML page, or Markdown.", show_default="by the ending of FILE, else html",
)  # fmt: skip
@option("--force", is_flag=True, help="Overwrite FILE even if it is not a report.")
def command(run: str | None, output: str | None, kind: str | None, force: bool) -> None:
    """Write a run or a campaign to one file, which needs neither a server, nor a network, nor the run's directory.

    A page can be opened from disk, and contains everything that the dashboard shows. For long logs, it contains only
    the end of each attempt and the lines around incidents.
    """
    from clusterkit.page.report_file import Format, report

    kind = kind or ENDINGS.get(Path(output or "").suffix, "html")
    output = USUAL_NAMES[kind] if output is None else output
    if output != STDOUT:
        check_output(output, force)
    store = RunStore()
    subject = store.newest_any() if run is None else store.find_any(run)
    text = report(subject, Format(kind), store).encode()
    if output == STDOUT:
        write_as_it_is(text)
        sys.exit(0)
    write_output(Path(output), text)
    echo(f"Wrote {output} ({size(len(text))}): {_name(subject)}.")


def _name(subject: RunDirectory | CampaignFile) -> str:
    if isinstance(subject, CampaignFile):
        return f"the campaign {subject.campaign_id}"
    return f"the run {subject.run_id}"


def check_output(output: str, force: bool) -> None:
    """Raise ClusterkitError if the file should not be written."""
    path = Path(output)
    if not output:
        raise RunDirectoryError("-o is empty. Name a file, or leave it out.")
    if why := why_not_reached(path):
        raise RunDirectoryError(f"Cannot write {path}: {why}.")
    if path.is_dir():
        raise RunDirectoryError(f"{path} is a directory. Name a file in it: -o {path / 'report.html'}")
    if not path.absolute().parent.is_dir():
        raise RunDirectoryError(f"There is no directory {path.parent}.")
    if not force and _is_other_file(path):
        raise RunDirectoryError(f"{path} exists, and is not a report. Choose another -o, or overwrite it with --force.")


def _is_other_file(path: Path) -> bool:
    """Return whether the path is a file that contains anything other than a report."""
    with suppress(OSError):
        if not stat.S_ISREG(path.stat().st_mode):
            return False
        with path.open("rb") as file:
            begin = file.read(1000)
        return bool(begin) and MARK not in begin
    return path.is_file()  # a file that can't be read is not taken for a report


def write_output(path: Path, data: bytes) -> None:
    """Replace a regular file atomically, or write to a device or pipe. Raises ClusterkitError."""
    try:
        if path.exists() and not path.is_file():
            path.write_bytes(data)
            return
        target = path.resolve()
        part = target.with_name(f".{target.name}.{os.getpid()}.part")
        try:
            part.write_bytes(data)
            part.replace(target)
        finally:
            part.unlink(missing_ok=True)
    except OSError as error:
        raise RunDirectoryError(f"Cannot write {path}: {error.strerror}.") from None
