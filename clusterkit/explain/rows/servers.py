"""Rows about parameter servers and their coordinator."""

from __future__ import annotations

from clusterkit.explain.frames import not_through, through
from clusterkit.explain.row import HOLDS, Evidence, Row, Words, of_shape
from clusterkit.words.job import Servers
from clusterkit.words.model import Shape

_SERVED = of_shape(Shape.PARAMETER_SERVER)
_COORDINATED = ("--workers", "1", "--ps", "1", "--servers", "builtin")
_KERAS_2 = (*_COORDINATED, "--keras", "2")
_MADE = "tf.distribute.ParameterServerStrategy(tf.distribute.cluster_resolver.TFConfigClusterResolver())"

_TRAINS = (
    "To train, use --keras 2 with dataset.repeat() and steps_per_epoch, since fit of Keras 3 does not support this "
    "strategy, or write a loop with tf.distribute.coordinator.ClusterCoordinator."
)


def _creates_it_everywhere(evidence: Evidence) -> Words | None:
    """Hold always. If the workers and parameter servers run the program, too, replace both sentences."""
    if evidence.job is None or evidence.job.servers is Servers.BUILTIN:
        return HOLDS
    return {
        "means": "ParameterServerStrategy does not read TF_CONFIG by itself, and only the chief may create this "
        "strategy. Workers and parameter servers run a tf.distribute.Server instead.",
        "advice": f"Write strategy = {_MADE}, and run the job with --servers builtin, or call "
        f"clusterkit.training.serve() before that line. {_TRAINS}",
    }


ROWS: tuple[Row, ...] = (
    Row(
        "finite-data-on-parameter-servers",
        "OutOfRangeError: End of sequence, from a worker of ParameterServerStrategy",
        r"End of sequence(?s:.{0,600}?)remote target /job:worker/replica:0/task:(?P<worker>\d{1,6})",
        "The coordinator has scheduled more steps than worker:{worker} has batches, so the worker's iterator has "
        "ended.",
        "Add .repeat() to the dataset, and limit the steps in the loop that schedules them, or with steps_per_epoch.",
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
        r"ValueError: (?:You need to use this dataset in|To use this dataset, .* to) ClusterCoordinator"
        r"|ParameterServerStrategy` must be used with `tf\.distribute\.[\w.]{0,30}ClusterCoordinator`",
        "The coordinator's own loop at {line} uses a dataset that only workers can read.",
        "Write batches = iter(coordinator.create_per_worker_dataset(dataset_function)), and pass batches to "
        "coordinator.schedule.",
        when=not_through("/keras/src/"),
        reported=("tensorflow/tensorflow#44987",),
        example=_COORDINATED,
    ),
    Row(
        "no-steps-on-parameter-servers",
        "ValueError: When providing an infinite dataset, you must specify the number of steps to run",
        r"ValueError: When (?:providing an infinite|passing an infinitely repeating) dataset, "
        r"(?:you must|please) specify",
        "The dataset repeats forever, so Keras 2 cannot determine how long an epoch or an evaluation is.",
        "Pass steps_per_epoch=rows // batch_size to fit, validation_steps to fit if it has validation data, and steps "
        "to evaluate and predict.",
        reported=("tensorflow/community#334",),
        example=_KERAS_2,
    ),
    Row(
        "dataset-creator-without-steps",
        "ValueError: When using a DatasetCreator, `steps_per_epoch` … must be provided",
        r"ValueError: When using a `tf\.keras\.utils\.experimental\.DatasetCreator`, `steps_per_epoch`",
        "Keras 2 cannot determine how many batches a DatasetCreator yields on the workers.",
        "Pass steps_per_epoch to fit, validation_steps to fit if it has validation data, and steps to evaluate.",
        reported=("tensorflow/tensorflow#55668",),
        example=_KERAS_2,
    ),
    Row(
        "generator-on-parameter-servers",
        "NotImplementedError: Only `tf.keras.utils.experimental.DatasetCreator`, `tf.Tensor`, numpy arrays … supported",
        r"NotImplementedError: Only `tf\.keras\.utils\.experimental\.DatasetCreator`, `tf\.Tensor`, numpy arrays",
        "{line} passes a Python generator, or another object of this process, which the workers cannot read.",
        "Pass a tf.data.Dataset that repeats, or a tf.keras.utils.experimental.DatasetCreator, and pass "
        "steps_per_epoch.",
        reported=("tensorflow/tensorflow#48957",),
        example=_KERAS_2,
    ),
    Row(
        "dataset-creator-without-argument",
        "TypeError: dataset_fn() takes 0 positional arguments but 1 was given, from DatasetCreator",
        r"TypeError: (?P<function>[\w.<>]+)\(\) takes 0 positional arguments",
        "DatasetCreator passes a tf.distribute.InputContext to its function, but {function} takes no argument.",
        "Write def dataset_fn(context): …, which may batch by context.get_per_replica_batch_size(global_batch_size).",
        when=through("/utils/dataset_creator.py"),
        reported=("tensorflow/tensorflow#55668",),
        example=_KERAS_2,
    ),
    Row(
        "batch-callback-on-parameter-servers",
        "ValueError: Batch-level `Callback`s are not supported with `ParameterServerStrategy`",
        r"ValueError: Batch-level `Callback`s are not supported with `ParameterServerStrategy`",
        "A callback has a method for each batch, but the coordinator receives results only at the end of an epoch.",
        "Use on_epoch_end, with a smaller steps_per_epoch so that Keras calls it more often, or write a loop with "
        "ClusterCoordinator.",
        reported=("tensorflow/community#334",),
        example=_KERAS_2,
    ),
    Row(
        "eagerly-on-parameter-servers",
        "ValueError: When using `Model` with `ParameterServerStrategy`, `run_eagerly` is not supported",
        r"ValueError: When using `Model` with `ParameterServerStrategy`, `run_eagerly` is not supported",
        "The steps of a parameter-server job run as tf.functions on other tasks, and eager steps cannot run there.",
        "Remove run_eagerly from compile, and tf.config.run_functions_eagerly from the program.",
        example=_KERAS_2,
    ),
    Row(
        "dataset-function-with-arguments",
        "TypeError: Binding inputs to tf.function failed due to `missing a required argument: 'context'`",
        r"TypeError: Binding inputs to tf\.function failed due to `missing a required argument: '(?P<argument>\w+)'`",
        "create_per_worker_dataset calls its function without arguments, but the function needs {argument}.",
        "Pass a function without arguments that returns strategy.distribute_datasets_from_function(…).",
        when=through("create_per_worker_dataset"),
        reported=("tensorflow/tensorflow#44987",),
        example=_COORDINATED,
    ),
    Row(
        "iterator-of-the-dataset",
        "TypeError: 'PerWorkerDatasetFromDatasetFunction' object is not an iterator",
        r"TypeError: 'PerWorkerDataset\w+' object is not an iterator",
        "A step received the dataset of create_per_worker_dataset itself, but a step needs its iterator to take the "
        "next batch.",
        "Write batches = iter(dataset) once, then coordinator.schedule(step, args=(batches,)).",
        example=_COORDINATED,
    ),
    Row(
        "batch-in-the-coordinator",
        "NotImplementedError: Iterating over an `AsyncDistributedIterator` is not supported right now",
        r"NotImplementedError: Iterating over an `AsyncDistributedIterator` is not supported"
        r"|'IteratorSpec' object has no attribute",
        "{line} takes a batch in the coordinator, but the batches are on the workers.",
        "Call next(batches) in the step, and pass the iterator to the step: coordinator.schedule(step, "
        "args=(batches,)).",
        example=_COORDINATED,
    ),
    Row(
        "schedule-of-a-python-function",
        "TypeError: ClusterCoordinator.schedule only accepts a `tf.function` or a concrete function",
        r"ClusterCoordinator\.schedule` (?:only accepts a `tf\.function`|must be a callable object)"
        r"|Output of a scheduled function that is not tf\.function cannot be the input",
        "{line} schedules a Python function, which cannot run on another task.",
        "Decorate the function with @tf.function.",
        example=_COORDINATED,
    ),
    Row(
        "variable-made-in-a-step",
        "ValueError: tf.function only supports singleton tf.Variables created on the first call",
        r"ValueError: tf\.function only supports singleton tf\.Variables created on the first call"
        r"|tf\.function-decorated function tried to create variables on non-first call"
        r"|Creating variables on a non-first call to a function decorated with tf\.function"
        r"|Tensor-typed variable initializers must either be wrapped"
        r"|Tried to create variable \S{1,300} with mismatching name on device",
        "A step creates variables each time it is traced: its own variables, or those of a model or an optimizer that "
        "is first used in the step.",
        "Create variables, and build models and optimizers, before the first step, inside the strategy's scope().",
        example=_COORDINATED,
    ),
    Row(
        "coordinator-in-a-gang",
        "AttributeError: 'CollectiveAllReduceStrategy' object has no attribute '_cluster_coordinator'",
        r"'\w*Strategy\w*' object has no attribute '_cluster_coordinator'"
        r"|is supported to work with `tf\.distribute\.experimental\.coordinator\.ClusterCoordinator`",
        "{line} creates a ClusterCoordinator for a strategy without parameter servers.",
        "Call strategy.run in every worker, or use ParameterServerStrategy and add --ps 1.",
        example=("--workers", "2"),
    ),
    Row(
        "strategy-without-a-resolver",
        "TypeError: ParameterServerStrategyV2.__init__() missing 1 required positional argument: 'cluster_resolver'",
        r"ParameterServerStrategy\w*\.__init__\(\) missing 1 required positional argument: 'cluster_resolver'"
        r"|clusterkit: [^\n]{1,4000} Its cluster_resolver is missing, too",
        "ParameterServerStrategy does not read TF_CONFIG by itself.",
        f"Write {_MADE}. {_TRAINS}",
        when=_creates_it_everywhere,
        reported=("yahoo/TensorFlowOnSpark#587", "tensorflow/tensorflow#38511"),
        example=_COORDINATED,
    ),
    Row(
        "parameter-servers-of-tensorflow-1",
        "NotImplementedError: `tf.compat.v1…ParameterServerStrategy` currently only works with the tf.Estimator API",
        r"ParameterServerStrategy` currently only works with the tf\.Estimator API",
        "{line} uses the ParameterServerStrategy of TensorFlow 1, which can only train estimators.",
        "Write tf.distribute.ParameterServerStrategy(tf.distribute.cluster_resolver.TFConfigClusterResolver()), and "
        "run the job with --servers builtin.",
        reported=("tensorflow/tensorflow#32010",),
        example=("--workers", "1", "--ps", "1"),
    ),
    Row(
        "progress-bar-on-parameter-servers",
        "ValueError: `verbose=1` is not allowed with `ParameterServerStrategy` for performance reasons",
        r"ValueError: `verbose=1` is not allowed with `ParameterServerStrategy`",
        "A progress bar needs the result of each batch, but the coordinator receives results only at the end of an "
        "epoch.",
        "Pass verbose=2, which prints a line per epoch, or leave verbose out.",
        example=_KERAS_2,
    ),
    Row(
        "result-without-fetch",
        "TypeError: float() argument must be a string or a real number, not 'RemoteValueImpl'",
        r"(?:TypeError|ValueError|AttributeError): .*\bRemoteValueImpl\b",
        "{line} uses the result of coordinator.schedule as a value, but the result is a RemoteValue, which is "
        "computed later.",
        "Call fetch, which waits for the value: coordinator.schedule(step).fetch()",
        example=_COORDINATED,
    ),
    Row(
        "result-as-an-argument",
        "ValueError: `RemoteValue` used as an input to scheduled function is not yet supported",
        r"ValueError: `tf\.distribute\.experimental\.coordinator\.RemoteValue` used as an input to scheduled function",
        "{line} passes the result of one step to another step, but the result may be on another worker.",
        "Pass result.fetch(), or store the value in a tf.Variable that was created inside the strategy's scope().",
        example=_COORDINATED,
    ),
    Row(
        "iterator-made-in-a-step",
        "RuntimeError: __iter__() is not supported inside of tf.function or in graph mode",
        r"RuntimeError: __iter__\(\) is not supported inside of tf\.function or in graph mode",
        "{line} creates the iterator of the workers' datasets inside a step.",
        "Write batches = iter(dataset) once, before the loop, then coordinator.schedule(step, args=(batches,)).",
        example=_COORDINATED,
    ),
    Row(
        "partitioner-of-columns",
        "ValueError: variable_partitioner must return a list/tuple whose elements are 1 besides the first element",
        r"variable_partitioner must return a list/tuple whose elements are 1 besides the first .*"
        r"got: (?P<got>\[[^\]\n]*\])",
        "The strategy's variable_partitioner returned {got}, but variables can only be divided along their first axis.",
        "Use tf.distribute.experimental.partitioners.MinSizePartitioner(max_shards=…), or return [shards, 1, …].",
        example=("--workers", "1", "--ps", "2", "--servers", "builtin"),
    ),
    Row(
        "variable-in-a-dataset-function",
        "ValueError: Creating variables in `dataset_fn` is not allowed.",
        r"ValueError: Creating variables in `dataset_fn` is not allowed",
        "{line} creates a variable, or a layer with a variable, in the function that creates the workers' datasets.",
        "Create the variable before, inside the strategy's scope(), or use it in the step instead of in the dataset.",
        example=_COORDINATED,
    ),
    Row(
        "step-returns-a-dataset",
        "InternalError: could not parse rpc response, from the fetch of a scheduled step",
        r"InternalError: .*could not parse rpc response",
        "A scheduled step returns an object that cannot be sent from its worker, such as a dataset, an iterator or a "
        "table.",
        "Return only tensors from the step. Create datasets with coordinator.create_per_worker_dataset.",
        when=through("/distribute/coordinator/"),
        example=_COORDINATED,
    ),
    Row(
        "iterator-of-the-coordinator",
        "InvalidArgumentError: Expects 1 arguments, but 0 is provided [Op:Identity], from a scheduled step",
        r"InvalidArgumentError: .*Expects \d+ arguments, but 0 is provided",
        "A scheduled step uses an object that exists only in the coordinator's process, such as an iterator or the "
        "Python function of tf.py_function.",
        "Write batches = iter(coordinator.create_per_worker_dataset(dataset_function)), and pass batches to the step: "
        "coordinator.schedule(step, args=(batches,)). Move tf.py_function into the dataset's map.",
        when=through("/distribute/coordinator/"),
        example=_COORDINATED,
    ),
    Row(
        "arrays-on-parameter-servers",
        "ValueError: Unexpected dataset type!, from create_per_worker_dataset",
        r"ValueError: Unexpected dataset type!",
        "{line} passes an object that is neither a dataset nor a function that returns a dataset to "
        "create_per_worker_dataset.",
        "Write coordinator.create_per_worker_dataset(lambda: "
        "tf.data.Dataset.from_tensor_slices(arrays).batch(8).repeat())",
        example=_COORDINATED,
    ),
    Row(
        "dataset-of-the-coordinator",
        "ClosureInputError: … Failed copying input tensor … Unable to parse tensor proto",
        r"Unable to parse tensor proto",
        "The coordinator created a dataset in its own process, and the function for the workers only returns this "
        "dataset. A dataset cannot be sent to another task.",
        "Create the dataset in the function: coordinator.create_per_worker_dataset(lambda: "
        "tf.data.Dataset.from_tensor_slices(arrays).batch(8).repeat()). The same applies to DatasetCreator and "
        "distribute_datasets_from_function. Or pass the dataset itself: create_per_worker_dataset(dataset).",
        reported=("tensorflow/tensorflow#24887", "tensorflow/tensorflow#34391", "tensorflow/datasets#832"),
        example=_COORDINATED,
    ),
)
