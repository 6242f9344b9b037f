"""Runs the servers of a parameter-server job, in its workers and ps, and makes sure that its coordinator can exit."""

from __future__ import annotations

import atexit
import sys

from clusterkit.training import progress, this_task


def serve() -> None:
    """Run this task's `tf.distribute.Server` if it is a worker or ps of a parameter-server job; otherwise return.

        training.serve()
        strategy = training.strategy()

    A worker or ps serves until it is killed: the call never returns. In the chief of such a job, the call returns
    after making sure that the program can exit at its end, whatever state the workers are in. In other tasks the call
    has no effect.

    Call it first, before loading data or building a model: a server needs neither, and a restarted server should be
    available at its address as soon as possible.
    """
    if this_task.is_coordinator():
        atexit.register(_skip_coordinator_shutdown)
    if not (this_task.has_ps() and this_task.task_type() in ("worker", "ps")):
        return
    import tensorflow as tf  # not at the top, since tasks that do not serve may configure TensorFlow first

    resolver = tf.distribute.cluster_resolver.TFConfigClusterResolver()
    server = tf.distribute.Server(
        resolver.cluster_spec(),
        job_name=resolver.task_type,
        task_index=resolver.task_id,
        protocol=resolver.rpc_layer or "grpc",
        start=True,
    )
    progress.channel().send("ready")
    server.join()


def _skip_coordinator_shutdown() -> None:
    """Disable `ClusterCoordinator.__del__`, which can hang at interpreter exit.

    That method waits for a lock that may be held by the thread that watches for lost workers. At interpreter exit that
    thread has stopped, so the program would never end (TensorFlow 2.21). Skipping the method is safe: the process ends.
    """
    if (tf := sys.modules.get("tensorflow")) is not None:  # only TensorFlow creates a coordinator
        tf.distribute.coordinator.ClusterCoordinator.__del__ = lambda self: None
