"""Prints a notice when Keras 2's `fit` trains on several workers, since it averages each worker's own rows."""

from __future__ import annotations

import sys
from typing import Any

NOTICE = (
    "fit of Keras 2 averages the loss of each worker over that worker's rows. If workers have different numbers of "
    "rows (in a last batch that is not full, or with masks or sample weights), or if the loss is one number for the "
    "batch, the model differs from that of one process. Keras 3 computes with the whole batch; up --verify compares."
)
_said: list[str] = []


def watch(module: Any, load: Any) -> None:
    """Patch Keras 2's callbacks to print the notice when the first `fit` begins. Used in one task of a gang."""
    load("task/patches/hook").before(module.CallbackList, "on_train_begin", _notice)


def _notice(callbacks: Any, *_: object, **__: object) -> None:
    strategy = getattr(callbacks.model, "distribute_strategy", None)
    if not _said and getattr(strategy, "num_replicas_in_sync", 1) > 1:
        _said.append(NOTICE)
        print(f"clusterkit: {NOTICE}", file=sys.stderr, flush=True)
