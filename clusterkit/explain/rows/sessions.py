"""Rows about graphs, sessions and checkpoints of TensorFlow 1, operations and kernels."""

from __future__ import annotations

import re

from clusterkit.explain.frames import not_through, through
from clusterkit.explain.row import HOLDS, Evidence, Row, Words

_ONE = ("--workers", "1")
_TWO = ("--workers", "2")


def _in_the_data_service(evidence: Evidence) -> Words | None:
    """Check whether a worker of tf.data.experimental.service failed. The message precedes that worker's traceback."""
    said = f"{evidence.first.before}\n{evidence.first.text}"
    return HOLDS if "Failed to get element from worker" in said else None


def _in_a_worker(evidence: Evidence) -> Words | None:
    """Check whether a task other than the leader failed. The value {name} is the variable that has no value."""
    if evidence.job is not None and evidence.first.task == evidence.job.leader:
        return None
    name = re.search(r"uninitialized value (\S{1,300})", evidence.first.text)
    return {"name": name[1]} if name else HOLDS


ROWS: tuple[Row, ...] = (
    Row(
        "session-waits-for-a-task",
        "CreateSession still waiting for response from worker: /job:ps/replica:0/task:0",
        r"CreateSession still waiting for response from worker: /job:(?P<job>\w+)/replica:\d+/task:(?P<index>\d+)",
        "A session of TensorFlow 1 starts only when all tasks of its cluster answer, but {job}:{index} does not. It "
        "has not started, has ended, or its address is wrong or not reachable from this task.",
        "Start {job}:{index}, and look at its log and its address. If a task only needs to reach some of the other "
        "tasks, name these: tf.compat.v1.ConfigProto(device_filters=['/job:ps', '/job:worker/task:0']).",
        reported=("tensorflow/tensorflow#12745", "yahoo/TensorFlowOnSpark#240", "tensorflow/lingvo#122"),
        example=_ONE,
    ),
    Row(
        "variable-not-initialized",
        "FailedPreconditionError: Could not find variable … In TF1, it can also mean the variable is uninitialized.",
        r"Could not find variable [^\n]{1,300}\bIn TF1, it can also mean the variable is uninitialized"
        r"|Error while reading resource variable \S{1,300} from Container: \w+"
        r"|FailedPreconditionError[^\n]{0,80}: Attempting to use uninitialized value"
        r"|^Attempting to use uninitialized value \S",
        "{line} reads a variable that has no value yet. Either no task has run its initializer, or the task that held "
        "the variable was restarted.",
        "Run tf.compat.v1.global_variables_initializer() in the chief before the first step, or use "
        "MonitoredTrainingSession, which does this. After a restart, restore a checkpoint.",
        when=not_through("/horovod/_keras/"),  # errors from there are due to two Kerases, each with its own session
        example=_ONE,
    ),
    Row(
        "worker-variable-not-initialized",
        "FailedPreconditionError: Attempting to use uninitialized value local/hidden_1/w, in all workers but the chief",
        r"From /job:worker/replica:\d+/task:\d+:\nAttempting to use uninitialized value \S"
        r"|Attempting to use uninitialized value (?:\w*_)?local(?:_\w*)?/\S",
        "{task} reads its own variable {name}, but no initializer has run for this variable. Only the chief runs "
        "init_op, and that initializes only the variables on parameter servers and the chief's own.",
        "Initialize such variables in every worker: Supervisor(local_init_op=…) or Scaffold(local_init_op=…), with "
        "tf.compat.v1.variables_initializer(own_variables).",
        when=_in_a_worker,
        reported=("openai/universe-starter-agent#31",),
        example=("--workers", "1", "--ps", "1"),
        over=("variable-not-initialized",),
    ),
    Row(
        "name-not-in-the-checkpoint",
        "NotFoundError: Key dense/kernel/Momentum not found in checkpoint",
        r"(?:graph key that is missing from the checkpoint(?s:.){0,4000}?)?\bKey (?P<name>\S{1,300}) not found in "
        r"checkpoint"
        r"|graph key that is missing from the checkpoint",
        "The checkpoint that {line} restores does not contain {name}. It was written by another model, with another "
        "optimizer, or with other names.",
        "Restore the checkpoint into the program that wrote it, start with an empty directory, or restore only the "
        "names that tf.train.list_variables(path) lists.",
        reported=("tensorflow/benchmarks#40", "google/automl#59", "horovod/horovod#348"),
        example=_ONE,
    ),
    Row(
        "operation-not-registered",
        "NotFoundError: Op type not registered 'HorovodAllreduce' in binary running on …",
        r"Op type not registered '(?P<operation>\w{1,200})' in binary",
        "{task} does not know the operation {operation}, which a graph or a SavedModel contains, because the package "
        "that defines the operation is not imported in this task.",
        "Import that package in every task, including parameter servers and evaluators, before the graph is loaded.",
        example=_ONE,
    ),
    Row(
        "nccl",
        "No OpKernel was registered to support Op 'NcclAllReduce' (NCCL: unhandled system error)",
        r"node NcclAllReduce\w*\}\}|No OpKernel was registered to support Op 'Nccl\w+'|\bNCCL: unhandled \w+ error"
        r"|ncclCommInitRank failed: |NCCL communication aborted|errors_impl\.\w+Error: unhandled (?:system|cuda) error",
        "NCCL, which adds up values of NVIDIA GPUs, does not work in {task}. NCCL never works without a GPU or on "
        "Windows. Otherwise, the tasks lack a common network interface, shared memory, or GPUs of their own.",
        "Use another implementation: CommunicationOptions(implementation=CommunicationImplementation.RING), or "
        "cross_device_ops=tf.distribute.HierarchicalCopyAllReduce(). With GPUs, --env NCCL_DEBUG=INFO shows the cause.",
        reported=("tensorflow/tensorflow#51760", "horovod/horovod#1651", "horovod/horovod#1195"),
        example=_ONE,
    ),
    Row(
        "constant-too-large",
        "ValueError: Cannot create a tensor proto whose content is larger than 2GB.",
        r"Cannot create a tensor proto whose content is larger than 2GB|GraphDef cannot be larger than 2GB",
        "{line} puts an array of 2 GB or more into a graph as a constant.",
        "Read the data from files or with tf.data.Dataset.from_generator, or pass arrays as arguments of a "
        "@tf.function.",
        example=_ONE,
    ),
    Row(
        "job-not-in-the-cluster",
        'InternalError: Job "ps" was not defined in cluster (ValueError: No such job in cluster)',
        r"Job \"(?P<job>\w+)\" was not defined in cluster|No such job in cluster: '?\w+|No task with index \d+ in job",
        "{line} names a task that is not in its cluster.",
        "Add a task of this type to the job, for example with --ps 1 or --chief, and read the task from TF_CONFIG: "
        'json.loads(os.environ["TF_CONFIG"])["task"].',
        example=_TWO,
    ),
    Row(
        "table-not-initialized",
        "FailedPreconditionError: Table not initialized.",
        r"\bTable not initialized\b",
        "A lookup table that {line} uses has no entries in this task. Either the table was created or loaded in "
        "another task, or its initializer was never run.",
        "Create the table, or StringLookup(vocabulary=…), in the function that creates the dataset. In a TensorFlow 1 "
        "session, first run tf.compat.v1.tables_initializer().",
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
        "{line} trains under a strategy in graph mode, for example after tf.compat.v1.disable_eager_execution() or "
        "disable_v2_behavior(), or in a tf.Graph. Strategies need eager execution there.",
        "Remove that call. fit and train_on_batch then work as they are. In a loop of your own, call "
        "strategy.run(step, args=(batch,)) in a @tf.function for each batch of "
        "strategy.experimental_distribute_dataset(dataset), without a session, a placeholder or a one-shot iterator, "
        "and call optimizer.build(model.trainable_variables) in strategy.scope().",
        reported=("tensorflow/tensorflow#39670", "tensorflow/tensorflow#41768"),
        example=_ONE,
    ),
    Row(
        "python-function-of-another-task",
        "ValueError: Could not find callback with key=pyfunc_0 in the registry.",
        r"Could not find callback with key=pyfunc_\d+",
        "A Python function (tf.py_function, tf.numpy_function or from_generator) runs in a different task from the "
        "one that created the graph, but only the creating task has the function.",
        "Place the function in the task that opens the session, for example with tf.device('/job:worker/task:1') in "
        "worker:1, or write it with TensorFlow operations.",
        reported=("tensorflow/tensorflow#27102",),
        example=_TWO,
    ),
    Row(
        "python-function-in-the-data-service",
        "InvalidArgumentError: Failed to get element from worker … Could not find callback with key=pyfunc_0 …",
        r"Could not find callback with key=pyfunc_\d+",
        "The dataset has a Python function (from_generator, tf.py_function or tf.numpy_function) before "
        "tf.data.experimental.service.distribute. The worker of the data service runs this part of the dataset, but "
        "only the process that created the dataset has the function.",
        "Create the part before distribute from files, tensors and TensorFlow operations, for example with "
        "tf.data.TFRecordDataset or from_tensor_slices. Apply a Python function after distribute.",
        when=_in_the_data_service,
        reported=("tensorflow/tensorflow#50252",),
        example=_TWO,
        over=("python-function-of-another-task",),
    ),
    Row(
        "session-without-a-target",
        "InvalidArgumentError: … required incompatible device '/job:ps/task:0'. All available devices "
        "[/job:localhost/…]",
        r"required incompatible device '/job:(?P<type>\w+)/(?:replica:\d+/)?task:(?P<index>\d+)[^'\n]{0,100}'\. "
        r"All available devices \[/job:localhost/",
        "{line} places a variable or an operation on {type}:{index}, but the session that uses it was opened without a "
        "target, as in tf.Session(), so the session is not connected to the cluster.",
        "Open the session at the task's server, tf.compat.v1.Session(server.target), or use the session that "
        "MonitoredTrainingSession or Supervisor.prepare_or_wait_for_session returns.",
        when=not_through("/python/distribute/"),
        reported=("tensorflow/tensorflow#23697", "tensorflow/tensorflow#11608"),
        example=("--workers", "1", "--ps", "1"),
    ),
    Row(
        "strategy-in-a-local-session",
        "InvalidArgumentError: … required incompatible device '/job:chief/…'. All available devices "
        "[/job:localhost/…], with MirroredStrategy",
        r"required incompatible device '/job:(?P<type>\w+)/replica:\d+/task:\d+/device:[^'\n]{0,100}'\. "
        r"All available devices \[/job:localhost/",
        "MirroredStrategy takes the job name {type} from TF_CONFIG, but in graph mode the variables are in a local "
        "session, which has no such job. The program has called tf.compat.v1.disable_eager_execution() or "
        "disable_v2_behavior().",
        "Remove that call. To train one model with several tasks, also replace MirroredStrategy with "
        "tf.distribute.MultiWorkerMirroredStrategy().",
        when=through("/distribute/mirrored_strategy.py"),
        reported=("tensorflow/tensorflow#44093",),
        example=("--workers", "1", "--chief", "--keras", "2"),
    ),
)
