"""`clusterkit stacks`."""

from __future__ import annotations

import click

from clusterkit.cli.addressing import OnTasks, live_run
from clusterkit.cli.help import option
from clusterkit.cli.options import Duration
from clusterkit.cli.params import echo_json, json_option, tasks_of
from clusterkit.cli.terminal import echo, exit_on_error


@click.command("stacks", cls=OnTasks, examples=[("stacks", "Of every task."), ("stacks worker:1 ps:0", "")])
@option("--timeout", type=Duration(), default="3s", help="How long to wait for the stacks.")
@json_option
def command(run: str | None, tasks: tuple[str, ...], timeout: float, as_json: bool) -> None:
    """Show the Python stacks of every thread of tasks, without disturbing them."""
    from clusterkit.backends.local.stacks import collect, dumps_of
    from clusterkit.cli.snapshot import RunSnapshot
    from clusterkit.store.control import Client
    from clusterkit.words.model import Task

    with exit_on_error():
        chosen = live_run(run)
        with Client(chosen) as client:
            answer = client.call("stacks", tasks=tasks_of(chosen, tasks))
    seen = RunSnapshot(chosen).status.tasks
    attempts = {task: seen[task].attempt for task in map(Task.parse, answer["tasks"])}
    dumps = dumps_of(chosen, attempts.items(), answer["request"])
    collect(list(dumps.values()), timeout)
    if as_json:
        echo_json({str(task): dump.text or None for task, dump in dumps.items()})
        return
    for task, dump in dumps.items():
        echo(f"{task} (attempt {attempts[task]})\n{dump.text}" if dump.text else f"{task} {dump.silence}\n")
