"""Runs steps in rounds on the workers of a parameter-server job, and continues if a worker is lost."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from typing import Any

import tensorflow as tf

from clusterkit.training import this_task

PATIENCE, LOST_PATIENCE = 1.0, 0.25  # seconds; the maximum wait for a round, normally and while a worker is lost
POLL_EVERY = 0.002  # seconds between checks of whether a round is done


class Rounds:
    """Runs steps in rounds, on the workers of a parameter-server job or, without parameter servers, in this process.

        rounds = training.Rounds(strategy, make_batches, step, tally)
        for done, loss in rounds.until(1000, size=20, stop_at=100):
            training.report(done, loss=loss)

    If a worker dies, another worker repeats its step. If a worker can't be reached, its step stays assigned to it while
    the others continue; a `ClusterCoordinator.join()` after each round would block until the worker is back.

    Args:
        strategy: the strategy in whose scope the variables were created.
        make_batches: returns the infinite `tf.data.Dataset` of a worker; called in each worker.
        step: a function that takes an iterator over such a dataset, does one step, and adds `[1, loss]` to `tally`. It
            must return None: if steps return values, the whole coordinator sometimes hangs while a worker is
            unreachable (TensorFlow 2.21).
        tally: a float64 variable of shape [2]: the number of steps applied, and the sum of their losses.
    """

    def __init__(self, strategy: Any, make_batches: Callable[[], tf.data.Dataset], step: Any, tally: Any) -> None:
        # Without AutoGraph: steps have no control flow on tensors, and AutoGraph's search for it takes half a second.
        self._step = tf.function(step, autograph=False)
        self._tally = tally
        self._scheduled = int(tally.numpy()[0])
        self._tally_read = (float(self._scheduled), 0.0)
        self._coordinator: Any = None
        if not this_task.has_ps():
            self._batches = iter(make_batches())
            return
        self._coordinator = tf.distribute.coordinator.ClusterCoordinator(strategy)
        per_worker = tf.function(
            lambda: strategy.distribute_datasets_from_function(lambda _: make_batches()), autograph=False
        )
        self._batches = iter(self._coordinator.create_per_worker_dataset(per_worker))

    def until(self, last: int, *, size: int, stop_at: int, step_time: float = 0.0) -> Iterator[tuple[int, float]]:
        """Run steps until `last` are done, in rounds.

        Args:
            last: the total number of steps, counted from the first start of the job.
            size: the number of steps in a round.
            stop_at: end a round early at each multiple of this, such as the interval between checkpoints.
            step_time: the minimum duration of a step, in seconds.

        Yields:
            After each round, the number of steps done and the mean loss of the steps since the previous round. When
            the last round is yielded, every step has been applied.
        """
        done, slack = self._scheduled, this_task.num_workers()
        patience = math.inf  # the first round includes compilation
        while done < last:
            # All scheduled steps are done at this point, except those of a lost worker.
            room = done + size + slack - self._scheduled
            count = min(size, room, stop_at - self._scheduled % stop_at, last - self._scheduled)
            self._schedule(count)
            is_last = self._scheduled == last
            if is_last and self._coordinator is not None:
                self._coordinator.join()
            all_done = is_last or self._wait(patience)
            patience = max(PATIENCE if all_done else LOST_PATIENCE, 5 * step_time)
            done, loss = self._read_tally(all_done)
            yield done, loss

    def _schedule(self, count: int) -> None:
        self._scheduled += count
        for _ in range(count):
            if self._coordinator is None:
                self._step(self._batches)
            else:
                self._coordinator.schedule(self._step, (self._batches,))

    def _wait(self, patience: float) -> bool:
        """Wait for the scheduled steps, up to `patience` seconds. Return whether all are done."""
        until = time.monotonic() + patience
        while self._coordinator is not None and not self._coordinator.done():
            if time.monotonic() > until:
                return False
            time.sleep(POLL_EVERY)
        return True

    def _read_tally(self, all_done: bool) -> tuple[int, float]:
        before, self._tally_read = self._tally_read, tuple(self._tally.numpy())
        count, total = self._tally_read[0] - before[0], self._tally_read[1] - before[1]
        done = self._scheduled if all_done else min(int(self._tally_read[0]), self._scheduled - 1)
        return done, float(total / max(1, count))
