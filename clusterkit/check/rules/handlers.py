"""A rule about SIGTERM handlers that MultiWorkerMirroredStrategy replaces."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from clusterkit.check.case import MULTI_WORKER, OUR_STRATEGY, Case, Hit
from clusterkit.check.source import Source, argument
from clusterkit.words.model import Shape

_SETS = "signal.signal"
_SIGTERM = "signal.SIGTERM"
_NO_HANDLERS = {"signal.SIG_IGN", "signal.SIG_DFL"}
# Calls that handle SIGTERM in another way. They replace the program's handler.
_OTHERS = {
    "tensorflow.distribute.PreemptionCheckpointHandler",
    "clusterkit.training.on_preemption",
    "clusterkit.training.Backup",
}


def replaced_handler(case: Case) -> Iterator[Hit]:
    """Find SIGTERM handlers that are set before the strategy, and not again afterwards."""
    is_gang = case.job.shape is Shape.MULTI_WORKER and case.is_distributed
    if not is_gang or case.names(_OTHERS):
        return
    handlers = [(source, call) for source in case.sources for _, call in source.calls() if _sets_handler(source, call)]
    if len(handlers) != 1:  # another one may be set after the strategy
        return
    source, handler = handlers[0]
    strategies = [call for one, _, call in case.calls(MULTI_WORKER, OUR_STRATEGY) if one is source]
    created = (call for call in strategies if any(node is handler for node in source.nodes_before(call)))
    if case.applies(source, handler) and (strategy := next(created, None)) is not None:
        what = (
            f"The strategy of line {source.location(strategy).line} replaces this SIGTERM handler, which plain "
            "TensorFlow then never calls."
        )
        yield Hit(source.location(handler), what, "Set the handler after the strategy is created.")


def _sets_handler(source: Source, call: ast.Call) -> bool:
    """Return whether a call may set a handler of SIGTERM, perhaps in a loop over several signals."""
    if source.dotted(call.func) != _SETS:
        return getattr(call.func, "attr", "") == "add_signal_handler"
    number, handler = argument(call, 0, "signalnum"), argument(call, 1, "handler")
    name = source.dotted(number)
    is_other = name.startswith("signal.SIG") and name != _SIGTERM
    return not is_other and source.dotted(handler) not in _NO_HANDLERS
