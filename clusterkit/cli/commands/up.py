"""`clusterkit up`: runs a job as a cluster."""

from __future__ import annotations

import os
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from clusterkit.cli import run
from clusterkit.cli.help import option
from clusterkit.cli.options import JobCommand, display_options, given, job_options, only_option, program_argument
from clusterkit.cli.terminal import echo, is_screen, say, status_group, use_color
from clusterkit.cli.verification import hint, verified

if TYPE_CHECKING:
    from clusterkit.job.options import GivenOptions
    from clusterkit.supervisor.prepare import Display, Prepared
    from clusterkit.warm.warm_client import ApiRequest, WarmSession


@click.command(
    "up",
    cls=JobCommand,
    examples=(
        ("up --workers 2 train.py", "Two workers."),
        ("up -d --workers 2 train.py", "In the background: see ps, logs, down."),
        ("up --workers 2 --ps 1 train.py --epochs 3", "A parameter server and its chief, too. Options "
         "after the program are passed to it."),
        ("up -f job.toml --workers 4", "A job file, with another number of workers."),
        ('up --workers 2 --fault "kill worker:1 @ step=100" train.py', "Kill a worker when step 100 is reported."),
    ),
)  # fmt: skip
@option("-d", "--detach", is_flag=True, help="Run in the background: return when all tasks are ready.")
@job_options()
@option("--continue", "continues", is_flag=True, group="Run and checkpoints",
        help="Continue the run given by --run-id, if it has not ended.")  # fmt: skip
@option("--no-wait", is_flag=True, group="Run and checkpoints", help="With -d: return as soon as the run is live.")
@program_argument
@only_option
@display_options
def command(
    detach: bool,
    continues: bool,
    no_wait: bool,
    only: tuple[str, ...],
    all_output: bool,
    log_level: str,
    quiet: bool,
    color: bool | None,
    **values: object,
) -> None:
    """Run PROGRAM as a cluster until its job is done.

    The chief, workers, parameter servers and evaluator run as processes on this machine, each with its own TF_CONFIG.
    A task that fails is restarted, together with the tasks that its strategy needs to restart. Ctrl-C ends everything.
    """
    from clusterkit.job.options import merged
    from clusterkit.supervisor.guardian import check_lifeline
    from clusterkit.supervisor.prepare import Display, prepare
    from clusterkit.views.console import Show
    from clusterkit.views.narrate import Level

    asked: ApiRequest | None = click.get_current_context().obj
    lifeline, session = (None, None) if asked is None else asked[1:]
    only = tuple(filter(None, only))  # an invalid task was parsed as None
    options = given(values) if asked is None else merged(given(values), asked.job)
    prepared = prepare(options, only) if asked else _prepare(options, only)
    prepared = _check_continues(prepared, detach) if continues else prepared
    prepared = _on_terminal(prepared, detach or lifeline is not None)
    _submit(prepared, options, detach)
    prepared, shared = verified(prepared, options, session, quiet or asked is not None)
    if lifeline is not None:
        check_lifeline(lifeline)
    show = Show(tasks=not quiet, only=frozenset(only), noise=all_output, color=use_color(color, detach),
                group=status_group(quiet or detach))  # fmt: skip
    display = Display(show, Level.WARNING if quiet else Level[log_level.upper()])
    if not detach:
        sys.exit(_run(prepared, display, lifeline, session if shared is None else shared))
    from clusterkit.cli.detached import up_detached

    sys.exit(up_detached(prepared, display, not no_wait, lifeline))


def _run(prepared: Prepared, display: Display, lifeline: int | None, session: WarmSession | None) -> int:
    """Run the job, also from a warm server that its verification has started; return the exit code."""
    from clusterkit.supervisor.up import up
    from clusterkit.views.narrate import Level

    is_own = lifeline is None
    if is_own and session is not None:
        from clusterkit.api.supervisor import Lifeline

        owner = Lifeline()  # the warm server ends with this process
        lifeline = owner.end
    code = up(prepared, display, lifeline, session)
    # After a failure, the report is what has to be read.
    is_read = is_own and code == 0 and display.level <= Level.INFO and is_screen(sys.stdout)
    if is_read and (told := hint(prepared.job)):
        say(told)
    return code


def _check_continues(prepared: Prepared, detach: bool) -> Prepared:
    from clusterkit.words.errors import BadJob

    problems = [] if prepared.run_id else ["--continue needs --run-id, which names the run to continue."]
    problems += ["--continue can't be combined with -d."] if detach else []
    if problems:
        raise BadJob(problems)
    return replace(prepared, continues=True)


def _on_terminal(prepared: Prepared, apart: bool) -> Prepared:
    """Make breakpoints hold tasks if this command runs on a terminal and no option decides otherwise.

    `apart` is True if the run does not belong to this command's terminal.
    """
    from clusterkit.words.job import Breakpoints

    job = prepared.job
    shown = sys.stdin is not None and sys.stdin.isatty() and (is_screen(sys.stdout) or is_screen(sys.stderr))
    if apart or not shown or job.hosts.count or job.debug.breakpoints is not Breakpoints.AUTO:
        return prepared
    return replace(prepared, job=replace(job, debug=replace(job.debug, breakpoints=Breakpoints.HOLD)))


def _submit(prepared: Prepared, options: GivenOptions, detach: bool) -> None:
    """If the engine has yet to allocate the job's hosts, submit the job, follow the run (unless `detach`), and exit."""
    job = prepared.job
    if not job.hosts.count:
        return
    from clusterkit.engines.base import engine_named
    from clusterkit.store.store import new_run_id
    from clusterkit.supervisor.prepare import gather
    from clusterkit.supervisor.resolve import resolved_file

    engine = engine_named(job.hosts.engine)
    if not engine.submits():
        return
    run_id, given = prepared.run_id or new_run_id(), gather(options).options
    if env := dict(job.setup.env):  # includes the variables that a Python process has passed
        given["env"] = env
    shown, secret = (resolved_file(prepared, given, secrets, tasks=False) for secrets in (False, True))
    follow = engine.submit(job, run_id, (shown, secret), say)
    if not detach:
        sys.exit(follow())
    echo(run_id)
    sys.exit(0)


def _prepare(options: GivenOptions, only: tuple[str, ...]) -> Prepared:
    """Prepare the job, with a warning if options of `up` follow the program. Raises BadJob."""
    from clusterkit.supervisor.prepare import prepare
    from clusterkit.words.model import ProgramKind

    prepared = prepare(options, only)
    if not options.options.get("args") or prepared.job.program.kind is ProgramKind.COMMAND:
        return prepared
    from clusterkit.check.unmentioned import unmentioned

    hint = unmentioned(prepared.job)
    return prepared if hint is None else replace(prepared, warnings=(*prepared.warnings, hint))


def main() -> None:
    """Run the job that a Python process requests on standard input, quietly unless the command line says otherwise.

    Options in the request override options in the environment.
    """
    import pickle  # imported here: the command itself does not need it

    asked: ApiRequest = pickle.load(sys.stdin.buffer)
    with Path(os.devnull).open("rb") as nothing:
        os.dup2(nothing.fileno(), 0)
    run(sys.argv[1:] or ["up", "--quiet", "--no-color"], asked)
