"""Rows about parameter servers and their coordinator."""

from __future__ import annotations

from clusterkit.explain.frames import not_through, through
from clusterkit.explain.row import Row, of_shape
from clusterkit.words.model import Shape

_SERVED = of_shape(Shape.PARAMETER_SERVER)
_COORDINATED = ("--workers", "1", "--ps", "1", "--servers", "builtin")
_KERAS_2 = (*_COORDINATED, "--keras", "2")


ROWS: tuple[Row, ...] = (
    Row(
        "finite-data-on-parameter-servers",
        "OutOfRangeError: End of sequence, from a worker of ParameterServerStrategy",
        r"End of sequence(?s:.{0,600}?)remote target /job:worker/replica:0/task:(?P<worker>\d{1,6})",
        "The coordinator has scheduled more steps than worker:{worker} has batches: its iterator has ended.",
        "Add .repeat() to the dataset, and count the steps: in the loop that schedules them, or by steps_per_epoch.",
        when=_SERVED,
        reported=("tensorflow/models#11142", "tensorflow/tensorflow#61129"),
        example=_COORDINATED,
    ),
    Row(
        "fit-on-parameter-servers",
        "ValueError: To use this dataset, you need to pass this dataset to ClusterCoordinator, from fit",
        r"ValueError: To use this dataset, you need to pass this dataset to ClusterCoordinator",
        "Keras 3 does not support ParameterServerStrategy in fit, evaluate and predict.",
        "Run the job with --keras 2, or write a loop with tf.distribute.coordinator.ClusterCoordinator.",
        when=through("/keras/src/"),
        reported=("keras-team/keras#18624",),
        example=(*_COORDINATED, "--no-patches"),
    ),
    Row(
        "dataset-without-a-coordinator",
        "ValueError: You need to use this dataset in ClusterCoordinator.create_per_worker_dataset",
        r"ValueError: (?:You need to use this dataset in|To use this dataset, .* to) ClusterCoordinator",
        "The coordinator's own loop, at {line}, reads a dataset that only workers can read.",
        "batches = iter(coordinator.create_per_worker_dataset(dataset_function)); pass them to coordinator.schedule.",
        when=not_through("/keras/src/"),
        reported=("tensorflow/tensorflow#44987",),
        example=_COORDINATED,
    ),
    Row(
        "no-steps-on-parameter-servers",
        "ValueError: When providing an infinite dataset, you must specify the number of steps to run",
        r"ValueError: When providing an infinite dataset, you must specify the number of steps to run",
        "The dataset repeats forever, so Keras 2 cannot determine how long an epoch or an evaluation is.",
        "Pass steps_per_epoch to fit, validation_steps for its validation data, and steps to evaluate and predict.",
        reported=("tensorflow/community#334",),
        example=_KERAS_2,
    ),
    Row(
        "dataset-creator-without-steps",
        "ValueError: When using a DatasetCreator, `steps_per_epoch` … must be provided",
        r"ValueError: When using a `tf\.keras\.utils\.experimental\.DatasetCreator`, `steps_per_epoch`",
        "Keras 2 cannot determine how many batches a DatasetCreator yields on the workers.",
        "Pass steps_per_epoch to fit, validation_steps for its validation data, and steps to evaluate.",
        reported=("tensorflow/tensorflow#55668",),
        example=_KERAS_2,
    ),
    Row(
        "generator-on-parameter-servers",
        "NotImplementedError: Only `tf.keras.utils.experimental.DatasetCreator`, `tf.Tensor`, numpy arrays … supported",
        r"NotImplementedError: Only `tf\.keras\.utils\.experimental\.DatasetCreator`, `tf\.Tensor`, numpy arrays",
        "{line} passes a Python generator, or another object of this process, which the workers cannot read.",
        "Pass a tf.data.Dataset that repeats, or a tf.keras.utils.experimental.DatasetCreator, with steps_per_epoch.",
        reported=("tensorflow/tensorflow#48957",),
        example=_KERAS_2,
    ),
    Row(
        "dataset-creator-without-argument",
        "TypeError: dataset_fn() takes 0 positional arguments but 1 was given, from DatasetCreator",
        r"TypeError: (?P<function>[\w.<>]+)\(\) takes 0 positional arguments",
        "DatasetCreator passes a tf.distribute.InputContext to its function, but {function} takes no argument.",
        "def dataset_fn(context): …, which may batch by context.get_per_replica_batch_size(global_batch_size)",
        when=through("/utils/dataset_creator.py"),
        reported=("tensorflow/tensorflow#55668",),
        example=_KERAS_2,
    ),
    Row(
        "batch-callback-on-parameter-servers",
        "ValueError: Batch-level `Callback`s are not supported with `ParameterServerStrategy`",
        r"ValueError: Batch-level `Callback`s are not supported with `ParameterServerStrategy`",
        "A callback has a method for each batch, but the coordinator receives results only at the end of an epoch.",
        "Use on_epoch_end, with a smaller steps_per_epoch to call it more often, or a loop with ClusterCoordinator.",
        reported=("tensorflow/community#334",),
        example=_KERAS_2,
    ),
    Row(
        "eagerly-on-parameter-servers",
        "ValueError: When using `Model` with `ParameterServerStrategy`, `run_eagerly` is not supported",
        r"ValueError: When using `Model` with `ParameterServerStrategy`, `run_eagerly` is not supported",
        "Steps of parameter-server jobs run on other tasks, as tf.functions: eager steps cannot.",
        "Leave run_eagerly out of compile, and tf.config.run_functions_eagerly out of the program.",
        example=_KERAS_2,
    ),
    Row(
        "dataset-function-with-arguments",
        "TypeError: Binding inputs to tf.function failed due to `missing a required argument: 'context'`",
        r"TypeError: Binding inputs to tf\.function failed due to `missing a required argument: '(?P<argument>\w+)'`",
        "create_per_worker_dataset calls its function without arguments, but the function needs {argument}.",
        "Give it a function without arguments, which returns strategy.distribute_datasets_from_function(…).",
        when=through("create_per_worker_dataset"),
        reported=("tensorflow/tensorflow#44987",),
        example=_COORDINATED,
    ),
    Row(
        "iterator-of-the-dataset",
        "TypeError: 'PerWorkerDatasetFromDatasetFunction' object is not an iterator",
        r"TypeError: 'PerWorkerDataset\w+' object is not an iterator",
        "A step got the dataset of create_per_worker_dataset itself, of which it cannot take the next batch.",
        "batches = iter(dataset), once; then coordinator.schedule(step, args=(batches,)).",
        example=_COORDINATED,
    ),
    Row(
        "batch-in-the-coordinator",
        "NotImplementedError: Iterating over an `AsyncDistributedIterator` is not supported right now",
        r"NotImplementedError: Iterating over an `AsyncDistributedIterator` is not supported",
        "{line} takes a batch in the coordinator, but the batches are on the workers.",
        "Call next(batches) in the step, and pass the iterator: coordinator.schedule(step, args=(batches,)).",
        example=_COORDINATED,
    ),
    Row(
        "schedule-of-a-python-function",
        "TypeError: ClusterCoordinator.schedule only accepts a `tf.function` or a concrete function",
        r"ClusterCoordinator\.schedule` only accepts a `tf\.function`",
        "{line} schedules a Python function, which cannot run on another task.",
        "Decorate it with @tf.function.",
        example=_COORDINATED,
    ),
    Row(
        "variable-made-in-a-step",
        "ValueError: tf.function only supports singleton tf.Variables created on the first call",
        r"ValueError: tf\.function only supports singleton tf\.Variables created on the first call",
        "A step makes variables each time it is traced: its own, or those of a model or an optimizer first used in it.",
        "Make variables, and build models and optimizers, before the first step, inside the strategy's scope().",
        example=_COORDINATED,
    ),
    Row(
        "coordinator-in-a-gang",
        "AttributeError: 'CollectiveAllReduceStrategy' object has no attribute '_cluster_coordinator'",
        r"'\w*Strategy\w*' object has no attribute '_cluster_coordinator'"
        r"|is supported to work with `tf\.distribute\.experimental\.coordinator\.ClusterCoordinator`",
        "{line} makes a ClusterCoordinator for a strategy without parameter servers.",
        "Call strategy.run in every worker, or use ParameterServerStrategy and add --ps 1.",
        example=("--workers", "2"),
    ),
    Row(
        "strategy-without-a-resolver",
        "TypeError: ParameterServerStrategyV2.__init__() missing 1 required positional argument: 'cluster_resolver'",
        r"ParameterServerStrategy\w*\.__init__\(\) missing 1 required positional argument: 'cluster_resolver'",
        "ParameterServerStrategy does not read TF_CONFIG by itself.",
        "tf.distribute.ParameterServerStrategy(tf.distribute.cluster_resolver.TFConfigClusterResolver())",
        reported=("yahoo/TensorFlowOnSpark#587",),
        example=_COORDINATED,
    ),
)
