"""Rows about graphs, sessions and checkpoints of TensorFlow 1, operations and kernels."""

from __future__ import annotations

from clusterkit.explain.frames import not_through
from clusterkit.explain.row import Row

_ONE = ("--workers", "1")
_TWO = ("--workers", "2")

ROWS: tuple[Row, ...] = (
    Row(
        "session-waits-for-a-task",
        "CreateSession still waiting for response from worker: /job:ps/replica:0/task:0",
        r"CreateSession still waiting for response from worker: /job:(?P<job>\w+)/replica:\d+/task:(?P<index>\d+)",
        "A session of TensorFlow 1 begins when all tasks of its cluster answer, and {job}:{index} does not: it has not "
        "started, has ended, or its address is wrong or closed to this task.",
        "Start it, and look at its log and its address. If the task needs to reach only some of the others, name them: "
        "tf.compat.v1.ConfigProto(device_filters=['/job:ps', '/job:worker/task:0']).",
        reported=("tensorflow/tensorflow#12745", "yahoo/TensorFlowOnSpark#240", "tensorflow/lingvo#122"),
        example=_ONE,
    ),
    Row(
        "variable-not-initialized",
        "FailedPreconditionError: Could not find variable … In TF1, it can also mean the variable is uninitialized.",
        r"Could not find variable [^\n]{1,300}\bIn TF1, it can also mean the variable is uninitialized"
        r"|Error while reading resource variable \S{1,300} from Container: \w+"
        r"|FailedPreconditionError[^\n]{0,80}: Attempting to use uninitialized value",
        "{line} reads a variable that has no value yet: no task has run its initializer, or the task that held it was "
        "restarted.",
        "Run tf.compat.v1.global_variables_initializer() in the chief before the first step, or let "
        "MonitoredTrainingSession do it; after a restart, restore a checkpoint.",
        when=not_through("/horovod/_keras/"),  # errors from there are due to two Kerases, each with its own session
        example=_ONE,
    ),
    Row(
        "name-not-in-the-checkpoint",
        "NotFoundError: Key dense/kernel/Momentum not found in checkpoint",
        r"(?:graph key that is missing from the checkpoint(?s:.){0,4000}?)?\bKey (?P<name>\S{1,300}) not found in "
        r"checkpoint"
        r"|graph key that is missing from the checkpoint",
        "The checkpoint that {line} restores has no {name}: it was written by another model, with another optimizer, "
        "or with other names.",
        "Restore it into the program that wrote it, begin with an empty directory, or restore only what it has: see "
        "tf.train.list_variables(path).",
        reported=("tensorflow/benchmarks#40", "google/automl#59", "horovod/horovod#348"),
        example=_ONE,
    ),
    Row(
        "operation-not-registered",
        "NotFoundError: Op type not registered 'HorovodAllreduce' in binary running on …",
        r"Op type not registered '(?P<operation>\w{1,200})' in binary",
        "{task} does not know the operation {operation}, which a graph or a SavedModel contains: the package that has "
        "it is not imported in this task.",
        "Import that package in every task, also in parameter servers and evaluators, before the graph is loaded.",
        example=_ONE,
    ),
    Row(
        "nccl",
        "No OpKernel was registered to support Op 'NcclAllReduce' (NCCL: unhandled system error)",
        r"node NcclAllReduce\w*\}\}|No OpKernel was registered to support Op 'Nccl\w+'|\bNCCL: unhandled \w+ error"
        r"|ncclCommInitRank failed: |NCCL communication aborted|errors_impl\.\w+Error: unhandled (?:system|cuda) error",
        "NCCL, which adds up values of NVIDIA's GPUs, does not work in {task}: without a GPU or on Windows not at all, "
        "else for want of a common network interface, of shared memory, or of a GPU of each task's own.",
        "Leave NCCL out: CommunicationOptions(implementation=CommunicationImplementation.RING), or "
        "cross_device_ops=tf.distribute.HierarchicalCopyAllReduce(). With GPUs, --env NCCL_DEBUG=INFO shows the cause.",
        reported=("tensorflow/tensorflow#51760", "horovod/horovod#1651", "horovod/horovod#1195"),
        example=_ONE,
    ),
    Row(
        "constant-too-large",
        "ValueError: Cannot create a tensor proto whose content is larger than 2GB.",
        r"Cannot create a tensor proto whose content is larger than 2GB|GraphDef cannot be larger than 2GB",
        "{line} puts an array of 2 GB or more into a graph as a constant.",
        "Read the data from files, or with tf.data.Dataset.from_generator; pass arrays as arguments of a @tf.function.",
        example=_ONE,
    ),
    Row(
        "job-not-in-the-cluster",
        'InternalError: Job "ps" was not defined in cluster (ValueError: No such job in cluster)',
        r"Job \"(?P<job>\w+)\" was not defined in cluster|No such job in cluster: '?\w+|No task with index \d+ in job",
        "{line} names a task that is not in its cluster.",
        "Add its type to the job, such as with --ps 1 or --chief, and take the task from TF_CONFIG: "
        'json.loads(os.environ["TF_CONFIG"])["task"].',
        example=_TWO,
    ),
    Row(
        "table-not-initialized",
        "FailedPreconditionError: Table not initialized.",
        r"\bTable not initialized\b",
        "A lookup table that {line} uses has no entries in this task: it was made or loaded in another one, or nobody "
        "has run its initializer.",
        "Make the table, or StringLookup(vocabulary=…), in the function that makes the dataset; in a session of "
        "TensorFlow 1, run tf.compat.v1.tables_initializer() first.",
        reported=("tensorflow/tensorflow#57694",),
        example=_ONE,
    ),
    Row(
        "graph-under-a-strategy",
        "AssertionError: assert executing_eagerly_outside_functions(), or …grad_fn must accept keyword argument "
        "'variables'",
        r"^ *assert [\w.]*\bexecuting_eagerly_outside_functions\(\)\n(?:[ ~^]+\n)?AssertionError"
        r"|distribute_lib\.py\", line \d+, in all_reduce\n(?s:(?!in user code).){0,3000}@tf\.custom_gradient grad_fn "
        r"must accept keyword argument 'variables'",
        "{line} trains under a strategy in graph mode, as after tf.compat.v1.disable_eager_execution(), "
        "disable_v2_behavior() or in a tf.Graph: strategies need eager execution there.",
        "Remove that call. fit and train_on_batch need nothing else. In a loop of your own, run the step in a "
        "@tf.function with strategy.run(step, args=(batch,)) for each batch of "
        "strategy.experimental_distribute_dataset(dataset), without a session, a placeholder and a one-shot iterator, "
        "and call optimizer.build(model.trainable_variables) in strategy.scope().",
        reported=("tensorflow/tensorflow#39670", "tensorflow/tensorflow#41768"),
        example=_ONE,
    ),
    Row(
        "python-function-of-another-task",
        "ValueError: Could not find callback with key=pyfunc_0 in the registry.",
        r"Could not find callback with key=pyfunc_\d+",
        "A Python function (tf.py_function, tf.numpy_function or from_generator) runs in another task than the one "
        "that made the graph: only that one has the function.",
        "Place it in the task that opens the session, such as with tf.device('/job:worker/task:1') in worker:1, or "
        "write it with operations of TensorFlow.",
        reported=("tensorflow/tensorflow#27102",),
        example=_TWO,
    ),
)
