"""`clusterkit agent`: runs the tasks of this host for a supervisor on another host."""

from __future__ import annotations

import socket
import sys

import click

from clusterkit.cli.help import DURATION, Command, Parsed, option
from clusterkit.cli.terminal import say
from clusterkit.text.endpoints import split
from clusterkit.words.errors import ClusterkitError

PATIENCE = "60s"


def _endpoint(text: str) -> tuple[str, int]:
    """Parse the supervisor's address. Raises ValueError."""
    host, port = split(text)
    if not port:
        raise ValueError(f"{text!r} has no port.")
    try:
        host.encode("idna")  # the system's resolver encodes names in the same way
    except UnicodeError:
        raise ValueError(f"{host!r} is not a host name.") from None
    return host, port


@click.command(
    "agent",
    cls=Command,
    examples=[("agent --connect n1:7077 --key run/agents.pem", "On each host that a run is waiting for.")],
)
@option("--connect", type=Parsed("HOST:PORT", _endpoint), help="The supervisor's address, where it waits for agents.")
@option("--key", type=click.Path(), help="The run's key: agents.pem in the run's directory.")
@option("--host", metavar="NAME", help="The run's name for this host.", show_default="its host name")
@option(
    "--timeout",
    type=DURATION,
    default=PATIENCE,
    help="How long to try to connect to the supervisor. Its name is resolved again for each try.",
)
@click.option("--lifeline", type=int, hidden=True, help="A pipe to the process that the agent must not outlive.")
@click.option("--engine", hidden=True, help="The engine to notify if the supervisor is lost.")
def command(
    connect: tuple[str, int], key: str, host: str | None, timeout: float, lifeline: int | None, engine: str | None
) -> None:
    """Run the tasks of this host for a supervisor on another host.

    Engines and Kubernetes manifests start agents automatically. With `--engine agents`, a run waits for agents that
    you start.
    """
    from pathlib import Path

    from clusterkit.backends.hosts.agent import Agent
    from clusterkit.engines.base import engine_named
    from clusterkit.supervisor import signals
    from clusterkit.supervisor.guardian import check_lifeline, guard

    if connect is None or key is None:
        raise click.UsageError("An agent needs --connect and --key, which identify its run.")
    if lifeline is not None:
        check_lifeline(lifeline)
    starter = None if engine is None else engine_named(engine)

    def serve(guardian: int) -> int:
        try:
            agent = Agent(connect, Path(key), host or socket.gethostname(), timeout)
        except (ClusterkitError, OSError) as error:  # for example, the key file is missing
            say(error)
            return 2
        agent.heed_signals()
        signals.listen(agent.put)
        owner = {} if lifeline is None else {lifeline: "the supervisor"}
        code = agent.run({guardian: "clusterkit's guardian process", **owner})
        if starter is not None and agent.is_orphan:
            signals.end_with(code)
            starter.supervisor_lost()
        return code

    sys.exit(guard(serve, lambda number, left: None))
