"""`clusterkit warm`: servers that have imported TensorFlow, from which runs start faster."""

from __future__ import annotations

import click

from clusterkit.cli.help import DURATION, Group, option
from clusterkit.cli.terminal import echo
from clusterkit.system.files import make_private
from clusterkit.warm.warm_client import SharedServer, all_servers, description, warm_dir
from clusterkit.warm.warm_client import stop as end
from clusterkit.words.errors import BadJob

IDLE = "30m"


@click.group("warm", cls=Group, examples=[("warm auto", ""), ("warm start --idle 2h", ""), ("warm stop", "")])
def command() -> None:
    """Keep TensorFlow imported between runs, so that the next `up` starts training almost immediately.

    A warm server is used only by this user's runs, and only by those with the same interpreter, environment and
    installed files. Other runs ignore the server.
    """


@command.command()
@option("--preload", multiple=True, metavar="MODULE", help="Import this module, too, for runs with the same --preload.")
@option("--idle", type=DURATION, default=IDLE, help="Stop after this time without a run.")
def start(preload: tuple[str, ...], idle: float) -> None:
    """Start the server and wait until TensorFlow is imported."""
    from clusterkit.job.spec import preload_problems
    from clusterkit.warm.choice import launch_to_share

    if problems := [*preload_problems(preload)]:
        raise BadJob(problems)
    server = SharedServer(warm_dir(), launch_to_share(preload)).start(idle)
    echo(f"The warm server is up (pid {server['pid']}; the imports took {server['seconds']:.1f} s).")


@command.command()
def status() -> None:
    """List the warm servers. The exit code is 1 if no server is running."""
    found = list(all_servers())
    for path, server in found:
        echo(f"{path.stem}  {description(server)}")
    if not found:
        echo("No warm server is running. Start one with `clusterkit warm start`.")
        raise SystemExit(1)


@command.command()
def stop() -> None:
    """Stop the warm servers. The runs that they started continue."""
    found = list(all_servers())
    for path, server in found:
        if "pid" in server and end(path):
            echo(f"The warm server {path.stem} (pid {server['pid']}) was stopped.")
        elif "pid" in server:
            echo(
                f"The warm server {path.stem} (pid {server['pid']}) has not stopped yet. Kill it by its pid.", err=True
            )
        else:
            echo(f"The warm server {path.stem} was not stopped: {server['problem']}.", err=True)
    if not found:
        echo("No warm server is running.")


@command.command()
@option("--off", is_flag=True, help="Turn this off, and stop the server that is running.")
def auto(off: bool) -> None:
    """From now on, keep a warm server running after each run.

    `up`, tests, exams and notebooks start the server. The server stops after 15 minutes without a run, or when the
    terminal in which it was started is closed.
    """
    from clusterkit.warm.shared_servers import AUTO_FILE

    try:
        make_private(warm_dir())
        for failed in warm_dir().glob("*.failed"):
            failed.unlink(missing_ok=True)
        (warm_dir() / AUTO_FILE).unlink(missing_ok=True) if off else (warm_dir() / AUTO_FILE).touch()
    except OSError as error:
        raise click.ClickException(f"{warm_dir()} can't be used: {error.strerror}.") from None
    if not off:
        echo("The next run starts a warm server, which stops after 15 minutes without a run. To stop it now: warm stop")
        return
    stopped = [end(path) for path, server in all_servers() if server.get("kept")]
    echo("Runs no longer keep a warm server." + (" The running server was stopped." if any(stopped) else ""))
