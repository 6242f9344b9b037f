"""A rule about training that bypasses the replicas of the program's strategy."""

from __future__ import annotations

import re
from collections.abc import Iterator

from clusterkit.check.case import Case, Hit
from clusterkit.check.rules.replicas import is_gang, replicas_of

_USES = re.compile(r"scope|experimental_distribute|_from_function")  # attributes that show that a strategy is used
_RUNS = re.compile("run|experimental_run_v2|call_for_each_replica|schedule|fit|train_on_batch")


def one_device_alone(case: Case) -> Iterator[Hit]:
    """Find training that bypasses the replicas: `fit` of a model outside the scope, or steps without strategy.run."""
    replicas = replicas_of(case)
    if replicas is None:
        return
    names = [str(getattr(node, "attr", "")) for source in case.sources for node in source.nodes]
    trains = "each worker trains alone" if is_gang(case) else f"only the first of {replicas.text} trains"
    if not is_gang(case) and not any(map(_USES.search, names)) and not any(map(_RUNS.fullmatch, set(names) - {"fit"})):
        for source, fit in case.fits():
            what = f"The model is created outside the strategy's scope, so {trains}."
            yield Hit(source.location(fit), what, "Create and compile the model inside `with strategy.scope():`.")
            return
    if any(map(_RUNS.fullmatch, names)) or "GradientTape" not in names:
        return
    for source in case.sources:
        for _, call in source.calls():
            if getattr(call.func, "attr", "") == "apply_gradients":
                what = f"The program never calls strategy.run, so no step runs in the replicas, and {trains}."
                advice = (
                    "In a tf.function, call strategy.run(train_step, args=(x, y)) with batches from "
                    "strategy.experimental_distribute_dataset(dataset)."
                )
                yield Hit(source.location(call), what, advice)
                return
