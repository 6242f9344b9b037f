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
    """Check whether Keras warned that the data ran out and, if the run is known, `fit` made too few steps."""
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
        "The data of fit ended before all its steps were made: {who} stopped {made}, without an error.",
        "Let the dataset repeat, dataset.repeat(), or leave steps_per_epoch out, so that an epoch ends with the data; "
        "a Python generator needs a loop: while True.",
        _ran_out,
        ("tensorflow/tensorflow#64476", "tensorflow/tensorflow#25254"),
        _TWO,
        facts_only=True,
    ),
    _silent(
        "loss-per-replica",
        "Training with several workers: gradients are too large, the loss does not decrease",
        "A step averages its loss over the rows of one worker, and the strategy adds up the gradients of all workers.",
        "Divide by the number of replicas, too: tf.nn.compute_average_loss(losses, global_batch_size=…).",
        ("tensorflow/tensorflow#45923", "tensorflow/tensorflow#33809"),
    ),
    _silent(
        "batch-per-replica",
        "Training with several workers: each worker gets a smaller batch than before",
        "The strategy divides each batch among the workers, and the batch has the size of one worker's.",
        "Batch by the global batch: batch_size * strategy.num_replicas_in_sync.",
    ),
    _silent(
        "mean-of-parts",
        "Training with several workers: the printed loss is too small by the number of workers",
        "Each replica has divided its loss by the global batch size, and strategy.reduce with MEAN divides once more.",
        "Add up the losses of the replicas: strategy.reduce(tf.distribute.ReduceOp.SUM, losses, axis=None).",
    ),
    _silent(
        "loss-divided-twice",
        "model.fit with a strategy: the loss is 1/x of the loss on one device",
        "A loss that was passed to compile divides by the global batch size, and Keras 2 divides by the number of "
        "replicas, too.",
        "Return a loss per row, which Keras averages.",
        ("keras-team/keras#16285",),
        (*_TWO, "--keras", "2"),
    ),
    _silent(
        "undistributed-batches",
        "Training with several workers: each worker trains on all of the data",
        "The loop passes the batches of a dataset to strategy.run, and not those of the distributed dataset.",
        "Iterate over what strategy.experimental_distribute_dataset returned.",
    ),
    _silent(
        "shard-twice",
        "MultiWorkerMirroredStrategy: dataset.shard(num_workers, index) and auto-sharding lose rows",
        "The program divides the dataset among the workers, and the strategy divides each part once more.",
        "Leave shard() out, or set options.experimental_distribute.auto_shard_policy to "
        "tf.data.experimental.AutoShardPolicy.OFF.",
        ("tensorflow/tensorflow#42146", "tensorflow/tensorflow#56513"),
    ),
    _silent(
        "unseeded-rows",
        "Training with several workers: some rows are never trained, others twice",
        "Each worker shuffles the rows in an order of its own, and then trains on its part.",
        "Set the same seed in all workers: keras.utils.set_random_seed(7), or numpy.random.default_rng(7).",
    ),
    _silent(
        "unseeded-shuffle",
        "Training with several workers: dataset.shuffle has another order in each worker",
        "Each worker shuffles the dataset in an order of its own, and then keeps its part.",
        "Give shuffle() a seed, or leave --no-patches out.",
        example=(*_TWO, "--no-patches"),
    ),
    _silent(
        "shard-of-one-pipeline",
        "ParameterServerStrategy: dataset.shard(…, input_pipeline_id) leaves each worker all of the data",
        "Under ParameterServerStrategy each worker is a pipeline by itself: num_input_pipelines is 1, and shard() "
        "leaves each worker all of the data, from its beginning.",
        "Leave shard() out, and shuffle: dataset.shuffle(rows).repeat(), so that each worker reads in another order.",
        example=_SERVED,
    ),
    _silent(
        "undivided-function",
        "distribute_datasets_from_function: each worker trains on all of the data",
        "The strategy does not divide what such a function returns, and the function makes the same dataset in each "
        "worker.",
        "Divide the rows in it: dataset.shard(context.num_input_pipelines, context.input_pipeline_id).",
        ("yahoo/TensorFlowOnSpark#227", "GoogleCloudPlatform/cloudml-samples#58"),
    ),
    _silent(
        "undivided-batch",
        "distribute_datasets_from_function: each replica gets the whole global batch",
        "The strategy does not divide the batches of a dataset that such a function returns.",
        "Batch by the size of one replica's batch: context.get_per_replica_batch_size(global_batch_size).",
        ("tensorflow/tensorflow#50509",),
    ),
    _silent(
        "steps-of-one-replica",
        "MultiWorkerMirroredStrategy is no faster with more workers: each epoch takes as long as before",
        "The batch grows with the number of replicas, and steps_per_epoch does not shrink: each epoch trains the data "
        "several times.",
        "Divide by the global batch, steps_per_epoch=rows // global_batch_size, or leave steps_per_epoch and repeat() "
        "out.",
        ("tensorflow/tensorflow#42888", "tensorflow/tensorflow#36515"),
    ),
    _silent(
        "one-device-alone",
        "MirroredStrategy uses only one GPU",
        "The model is created outside the scope of the strategy, or the program never calls strategy.run, so that it "
        "trains on one device alone.",
        "Create and compile the model within `with strategy.scope():`, and call the steps of a loop by strategy.run.",
        example=("--workers", "1"),
    ),
    _silent(
        "one-step-at-a-time",
        "ParameterServerStrategy is no faster with more workers",
        "The coordinator waits for each step before it schedules the next one, so that one worker trains at a time.",
        "Schedule several steps, and call coordinator.join() or fetch() after the loop.",
        ("kubeflow/trainer#1459",),
        ("--workers", "2", "--ps", "1", "--servers", "builtin"),
    ),
    _silent(
        "assigned-metric",
        "MirroredStrategy: a metric of one's own is too large by the number of GPUs",
        "A strategy adds up the variables of a metric over all replicas, and update_state sets them to a value.",
        "Add to them with assign_add, and divide in result().",
        ("tensorflow/addons#2629",),
        ("--workers", "1"),
    ),
    _silent(
        "chief-without-a-chief",
        'if task_type == "chief": … and the program ends without training',
        "The program trains in a chief alone, and the job has no chief.",
        "Leave the condition out: with MultiWorkerMirroredStrategy, all workers have to train. With parameter servers, "
        "start a chief: --ps 1.",
    ),
    _silent(
        "results-of-one-worker",
        "MultiWorkerMirroredStrategy: each worker has the predictions for a part of the rows",
        "experimental_local_results returns the results of the worker's own replicas.",
        "Use strategy.gather(results, axis=0), which returns those of all workers.",
        ("tensorflow/tensorflow#50019",),
    ),
    _silent(
        "metric-of-one-worker",
        "MultiWorkerMirroredStrategy: each worker prints another value of a metric",
        "The metric is created outside the scope of the strategy, so that each worker counts the rows of its share.",
        "Create the metric within `with strategy.scope():`.",
        ("tensorflow/tensorflow#39343",),
    ),
    Row(
        "counting-schedule",
        "MirroredStrategy: a custom LearningRateSchedule does not change the learning rate",
        "",
        "The schedule counts its calls in Python, which runs once, when TensorFlow compiles the step.",
        "Compute the rate from the schedule's argument, step, with operations of TensorFlow.",
        _found("counting-schedule"),
        ("tensorflow/tensorflow#44560",),
        ("--workers", "1"),
        facts_only=True,
    ),
)
