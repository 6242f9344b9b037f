"""The server loop of a parameter-server job's workers and parameter servers, and its coordinator's end."""

from __future__ import annotations

import atexit

from clusterkit.training import progress, roles


def serve() -> None:
    """In a worker or ps of a parameter-server job: serve until killed, and never return. Elsewhere: return at once.

    In the chief of such a job it also sees to it that the program ends when it is done, whatever its workers do then.

    Call it first, before data is loaded or a model is built: a server needs neither, and a restarted one should be
    back at its address as soon as it can.
    """
    if roles.is_coordinator():
        atexit.register(_end_without_workers)
    if not (roles.has_ps() and roles.task_type() in ("worker", "ps")):
        return
    import tensorflow as tf  # not at the top: the tasks that do not serve may want to set TensorFlow up first

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


def _end_without_workers() -> None:
    """Let a coordinator go without a farewell to its workers, since the process ends anyway.

    Its `__del__` waits for the lock of the thread that looks for a lost worker. At the end of the interpreter that
    thread does not run any more, and the program would never end (TensorFlow 2.21).
    """
    import tensorflow as tf

    tf.distribute.coordinator.ClusterCoordinator.__del__ = lambda self: None
