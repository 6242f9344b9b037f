"""Whether anything handles SIGTERM in a task of several workers, as a report to the supervisor.

Loaded by path: standard library only. In every job of several workers TensorFlow's preemption notifier takes SIGTERM,
and unless the program waits for it (`PreemptionCheckpointHandler`, `training.on_preemption`) nothing ends. The
supervisor need not wait for such a task as long as for one that may be saving its state.
"""

from __future__ import annotations

import signal
from typing import Any


def watch_strategy(module: Any, load: Any) -> None:
    """Report when the strategy is made, which begins the notifier."""
    after = load("task/patches/hook").after
    after(module.CollectiveAllReduceStrategy, "__init__", lambda self, *args, **kwargs: report(load))


def watch_preemption(module: Any, load: Any) -> None:
    """Report that somebody waits for the notifier."""
    after = load("task/patches/hook").after
    for name in ("PreemptionCheckpointHandler", "PreemptionWatcher"):
        if (kind := getattr(module, name, None)) is not None:
            after(kind, "__init__", lambda self, *args, **kwargs: report(load, waits=True))


def watch_handlers(module: Any, load: Any) -> None:
    """Report each handler that the program sets, or takes away."""

    def handler_set(signalnum: int, handler: Any) -> None:
        if signalnum == signal.SIGTERM:
            report(load)

    load("task/patches/hook").after(module, "signal", handler_set)


def report(load: Any, waits: bool = False, waited: list[bool] = []) -> None:  # noqa: B006 - it remembers
    """Report whether SIGTERM is handled now. Ignoring it counts, since such a task needs its time."""
    if waits:
        waited.append(True)
    handled = bool(waited) or signal.getsignal(signal.SIGTERM) is not signal.SIG_DFL
    load("task/patches/steps").steps.write("sigterm", f'"handled":{"true" if handled else "false"}')
