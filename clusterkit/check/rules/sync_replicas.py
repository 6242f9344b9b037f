"""A rule about SyncReplicasOptimizer of TensorFlow 1, whose steps need a thread of the chief."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from clusterkit.check.case import Case, Hit
from clusterkit.words.model import Shape

_NAMES = ("tensorflow.train.SyncReplicasOptimizer", "tensorflow.compat.v1.train.SyncReplicasOptimizer")
_STARTS_QUEUE = re.compile("make_session_run_hook|get_chief_queue_runner|chief_queue_runner")


def no_hook_of_the_optimizer(case: Case) -> Iterator[Hit]:
    """Find optimizers that wait for tokens in each step, in programs where no chief hands out these tokens."""
    served = case.job.shape is Shape.PARAMETER_SERVER and case.is_distributed
    keywords = {node.arg for source in case.sources for node in source.nodes if isinstance(node, ast.keyword)}
    starts = "sync_optimizer" in keywords or any(source.mentions(_STARTS_QUEUE) for source in case.sources)
    if not served or starts:
        return
    for source, _, call in case.calls(*_NAMES):
        what = (
            "In each step, this optimizer waits for a token from a thread of the chief, but the program does not start "
            "this thread: training hangs in the first step."
        )
        advice = (
            "Pass the optimizer's hook to the session: MonitoredTrainingSession(…, "
            "hooks=[optimizer.make_session_run_hook(is_chief, num_tokens=0)], stop_grace_period_secs=5). With "
            "Supervisor(…, stop_grace_secs=5), call supervisor.start_queue_runners(session, "
            "[optimizer.get_chief_queue_runner()]) in the chief."
        )
        yield Hit(source.location(call), what, advice)
