"""What runs beside the tasks: processes of their own, without which the run continues, and who watches the files.

Most runs ask for none of it, so each is imported when it is started.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import ExitStack
from typing import Any

from clusterkit.client.directory import RunDirectory
from clusterkit.ledger.ledger import Ledger
from clusterkit.system.inbox import Inbox
from clusterkit.views.console import Console
from clusterkit.warm.choice import marks
from clusterkit.words.events import Event
from clusterkit.words.job import JobSpec

Observer = Callable[[Event, float], None]


def start_beside(
    job: JobSpec, run: RunDirectory, post: Callable[[Any], None], say: Callable[[str], None] | None, stack: ExitStack
) -> None:
    """Start what the job asks for. The stack stops it, before the rest of the run is stopped.

    `say` shows a sentence that is not for the journal; None: nothing is shown.
    """
    if job.tensorboard:
        from clusterkit.tensorboard.beside import start_tensorboard

        env = {**marks(run), "CLUSTERKIT_TASK": "tensorboard"}
        stack.callback(start_tensorboard(run, post, env=env).stop)
    if job.needs_dashboard:
        from clusterkit.dashboard.beside import DashboardProcess

        env = {**marks(run), "CLUSTERKIT_TASK": "dashboard"}
        stack.callback(DashboardProcess(run, post, say, job.dashboard_control, env).stop)
    if job.watches:
        from clusterkit.supervisor.edits import EditWatcher

        stack.callback(EditWatcher(job, post).stop)


def start_hooks(
    ledger: Ledger,
    run: RunDirectory,
    inbox: Inbox,
    console: Console,
    past: Iterable[tuple[float, Event]],
    stack: ExitStack,
) -> Observer:
    """Start what runs the job's hooks, if there are any, and return what has to see each event after `ledger`.

    At the stack's end the hooks that still wait run, and that of the run's end.
    """
    if not ledger.job.hooks.commands:
        return lambda event, now: None
    from clusterkit.hooks.runner import HookRunner

    env = {**marks(run), "CLUSTERKIT_TASK": "hooks"}
    hooks = HookRunner(ledger, run, inbox, lambda text: console.say(text, bad=True), env)
    stack.callback(hooks.end)
    hooks.recall(past)
    return hooks.see
