"""Rows about problems with training data: datasets, generators and files."""

from __future__ import annotations

from clusterkit.explain.frames import calling, showing, through
from clusterkit.explain.row import Row

_ONE = ("--workers", "1")
_TWO = ("--workers", "2")

ROWS: tuple[Row, ...] = (
    Row(
        "locked-hdf5",
        "BlockingIOError: Unable to synchronously create file (unable to lock file, errno = 11)",
        r"unable to lock file, errno = 11",
        "Another task, or another process, has the HDF5 file open that {task} opens to write it.",
        "Give each task a path of its own, or write in the chief alone: if clusterkit.training.is_chief().",
        reported=("ray-project/ray#27939", "keras-team/keras#11101"),
        example=_TWO,
    ),
    Row(
        "file-sharding-of-a-generator",
        "NotFoundError: Found an unshardable source dataset",
        r"Found an unshardable source dataset",
        "AutoShardPolicy.FILE shards by file, but the dataset's source, such as a generator, does not read files.",
        "options.experimental_distribute.auto_shard_policy = tf.data.experimental.AutoShardPolicy.DATA, or .OFF",
        reported=("tensorflow/tensorflow#45157",),
        example=_TWO,
    ),
    Row(
        "file-sharding-of-a-saved-dataset",
        "NotFoundError: Did not find a shardable source, walked to a node which is not a dataset",
        r"Did not find a shardable source, walked to a node which is not a dataset",
        "AutoShardPolicy.FILE divides a list of files between the workers, and the dataset has none: it is, for "
        "example, one that Dataset.load reads.",
        "options.experimental_distribute.auto_shard_policy = tf.data.experimental.AutoShardPolicy.DATA, or .OFF",
        reported=("tensorflow/tensorflow#49048",),
        example=_TWO,
    ),
    Row(
        "generator-of-lists",
        "TypeError: `output_signature` must contain objects that are subclass of `tf.TypeSpec` …, in model.fit",
        r"`output_signature` must contain objects that are subclass of `tf\.TypeSpec` but found <class 'list'>",
        "The generator of {line} yields several inputs or labels as a list, and Keras 3 wants a tuple.",
        "yield (first, second), label: tuples instead of lists",
        when=through("/keras/src/"),
        reported=("tensorflow/tensorflow#31231",),
        example=_TWO,
    ),
    Row(
        "dataset-without-batches",
        "IndexError: list index out of range in get_static_batch_dim, from experimental_distribute_dataset",
        r"^IndexError: list index out of range|Unable to get batched dataset from the input dataset",
        "{line} distributes a dataset that has no batches to divide between the workers, or divides its batches again.",
        "Add .batch(rows of all workers together) to the dataset, as its last operation but prefetch.",
        when=showing("in get_static_batch_dim|Unable to get batched dataset"),
        example=_TWO,
    ),
    Row(
        "arrays-instead-of-a-dataset",
        "AttributeError: 'numpy.ndarray' object has no attribute '_variant_tensor'",
        r"AttributeError: '(?P<type>[\w.]+)' object has no attribute '_variant_tensor'",
        "{line} distributes an object of type {type}, but a strategy only distributes datasets.",
        "strategy.experimental_distribute_dataset(tf.data.Dataset.from_tensor_slices(arrays).batch(size))",
        example=_TWO,
    ),
    Row(
        "per-replica-value-as-a-tensor",
        "ValueError: It looks like you are using a PerReplica object while not inside a replica context",
        r"ValueError: It looks like you are using a PerReplica object while not inside a replica context"
        r"|ValueError: Attempt to convert a value \(PerReplica:",
        "{line} uses a PerReplica, a value for each replica, as one tensor.",
        "strategy.reduce('SUM', value, axis=None), or strategy.experimental_local_results(value)",
        example=_TWO,
    ),
    Row(
        "truncated-records",
        "DataLossError: truncated record at 0' failed with Read less bytes than requested",
        r"DataLossError: [^\n]*truncated record at (?P<at>\d+)",
        "A TFRecord file ends within its record at byte {at}: its writer still writes or was killed, several tasks "
        "wrote to it, or its copy was cut off.",
        "Write the file again, in one task and under another name until its writer is closed; read it after that.",
        example=_TWO,
    ),
    Row(
        "unknown-shapes",
        "ValueError: Cannot take the length of shape with unknown rank, in model.fit",
        r"Cannot take the length of shape with unknown rank|as_list\(\) is not defined on an unknown TensorShape",
        "The dataset of {line} does not say which shapes its elements have, and Keras needs them.",
        "tf.data.Dataset.from_generator(rows, output_signature=(tf.TensorSpec((3,), tf.float32), …)); after "
        "tf.py_function or tf.numpy_function, call x.set_shape((3,)).",
        when=through("keras/src/"),
        example=_ONE,
    ),
    Row(
        "none-in-a-dataset",
        "AttributeError: 'NoneType' object has no attribute 'device', in model.fit",
        r"AttributeError: '(?:NoneType|RaggedTensor|SparseTensor)' object has no attribute 'device'"
        r"|'NoneTensorSpec' object has no attribute",
        "The dataset of {line} has None, or ragged or sparse tensors, among its elements, which fit of Keras 3 cannot "
        "join for several replicas.",
        "Leave None out of the tuples: yield (x, y) instead of (x, y, None). Make the others dense: dataset.map(lambda "
        "x, y: (x.to_tensor(), y)), or tf.sparse.to_dense(x).",
        when=calling(r"\.(?:fit|evaluate|predict)\("),
        reported=("tensorflow/tensorflow#54900", "keras-team/keras#15593"),
        example=_ONE,
    ),
    Row(
        "dataset-for-each-replica",
        "NotImplementedError: InputReplicationMode.PER_REPLICA is only supported in …",
        r"InputReplicationMode\.PER_REPLICA is only supported in",
        "{line} asks for a dataset for each replica, which only MirroredStrategy has, and only for datasets that a "
        "function makes.",
        "Leave experimental_replication_mode out of tf.distribute.InputOptions, or call "
        "strategy.distribute_datasets_from_function(function, options) of a MirroredStrategy.",
        example=_TWO,
    ),
    Row(
        "steps-not-whole",
        "TypeError: 'float' object cannot be interpreted as an integer, from fit(steps_per_epoch=rows / batch_size)",
        r"TypeError: 'float' object cannot be interpreted as an integer|Cannot convert [\d.]+ to \w+ of dtype int",
        "{line} passes a number of steps or rows that / has made a float.",
        "Divide with //: steps_per_epoch=rows // batch_size, and dataset.batch(size // strategy.num_replicas_in_sync).",
        when=calling(r"\.(?:fit|evaluate|predict|(?:padded_)?batch|take|skip|repeat|shard)\("),
        reported=("tensorflow/tensorflow#40015",),
        example=_TWO,
    ),
    Row(
        "iterator-in-fit",
        "ValueError: Unrecognized data type: x=<….DistributedIterator object at …>",
        r"Unrecognized data type: x=<[^\n]*Iterator",
        "{line} passes an iterator, and fit of Keras 3 makes one of its own in each epoch.",
        "Pass the dataset, without iter(): model.fit(dataset, steps_per_epoch=…), in batches of the global size.",
        example=_TWO,
    ),
)
