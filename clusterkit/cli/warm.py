"""`clusterkit warm`: servers that have imported TensorFlow, from which runs start faster."""

from __future__ import annotations

import click

from clusterkit.cli.help import Group, option
from clusterkit.cli.options import Duration
from clusterkit.cli.terminal import echo, exit_on_error

IDLE = "30m"


@click.group("warm", cls=Group, examples=[("warm start --idle 2h", ""), ("warm stop", "")])
def command() -> None:
    """Keep TensorFlow imported between runs, so that the next `up` starts training almost immediately.

    A warm server serves only this user's runs, and only those with the same interpreter, environment and installed
    files. Other runs ignore it.
    """


@command.command()
@option("--preload", multiple=True, metavar="MODULE", help="Import this too, for runs with the same --preload.")
@option("--idle", type=Duration(), default=IDLE, help="Stop after this time without a run.")
def start(preload: tuple[str, ...], idle: float) -> None:
    """Start the server and wait until TensorFlow is imported."""
    from clusterkit.job.spec import preload_problems
    from clusterkit.warm.choice import launch_to_share
    from clusterkit.warm.warm_client import SharedServer, warm_dir
    from clusterkit.words.errors import BadJob

    with exit_on_error():
        if problems := [*preload_problems(preload)]:
            raise BadJob(problems)
        server = SharedServer(warm_dir(), launch_to_share(preload)).start(idle)
    echo(f"The warm server is up (pid {server['pid']}; the imports took {server['seconds']:.1f} s).")


@command.command()
def status() -> None:
    """List the warm servers. Exits with 1 if there are none."""
    from clusterkit.warm.warm_client import all_servers

    with exit_on_error():
        found = list(all_servers())
    for path, server in found:
        echo(f"{path.stem}  {_told(server)}")
    if not found:
        echo("No warm server is running. Start one with `clusterkit warm start`.")
        raise SystemExit(1)


@command.command()
def stop() -> None:
    """Stop the warm servers. The runs that they started continue."""
    from clusterkit.warm.warm_client import all_servers
    from clusterkit.warm.warm_client import stop as end

    with exit_on_error():
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


def _told(server: dict[str, object]) -> str:
    if server.get("problem"):
        return str(server["problem"])
    left = "while runs are live" if server["left"] is None else f"for another {float(str(server['left'])) / 60:.0f} min"
    modules = ", ".join(["tensorflow", *map(str, server["preload"] or ())])  # type: ignore[call-overload]
    return f"pid {server['pid']}, {modules}, {server['runs']} of {server['made']} runs live; it stays {left}"
