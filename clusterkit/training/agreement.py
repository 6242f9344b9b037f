"""Lets the workers of a MultiWorkerMirroredStrategy job restore the same checkpoint: the chief chooses it."""

from __future__ import annotations

import json
from collections.abc import Callable

from clusterkit.training.checkpoint_store import Checkpoint


def follow_chief(key: str, choose: Callable[[], Checkpoint | None], is_chief: bool) -> Checkpoint | None:
    """Return the chief's choice in every worker.

    The chief publishes its choice through TensorFlow's coordination service, and the other workers wait for it there;
    TensorFlow raises an error in them if the chief dies. Before a strategy is created, the service does not exist, and
    each worker chooses for itself: all read the same directory, and none writes to it before all have restored.

    Why not a collective operation: its tensors would need the strategy, and a replica context to run in.

    Args:
        key: the name of this choice in the coordination service; the same in all workers, and new for each choice.
        choose: selects a checkpoint, or returns None if none exists.
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
