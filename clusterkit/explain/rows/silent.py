"""Rows about runs that succeed, but do not train as intended because of their data, losses or steps.

These rows explain only runs that succeeded. Except for `data-ran-out`, a row's id is that of a rule of `check`,
whose finding is shown instead of the row's sentences.
"""

from __future__ import annotations

from clusterkit.explain.row import Condition, Evidence, Row, Words, found, logged
from clusterkit.words.outcome import RunState

_RAN_OUT = logged("input ran out of data")  # a warning of Keras

_TWO = ("--workers", "2")
_SERVED = ("--workers", "1", "--ps", "1", "--servers", "builtin")


def _failed(evidence: Evidence) -> bool:
    """Return whether a task failed without having been asked to end."""
    ends = [task.exit for task in evidence.tasks if task.exit is not None]
    return any(not exit_.ok and exit_.asked is None for exit_ in ends)


def _found(id_: str) -> Condition:
    """Return a condition that holds if the run succeeded, no task trained alone, and `check` has this finding."""

    def holds(evidence: Evidence) -> Words | None:
        if evidence.state is not RunState.SUCCEEDED or evidence.undistributed is not None or _failed(evidence):
            return None
        return found(id_)(evidence)

    return holds


def _ran_out(evidence: Evidence) -> Words | None:
    """Check whether Keras warned that the data ran out and, if the run is known, `fit` completed too few steps."""
    first, job = evidence.first, evidence.job
    if _RAN_OUT(evidence) is None or (job is not None and (not evidence.short or _failed(evidence))):
        return None
    leader = next((task for task in evidence.tasks if job is not None and task.task == job.leader), first)
    return {"who": leader.name, "made": "early" if leader.step is None else f"after step {leader.step}"}


def _silent(
    id_: str, title: str, means: str, advice: str, reported: tuple[str, ...] = (), example: tuple[str, ...] = _TWO
) -> Row:
    return Row(id_, title, "", means, advice, _found(id_), reported, example, facts_only=True)


ROWS: tuple[Row, ...] = (
    Row(
        "data-ran-out",
        "Your input ran out of data; interrupting training.",
        "",
        "The data of fit ended before fit had made all its steps, so {who} stopped {made}, without an error.",
        "Repeat the dataset with dataset.repeat(), or leave steps_per_epoch out, so that an epoch ends when the data "
        "ends. In a Python generator, add a loop: while True.",
        _ran_out,
        ("tensorflow/tensorflow#64476", "tensorflow/tensorflow#25254"),
        _TWO,
        facts_only=True,
    ),
    _silent(
        "loss-per-replica",
        "Training with several workers: gradients are too large, the loss does not decrease",
        "A step averages its loss over the rows of one worker, but the strategy adds up the gradients of all workers.",
        "Also divide the loss by the number of replicas: tf.nn.compute_average_loss(losses, global_batch_size=…).",
        ("tensorflow/tensorflow#45923", "tensorflow/tensorflow#33809"),
    ),
    _silent(
        "batch-per-replica",
        "Training with several workers: each worker gets a smaller batch than before",
        "The strategy divides each batch among the workers, but the batch size is meant for one worker.",
        "Use the global batch size: batch_size * strategy.num_replicas_in_sync.",
    ),
    _silent(
        "mean-of-parts",
        "Training with several workers: the printed loss is too small by the number of workers",
        "Each replica divides its loss by the global batch size, and strategy.reduce with MEAN divides by the number "
        "of replicas again.",
        "Add up the losses of the replicas instead: strategy.reduce(tf.distribute.ReduceOp.SUM, losses, axis=None).",
    ),
    _silent(
        "loss-divided-twice",
        "model.fit with a strategy: the loss is 1/x of the loss on one device",
        "A loss that was passed to compile divides by the global batch size, and Keras 2 also divides by the number "
        "of replicas.",
        "Return one loss per row. Keras averages these losses.",
        ("keras-team/keras#16285",),
        (*_TWO, "--keras", "2"),
    ),
    _silent(
        "undistributed-batches",
        "Training with several workers: each worker trains on all of the data",
        "The loop passes the batches of the plain dataset to strategy.run, instead of those of the distributed "
        "dataset.",
        "Iterate over the dataset that strategy.experimental_distribute_dataset returns.",
    ),
    _silent(
        "shard-twice",
        "MultiWorkerMirroredStrategy: dataset.shard(num_workers, index) and auto-sharding lose rows",
        "The program divides the dataset among the workers, and then the strategy divides each part again.",
        "Leave shard() out, or set options.experimental_distribute.auto_shard_policy to "
        "tf.data.experimental.AutoShardPolicy.OFF.",
        ("tensorflow/tensorflow#42146", "tensorflow/tensorflow#56513"),
    ),
    _silent(
        "unseeded-rows",
        "Training with several workers: some rows are never used, others twice",
        "Each worker shuffles the rows in a different order before it trains on its part.",
        "Set the same seed in all workers: keras.utils.set_random_seed(7), or numpy.random.default_rng(7).",
    ),
    _silent(
        "unseeded-shuffle",
        "Training with several workers: dataset.shuffle has a different order in each worker",
        "Each worker shuffles the dataset in a different order before it keeps its part.",
        "Pass a seed to shuffle(), or leave --no-patches out.",
        example=(*_TWO, "--no-patches"),
    ),
    _silent(
        "shard-of-one-pipeline",
        "ParameterServerStrategy: dataset.shard(…, input_pipeline_id) leaves each worker all of the data",
        "Under ParameterServerStrategy, each worker has an input pipeline of its own, and num_input_pipelines is 1. "
        "shard() therefore leaves each worker all of the data, from its beginning.",
        "Leave shard() out, and shuffle instead, so that each worker reads in a different order: "
        "dataset.shuffle(rows).repeat().",
        example=_SERVED,
    ),
    _silent(
        "undivided-function",
        "distribute_datasets_from_function: each worker trains on all of the data",
        "distribute_datasets_from_function does not divide the dataset that the function returns, and the function "
        "returns the same dataset in each worker.",
        "Divide the rows in the function: dataset.shard(context.num_input_pipelines, context.input_pipeline_id).",
        ("yahoo/TensorFlowOnSpark#227", "GoogleCloudPlatform/cloudml-samples#58"),
    ),
    _silent(
        "undivided-batch",
        "distribute_datasets_from_function: each replica gets the whole global batch",
        "distribute_datasets_from_function does not divide the batches of the dataset that the function returns, so "
        "each replica gets a batch of the global size.",
        "Batch by the size of a replica's batch: context.get_per_replica_batch_size(global_batch_size).",
        ("tensorflow/tensorflow#50509",),
    ),
    _silent(
        "steps-of-one-replica",
        "MultiWorkerMirroredStrategy is no faster with more workers: each epoch takes as long as before",
        "The batch grows with the number of replicas, but steps_per_epoch does not shrink, so each epoch trains on "
        "the data several times.",
        "Divide by the global batch size, steps_per_epoch=rows // global_batch_size, or leave out steps_per_epoch and "
        "repeat().",
        ("tensorflow/tensorflow#42888", "tensorflow/tensorflow#36515"),
    ),
    _silent(
        "one-device-alone",
        "MirroredStrategy uses only one GPU",
        "The model is created outside the scope of the strategy, or the program never calls strategy.run, so only one "
        "device trains.",
        "Create and compile the model within `with strategy.scope():`, and call the steps of a loop with strategy.run.",
        example=("--workers", "1"),
    ),
    _silent(
        "one-step-at-a-time",
        "ParameterServerStrategy is no faster with more workers",
        "The coordinator waits for each step before it schedules the next step, so only one worker trains at a time.",
        "Schedule several steps, and call coordinator.join() or fetch() after the loop.",
        ("kubeflow/trainer#1459",),
        ("--workers", "2", "--ps", "1", "--servers", "builtin"),
    ),
    _silent(
        "assigned-metric",
        "MirroredStrategy: the value of a custom metric is too large by the number of GPUs",
        "A strategy adds up the variables of a metric over all replicas, but update_state assigns a value to them.",
        "Change these variables with assign_add, and divide in result().",
        ("tensorflow/addons#2629",),
        ("--workers", "1"),
    ),
    _silent(
        "chief-without-a-chief",
        'if task_type == "chief": … and the program ends without training',
        "The program trains only in a chief, but the job has no chief.",
        "With MultiWorkerMirroredStrategy, remove the condition on the task, since all workers must train. With "
        "parameter servers, add a chief: --ps 1.",
    ),
    _silent(
        "results-of-one-worker",
        "MultiWorkerMirroredStrategy: each worker has predictions for only a part of the rows",
        "experimental_local_results returns only the results of the worker's own replicas.",
        "Use strategy.gather(results, axis=0), which returns the results of all workers.",
        ("tensorflow/tensorflow#50019",),
    ),
    _silent(
        "metric-of-one-worker",
        "MultiWorkerMirroredStrategy: each worker prints a different value of a metric",
        "The metric is created outside the scope of the strategy, so each worker counts only the rows of its share.",
        "Create the metric within `with strategy.scope():`.",
        ("tensorflow/tensorflow#39343",),
    ),
    Row(
        "counting-schedule",
        "MirroredStrategy: a custom LearningRateSchedule does not change the learning rate",
        "",
        "The schedule counts its calls in Python, but its Python code runs only once, when TensorFlow compiles the "
        "step.",
        "Compute the rate from the schedule's argument step, with TensorFlow operations.",
        _found("counting-schedule"),
        ("tensorflow/tensorflow#44560",),
        ("--workers", "1"),
        facts_only=True,
    ),
)
