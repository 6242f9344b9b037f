"""Rounds: steps on the workers of a parameter-server job, a few at a time, whatever becomes of a worker meanwhile."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from typing import Any

import tensorflow as tf

from clusterkit.training import roles

PATIENCE, LOST = 1.0, 0.25  # seconds for a round; once a worker is known to be lost, why wait for it?
LOOK_EVERY = 0.002  # seconds


class Rounds:
    """Steps a round at a time: on the workers where there are parameter servers, in this process otherwise.

    A step whose worker dies is done again by another. Where a worker can't be reached, its step is left to it, and the
    others go on: a `ClusterCoordinator.join()` after each round stands still as long as the worker is away.

    Args:
        strategy: the one in whose scope the variables were made.
        make_batches: makes the endless `tf.data.Dataset` of a worker; called in each of them.
        step: takes an iterator over such a dataset, does a step, and adds `[1, its loss]` to `tally`. It returns
            nothing: a coordinator that gets a value from each step stands still as a whole, now and then, when a
            worker is cut off (TensorFlow 2.21).
        tally: a float64 variable of shape [2]: steps that were applied, and the sum of their losses.
    """

    def __init__(self, strategy: Any, make_batches: Callable[[], tf.data.Dataset], step: Any, tally: Any) -> None:
        # No autograph: nothing here depends on tensors, and looking for what does takes half a second.
        self._step = tf.function(step, autograph=False)
        self._tally = tally
        self._scheduled = int(tally.numpy()[0])
        self._seen = (float(self._scheduled), 0.0)
        self._coordinator: Any = None
        if not roles.has_ps():
            self._batches = iter(make_batches())
            return
        self._coordinator = tf.distribute.coordinator.ClusterCoordinator(strategy)
        per_worker = tf.function(
            lambda: strategy.distribute_datasets_from_function(lambda _: make_batches()), autograph=False
        )
        self._batches = iter(self._coordinator.create_per_worker_dataset(per_worker))

    def until(self, last: int, *, size: int, stop_at: int, step_time: float = 0.0) -> Iterator[tuple[int, float]]:
        """Do steps up to number `last`; after each round yield how many are done, and the mean loss of the newest.

        A round has `size` steps, or fewer where one that is a multiple of `stop_at` comes before. `step_time` is how
        long a step takes at least, in seconds. When the last round is yielded, every step has been applied.
        """
        done, slack = self._scheduled, roles.num_workers()
        patience = math.inf  # the first round has something to compile
        while done < last:
            # Normally what is scheduled is done by now; a step that is left to a lost worker is not.
            room = done + size + slack - self._scheduled
            count = min(size, room, stop_at - self._scheduled % stop_at, last - self._scheduled)
            self._schedule(count)
            is_last = self._scheduled == last
            all_done = self._join() if is_last else self._are_done(patience)
            patience = max(PATIENCE if all_done else LOST, 5 * step_time)
            done, loss = self._look(all_done)
            yield done, loss

    def _schedule(self, count: int) -> None:
        self._scheduled += count
        for _ in range(count):
            if self._coordinator is None:
                self._step(self._batches)
            else:
                self._coordinator.schedule(self._step, (self._batches,))

    def _join(self) -> bool:
        if self._coordinator is not None:
            self._coordinator.join()
        return True

    def _are_done(self, patience: float) -> bool:
        until = time.monotonic() + patience
        while self._coordinator is not None and not self._coordinator.done():
            if time.monotonic() > until:
                return False
            time.sleep(LOOK_EVERY)
        return True

    def _look(self, all_done: bool) -> tuple[int, float]:
        before, self._seen = self._seen, tuple(self._tally.numpy())
        count, total = self._seen[0] - before[0], self._seen[1] - before[1]
        done = self._scheduled if all_done else min(int(self._seen[0]), self._scheduled - 1)
        return done, float(total / max(1, count))
