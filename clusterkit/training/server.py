"""The server loop of a parameter-server job's workers and parameter servers."""

from __future__ import annotations

from clusterkit.training import progress, roles


def serve() -> None:
    """In a worker or ps of a parameter-server job: serve until killed, and never return. Elsewhere: return at once.

    Call it first, before data is loaded or a model is built: a server needs neither, and a restarted one should be
    back at its address as soon as it can.
    """
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
