"""Rows about problems with training data: datasets, generators and files."""

from __future__ import annotations

from clusterkit.explain.frames import calling, showing, through
from clusterkit.explain.row import Condition, Evidence, Row, Words
from clusterkit.words.model import ProgramKind

_ONE = ("--workers", "1")
_TWO = ("--workers", "2")

_APPLY = "call clusterkit.patches.apply() in this program before the model is created"
_STARTED = (
    "If another Python program of the job has started this one, run the job as a command, whose programs are patched: "
    f"clusterkit up … env python START.py. Or {_APPLY}. Otherwise, run the job with --keras 2."
)
_IN_A_COMMAND = (
    "clusterkit patches the programs of a command through PYTHONPATH. Keep its value in the command: "
    f"PYTHONPATH=mine:$PYTHONPATH. Or {_APPLY}."
)
_ELSEWHERE = f"Run the program with `clusterkit up`, which patches Keras. Or {_APPLY}."


def _is_unpatched(condition: Condition) -> Condition:
    """Add the advice to a condition's values. The advice depends on who started the program."""

    def holds(evidence: Evidence) -> Words | None:
        words, job = condition(evidence), evidence.job
        if words is None or (job is not None and not job.patches):
            return words
        if job is None:
            return {**words, "advice": _ELSEWHERE}
        is_command = job.program.kind is ProgramKind.COMMAND
        return {**words, "advice": _IN_A_COMMAND if is_command else _STARTED}

    return holds


ROWS: tuple[Row, ...] = (
    Row(
        "locked-hdf5",
        "BlockingIOError: Unable to synchronously create file (unable to lock file, errno = 11)",
        r"unable to lock file, errno = 11",
        "{task} opens an HDF5 file to write to it, but another task or another process already has the file open.",
        "Give each task its own path, or write only in the chief: if clusterkit.training.is_chief(): …",
        reported=("ray-project/ray#27939", "keras-team/keras#11101"),
        example=_TWO,
    ),
    Row(
        "file-sharding-of-a-generator",
        "NotFoundError: Found an unshardable source dataset",
        r"Found an unshardable source dataset",
        "AutoShardPolicy.FILE divides a dataset by files, but the source of this dataset, such as a generator, does "
        "not read files.",
        "Write options.experimental_distribute.auto_shard_policy = tf.data.experimental.AutoShardPolicy.DATA, or .OFF.",
        reported=("tensorflow/tensorflow#45157",),
        example=_TWO,
    ),
    Row(
        "file-sharding-of-a-saved-dataset",
        "NotFoundError: Did not find a shardable source, walked to a node which is not a dataset",
        r"Did not find a shardable source, walked to a node which is not a dataset",
        "AutoShardPolicy.FILE divides a list of files among the workers, but this dataset has no such list, for "
        "example because Dataset.load reads it.",
        "Write options.experimental_distribute.auto_shard_policy = tf.data.experimental.AutoShardPolicy.DATA, or .OFF.",
        reported=("tensorflow/tensorflow#49048",),
        example=_TWO,
    ),
    Row(
        "generator-of-lists",
        "TypeError: `output_signature` must contain objects that are subclass of `tf.TypeSpec` …, in model.fit",
        r"`output_signature` must contain objects that are subclass of `tf\.TypeSpec` but found <class 'list'>",
        "The generator at {line} yields several inputs or labels as a list, but Keras 3 needs a tuple.",
        "Yield tuples instead of lists: yield (first, second), label",
        when=through("/keras/src/"),
        reported=("tensorflow/tensorflow#31231",),
        example=_TWO,
    ),
    Row(
        "dataset-without-batches",
        "IndexError: list index out of range in get_static_batch_dim, from experimental_distribute_dataset",
        r"^IndexError: list index out of range|Unable to get batched dataset from the input dataset",
        "{line} distributes a dataset that has no batches to divide among the workers, or whose batches are "
        "themselves batched again.",
        "Add .batch(GLOBAL_BATCH), with the rows of all workers together, as the last operation of the dataset except "
        "prefetch.",
        when=showing("in get_static_batch_dim|Unable to get batched dataset"),
        example=_TWO,
    ),
    Row(
        "arrays-instead-of-a-dataset",
        "AttributeError: 'numpy.ndarray' object has no attribute '_variant_tensor'",
        r"AttributeError: '(?P<type>[\w.]+)' object has no attribute '_variant_tensor'",
        "{line} distributes an object of type {type}, but a strategy can only distribute datasets.",
        "Write strategy.experimental_distribute_dataset(tf.data.Dataset.from_tensor_slices(arrays).batch(size)).",
        example=_TWO,
    ),
    Row(
        "per-replica-conversion",
        "ValueError: Attempt to convert a value (PerReplica:{…}) with an unsupported type … to a Tensor",
        r"ValueError: Attempt to convert a value \(PerReplica:",
        "fit, evaluate and predict of Keras 3 fail on several workers, because they use a value per replica as one "
        "tensor.",
        "Run the job without --no-patches, so that clusterkit patches Keras, or run the job with --keras 2.",
        when=_is_unpatched(through("/keras/src/")),
        reported=("keras-team/keras#20585", "ray-project/ray#47464", "keras-team/keras#20329"),
        example=(*_TWO, "--no-patches"),
        over=("per-replica-value-as-a-tensor",),
    ),
    Row(
        "per-replica-value-as-a-tensor",
        "ValueError: It looks like you are using a PerReplica object while not inside a replica context",
        r"ValueError: It looks like you are using a PerReplica object while not inside a replica context"
        r"|ValueError: Attempt to convert a value \(PerReplica:",
        "{line} uses a PerReplica, which holds one value for each replica, as a single tensor.",
        "Write strategy.reduce('SUM', value, axis=None), or strategy.experimental_local_results(value).",
        example=_TWO,
    ),
    Row(
        "truncated-records",
        "DataLossError: truncated record at 0' failed with Read less bytes than requested",
        r"DataLossError: [^\n]*truncated record at (?P<at>\d+)",
        "A TFRecord file ends in the middle of the record at byte {at}. Its writer is still writing or was killed, "
        "several tasks wrote to the file, or a copy of it was cut off.",
        "Write the file again in only one task, under a temporary name until its writer is closed, and read it only "
        "after that.",
        example=_TWO,
    ),
    Row(
        "unknown-shapes",
        "ValueError: Cannot take the length of shape with unknown rank, in model.fit",
        r"Cannot take the length of shape with unknown rank|as_list\(\) is not defined on an unknown TensorShape",
        "The dataset at {line} does not define the shapes of its elements, but Keras needs these shapes.",
        "Write tf.data.Dataset.from_generator(rows, output_signature=(tf.TensorSpec((3,), tf.float32), …)). After "
        "tf.py_function or tf.numpy_function, call x.set_shape((3,)).",
        when=through("keras/src/"),
        example=_ONE,
    ),
    Row(
        "none-in-a-dataset",
        "AttributeError: 'NoneType' object has no attribute 'device', in model.fit",
        r"AttributeError: '(?:NoneType|RaggedTensor|SparseTensor)' object has no attribute 'device'"
        r"|'NoneTensorSpec' object has no attribute",
        "The dataset at {line} contains None, or ragged or sparse tensors, which fit of Keras 3 cannot join for "
        "several replicas.",
        "Leave None out of the tuples: yield (x, y) instead of (x, y, None). Convert ragged and sparse tensors to "
        "dense ones: dataset.map(lambda x, y: (x.to_tensor(), y)), or tf.sparse.to_dense(x).",
        when=calling(r"\.(?:fit|evaluate|predict)\("),
        reported=("tensorflow/tensorflow#54900", "keras-team/keras#15593"),
        example=_ONE,
    ),
    Row(
        "dataset-for-each-replica",
        "NotImplementedError: InputReplicationMode.PER_REPLICA is only supported in …",
        r"InputReplicationMode\.PER_REPLICA is only supported in",
        "{line} requests a dataset for each replica, which only MirroredStrategy supports, and only for datasets that "
        "a function creates.",
        "Leave experimental_replication_mode out of tf.distribute.InputOptions, or call "
        "strategy.distribute_datasets_from_function(function, options) of a MirroredStrategy.",
        example=_TWO,
    ),
    Row(
        "steps-not-whole",
        "TypeError: 'float' object cannot be interpreted as an integer, from fit(steps_per_epoch=rows / batch_size)",
        r"TypeError: 'float' object cannot be interpreted as an integer|Cannot convert [\d.]+ to \w+ of dtype int",
        "{line} passes a number of steps or rows that is a float, because the program divided with /.",
        "Divide with //, as in steps_per_epoch=rows // batch_size or dataset.batch(size // "
        "strategy.num_replicas_in_sync).",
        when=calling(r"\.(?:fit|evaluate|predict|(?:padded_)?batch|take|skip|repeat|shard)\("),
        reported=("tensorflow/tensorflow#40015",),
        example=_TWO,
    ),
    Row(
        "iterator-in-fit",
        "ValueError: Unrecognized data type: x=<….DistributedIterator object at …>",
        r"Unrecognized data type: x=<[^\n]*Iterator",
        "{line} passes an iterator to fit, but fit of Keras 3 creates its own iterator in each epoch.",
        "Pass the dataset without iter(), in batches of the global size: model.fit(dataset, steps_per_epoch=…).",
        example=_TWO,
    ),
)
