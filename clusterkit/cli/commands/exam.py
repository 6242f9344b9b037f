"""`clusterkit exam`: examines whether a program is correct when distributed, and whether it survives faults."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import quote

import click

from clusterkit.cli.commands.chaos import MOST_SIDE_BY_SIDE
from clusterkit.cli.help import DURATION, Parsed, option
from clusterkit.cli.options import JobCommand, given, job_options, program_argument
from clusterkit.cli.terminal import echo, echo_json, say
from clusterkit.text.spelling import did_you_mean

if TYPE_CHECKING:
    from clusterkit.exam.examiner import Examiner
    from clusterkit.exam.model import Chapter
    from clusterkit.page.report_file import RunsReport


def _cell(text: str) -> str:
    """Check the name of a cell, such as `survival/kill/worker:1/saving-rename`."""
    from clusterkit.exam.model import parse_cell

    return str(parse_cell(text))


def _chapter(text: str) -> Chapter:
    """Return the chapter with this name."""
    from clusterkit.exam.model import Chapter

    if text not in tuple(Chapter):
        raise ValueError(f"{text!r} is not a chapter. {did_you_mean(text, tuple(Chapter), 'The chapters are')}")
    return Chapter(text)


def _args(text: str) -> tuple[str, ...]:
    """Split the arguments for the runs with one worker as a shell does."""
    try:
        return tuple(shlex.split(text))
    except ValueError as error:
        raise ValueError(f"{text!r} can't be split into arguments: {str(error).lower()}.") from None


@click.command(
    "exam",
    cls=JobCommand,
    examples=(
        ("exam --workers 2 train.py", "All chapters, in at most six minutes."),
        ("exam --quick --workers 2 --ps 1 train.py", "One minute."),
        ("exam --chapter equality --chapter resume --workers 2 train.py", "Only two chapters."),
        ("exam --cell resume/killed-between-checkpoints --workers 2 train.py", "Only one cell, again."),
    ),
)
@option("--quick", is_flag=True, help="One fault per phase, in about a minute.")
@option(
    "--budget",
    type=DURATION,
    metavar="TIME",
    help="Start no new cell after this time.",
    show_default="6m, or 1m with --quick",
)
@option(
    "--parallel",
    type=click.IntRange(1, MOST_SIDE_BY_SIDE),
    metavar="N",
    help="Make N runs at the same time.",
    show_default="as many as cores and memory allow",
)
@option("--wide", is_flag=True, help="Also compare one worker with twice the requested number of workers.")
@option(
    "--one-worker-args",
    type=Parsed("ARGS", _args),
    metavar="ARGS",
    help="More arguments of PROGRAM where one worker is compared with several, as one text.",
)
@option("--cell", "cells", type=Parsed("CELL", _cell), multiple=True, help="Examine only this cell.")
@option(
    "--chapter",
    "chapters",
    type=Parsed("CHAPTER", _chapter),
    multiple=True,
    help="Examine only this chapter: repeat, equality, resume or survival.",
)
@option(
    "--require",
    type=Parsed("CHAPTER", _chapter),
    multiple=True,
    help="Exit with 3 only if nothing of this chapter has passed.",
    show_default="each chapter that is examined",
)
@option("-o", "--output", metavar="FILE", help="Also write the exam as an HTML page, and its runs to another file.")
@option("--force", is_flag=True, help="Overwrite FILE even if it is not a report.")
@option("--keep", is_flag=True, help="Keep the directories of all runs, including those that passed.")
@click.option("--json", "as_json", is_flag=True, help="Print everything as JSON, and the progress to stderr.")
@job_options()
@program_argument
def command(
    quick: bool,
    budget: float | None,
    parallel: int | None,
    wide: bool,
    one_worker_args: tuple[str, ...] | None,
    cells: tuple[str, ...],
    chapters: tuple[Chapter, ...],
    require: tuple[Chapter, ...],
    output: str | None,
    force: bool,
    keep: bool,
    as_json: bool,
    **values: object,
) -> None:
    """Run PROGRAM several times and compare what the runs compute.

    Takes every option of `up` that describes a job. Does one worker compute the same as several workers? Does a stopped
    job continue where it stopped? Does the job survive each fault in each phase? Exit code: 0 if nothing failed and a
    cell of each chapter passed, 1 if a cell failed, 3 if nothing of a chapter was seen, 4 if the program could not be
    examined. With --chapter or --cell, only these chapters and cells count.

    The program is not changed. If it sets no seed, TensorFlow and Keras get the same seed in all tasks, and NumPy and
    Python's random get a different seed in each worker of a gang. TensorFlow's operations are made deterministic, and
    dropout is turned off when one worker is compared with several.
    """
    from clusterkit.exam.setup import ExamSettings, make_examiner
    from clusterkit.exam.verifying import met_first

    _check_page(output, force)
    settings = ExamSettings(
        quick, budget, cells, keep, wide, chapters, require or None, parallel, one_worker_args or ()
    )
    examiner, warnings = make_examiner(given(values), settings)
    for warning in warnings:
        say(warning)
    met_first(examiner.trials.template.job)
    path = None if output is None else Path(output)
    pages = None if path is None else _pages(examiner, path, force)
    code = _run(examiner, as_json, pages)
    if path is not None and pages is not None:
        _write_page(examiner, path, pages, as_json)
    sys.exit(code)


def _check_page(output: str | None, force: bool) -> None:
    """Raise ClusterkitError or click.BadParameter if the page can't or should not be written."""
    from clusterkit.cli.commands.report import STDOUT, check_output

    if output == STDOUT:
        raise click.BadParameter("Name a file; --json writes to standard output.", param_hint="-o")
    if output is not None:
        check_output(output, force)


def _pages(examiner: Examiner, path: Path, force: bool) -> RunsReport:
    """Return an empty report for the runs, which will be written next to `path`.

    Raises ClusterkitError if that file can't or should not be written.
    """
    from clusterkit.cli.commands.report import check_output
    from clusterkit.page.report_file import RunsReport

    check_output(str(_beside(path)), force)
    return RunsReport(f"runs of {examiner.report.name}", (quote(path.name), "The exam"))


def _beside(path: Path) -> Path:
    """Return the path of the file for the runs' pages, such as `exam.runs.html` for `exam.html`."""
    return path.with_name(f"{path.stem}.runs.html")


def _run(examiner: Examiner, as_json: bool, pages: RunsReport | None) -> int:
    """Run the exam, print the result of each cell, and return the exit code. `pages` collects the cells' runs."""
    from clusterkit.cli.commands.campaign import Stopped, stopping_on_signals
    from clusterkit.exam.text import cell_lines, document, is_out_of_reach, out_of_reach_lines, summary
    from clusterkit.words.errors import ClusterkitError

    report, code = examiner.report, 0
    echo(f"exam {report.name}, seed {report.seed}", err=as_json)
    examiner.announce = lambda text: echo(text, err=as_json)
    try:
        with stopping_on_signals():
            for result in examiner.examine():
                if is_out_of_reach(result):
                    continue
                echo("\n".join(cell_lines(report, result, examiner.replay)), err=as_json)
                if pages is not None:
                    for run in result.runs:
                        pages.add(examiner.trials.store.run(run))
    except Stopped as stopped:
        code = 128 + stopped.number
        report.is_interrupted = True
    except ClusterkitError as error:
        report.invalid_reason = str(error)
    finally:
        examiner.trials.stop()
    for line in out_of_reach_lines(report):
        echo(line, err=as_json)
    echo("\n" + summary(report), err=as_json)
    if as_json:
        echo_json(document(report, examiner.replay))
    return code or report.exit_code


def _write_page(examiner: Examiner, path: Path, pages: RunsReport, as_json: bool) -> None:
    from clusterkit.cli.commands.report import write_output
    from clusterkit.exam.page import PageParts, page
    from clusterkit.page.report_file import page_files

    beside = _beside(path)
    files = page_files()
    style = files["palette.css"] + files["page.css"]
    links = {run: f"{quote(beside.name)}#run/{run}" for run in pages.run_ids}
    write_output(beside, pages.html().encode())
    write_output(path, page(examiner.report, PageParts(examiner.replay, links, style)).encode())
    echo(f"Wrote {path}, and the pages of its runs to {beside}.", err=as_json)
