"""One decision for all workers of a MultiWorkerMirroredStrategy job: the chief decides, the others ask it."""

from __future__ import annotations

import json
from collections.abc import Callable

from clusterkit.training.checkpoint_store import Checkpoint


def follow_chief(key: str, choose: Callable[[], Checkpoint | None], is_chief: bool) -> Checkpoint | None:
    """What the chief's `choose` returns, in every worker.

    The answer goes through the strategy's coordination service, under `key`; the others wait for it there, and
    TensorFlow ends the wait with an error if the chief dies. Where there is no such service (no strategy was made
    yet), each worker chooses for itself: they look at the same directory, and nobody writes to it before all restored.

    Why not a collective operation: its tensors would need the strategy, and a replica context to run in.
    """
    try:
        from tensorflow.python.eager import context  # the service has no public name
    except ImportError:
        return choose()
    service = context.context()
    if getattr(service, "coordination_service", None) is None:
        return choose()
    if not is_chief:
        answer = json.loads(service.get_config_key_value(key))
        return Checkpoint(*answer) if answer else None
    found = choose()
    service.set_config_key_value(key, json.dumps(found))
    return found
