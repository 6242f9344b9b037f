"""Reports whether a task handles SIGTERM, which determines the grace period that the supervisor grants.

In every job of several workers, TensorFlow's preemption notifier handles SIGTERM, but this has no effect unless an
object waits for the notifier (`PreemptionCheckpointHandler`, `training.on_preemption`). If nothing handles SIGTERM, the
task can't save its state, so the grace period is short.

A handler that the program has set before that is replaced: see replaced_handlers.py.
"""

from __future__ import annotations

import signal
import sys
from typing import Any

STRATEGY = "CollectiveAllReduceStrategy"


def watch_tensorflow(module: Any, load: Any) -> None:
    """Patch classes that start or await the preemption notifier: each new object reports whether SIGTERM is handled."""
    after = {f"{STRATEGY}.__init__": lambda *args, **kwargs: report(load)}
    for kind in ("PreemptionCheckpointHandler", "PreemptionWatcher"):
        after[f"{kind}.__init__"] = lambda *args, **kwargs: report(load, waits=True)
    load("task/patches/hook").watch(module, after, {})
    if hasattr(module, STRATEGY):
        _keep_handlers(getattr(module, STRATEGY), load)


def _keep_handlers(kind: Any, load: Any) -> None:
    """Patch the strategy's constructor to keep the handler that the program has set before."""
    handlers = load("task/patches/replaced_handlers")
    plain = kind.__init__

    def create(self: Any, *args: Any, **kwargs: Any) -> None:
        before = handlers.handler_address()
        plain(self, *args, **kwargs)
        handlers.replaced.restore(self, before)

    load("task/patches/hook").replace(kind, "__init__", create)


def watch_handlers(module: Any, load: Any) -> None:
    """Patch `signal.signal` to report each change of the handler of SIGTERM."""

    def handler_set(signalnum: int, handler: Any) -> None:
        if signalnum == signal.SIGTERM:
            load("task/patches/replaced_handlers").replaced.keep(handler, sys._getframe(2))
            report(load)

    load("task/patches/hook").after(module, "signal", handler_set)


def report(load: Any, waits: bool = False, waited: list[bool] = []) -> None:  # noqa: B006 - keeps its state between calls
    """Report whether SIGTERM has a handler or is ignored: in both cases, the task needs time to end."""
    if waits:
        waited.append(True)
    handled = bool(waited) or signal.getsignal(signal.SIGTERM) is not signal.SIG_DFL
    load("task/patches/steps").steps.write("sigterm", f'"handled":{"true" if handled else "false"}')
