"""Rows about custom training loops: replicas, datasets and optimizers without `fit`."""

from __future__ import annotations

from clusterkit.explain.frames import calling, not_through, showing, through
from clusterkit.explain.row import Row

_ONE = ("--workers", "1")
_TWO = ("--workers", "2")
_OLD = (*_TWO, "--keras", "2")

ROWS: tuple[Row, ...] = (
    Row(
        "gradients-without-run",
        "ValueError: DistributedVariable.handle is not available outside the replica context",
        r"`?handle`? is not available outside the replica context",
        "{line} computes gradients or updates variables under the strategy, but not in a function that strategy.run "
        "calls.",
        "Move the tape and apply_gradients into a function step(batch). Compute a loss per row (reduction='none') and "
        "then tf.nn.compute_average_loss(losses, global_batch_size=…). Call optimizer.build(variables) in "
        "strategy.scope(). For each batch of strategy.experimental_distribute_dataset(dataset), in a @tf.function: "
        "strategy.reduce('SUM', strategy.run(step, args=(batch,)), axis=None).",
        reported=("tensorflow/tensorflow#35226", "tensorflow/tensorflow#49521", "tensorflow/tensorflow#36392"),
        example=_TWO,
    ),
    Row(
        "optimizer-built-outside-the-scope",
        'RuntimeError: Need to be inside "with strategy.scope()" for …Strategy object',
        r'RuntimeError: Need to be inside "with strategy\.scope\(\)" for',
        "{line} uses something that was created under a strategy, such as an optimizer, outside of the strategy's "
        "scope and of strategy.run.",
        "Call optimizer.build(model.trainable_variables) in `with strategy.scope():`, and train in a function that "
        "strategy.run calls.",
        reported=("keras-team/keras#20045",),
        example=_TWO,
    ),
    Row(
        "only-compiled-in-the-scope",
        'RuntimeError: Need to be inside "with strategy.scope()" for …Strategy object, from fit',
        r'RuntimeError: Need to be inside "with strategy\.scope\(\)" for',
        "The model that {line} trains was created outside the strategy's scope. Only its optimizer was created "
        "inside, for example by compile.",
        "Create the model and compile it in the same `with strategy.scope():` block.",
        when=calling(r"\.fit\("),
        reported=("tensorflow/tensorflow#37054",),
        example=_TWO,
        over=("optimizer-built-outside-the-scope", "no-scope"),
    ),
    Row(
        "batch-not-in-args",
        "ValueError: Flattening a PerReplica to components is not supported in replica context.",
        r"Flattening a PerReplica to components is not supported in replica context",
        "The function that strategy.run calls uses an outer variable with the batch of all replicas, instead of its "
        "own share.",
        "Pass the batch as an argument: strategy.run(step, args=(batch,)).",
        reported=("tensorflow/tensorflow#35404",),
        example=_TWO,
    ),
    Row(
        "reduce-without-axis",
        "TypeError: StrategyBase.reduce() missing 1 required positional argument: 'axis'",
        r"^ *TypeError: \w+\.(?:reduce|gather|all_reduce|all_gather)\(\) missing \d required positional argument",
        "An argument is missing. strategy.reduce takes the operation, the value and the axis; gather takes the value "
        "and the axis; all_reduce takes the operation and the value.",
        "Write strategy.reduce(tf.distribute.ReduceOp.SUM, value, axis=None), or axis=0 for one value per row; "
        "strategy.gather(value, axis=0); get_replica_context().all_reduce('SUM', value).",
        reported=("tensorflow/tensorflow#33388",),
        example=_TWO,
    ),
    Row(
        "less-data-than-workers",
        "StopIteration, after OutOfRangeError: End of sequence, at the first batch of a distributed dataset",
        r"OutOfRangeError: [^\n]*End of sequence(?s:.){0,4000}^StopIteration|The PyDataset has length 0"
        r"|^ *End of sequence\n\s*\[\[\{\{node [^\n]*IteratorGetNext"
        r"|must yield at least one batch\. Received an empty|_function` \(Empty (?:[Ll]ogs|batch_outputs)\)"
        r"|Expected input data to be non-empty|UnboundLocalError: [^\n]*local variable 'logs'"
        r"|Expect x to be a non-empty",
        "The share of the data that {task} gets has no complete batch left at {line}.",
        "Make sure that each worker has a batch for each step: add .repeat(), make fewer steps, use smaller batches, "
        "or leave out drop_remainder.",
        not_through("coordinator"),
        reported=("tensorflow/tensorflow#43039",),
        example=_TWO,
    ),
    Row(
        "optimizer-built-in-a-step",
        "InvalidArgumentError: You must feed a value for placeholder tensor 'cond/else/_1/cond/Placeholder'",
        r"You must feed a value for placeholder tensor '[^'\n]{0,200}?\bcond/(?:else"
        r"|then)/_\d+/(?:while/)?cond/Placeholder",
        "The optimizer creates its variables in the first step, a @tf.function that {line} calls for several "
        "replicas. Keras 3 cannot initialize them there.",
        "Before the first step, in strategy.scope(), call optimizer.build(model.trainable_variables). If the model is "
        "a class of its own or has no tf.keras.Input, first call it once on a batch, such as model(features[:1]).",
        reported=("keras-team/keras#23085", "keras-team/keras#20164"),
        example=("--workers", "1"),
    ),
    Row(
        "distributed-dataset-without-steps",
        "ValueError: When providing a distributed dataset, you must specify the number of steps to run.",
        r"When providing a distributed dataset, you must specify the number of steps to run",
        "Keras 2 cannot determine the length of a dataset that strategy.experimental_distribute_dataset has "
        "distributed.",
        "Pass the plain dataset to fit, in batches of the global size, since fit distributes it by itself. Or "
        "distribute dataset.repeat(), and pass steps_per_epoch to fit, and validation_steps if the validation data is "
        "distributed, too.",
        reported=("tensorflow/tensorflow#56773",),
        example=_OLD,
    ),
    Row(
        "keras-inside-tensorflow",
        "AttributeError: … 'tensorflow.python.distribute.input_lib' has no attribute 'DistributedDatasetInterface'",
        r"'tensorflow\.python\.distribute\.input_lib' has no attribute 'DistributedDatasetInterface'",
        "The program imports tensorflow.python.keras, an old copy of Keras inside TensorFlow that no longer works.",
        "Import from tensorflow.keras instead: from tensorflow.keras import layers, models.",
        reported=("tensorflow/tensorflow#92113", "tensorflow/tensorflow#61974", "tensorflow/tensorflow#61900"),
        example=_TWO,
    ),
    Row(
        "args-not-a-tuple",
        "ValueError: positional args must be a list or tuple, got <class '…PerReplica'>",
        r"ValueError: positional args must be a list or tuple, got <class|argument after \* must be an iterable, not"
        r"|StrategyBase\.run\(\) (?:got an unexpected keyword argument|takes from)",
        "{line} does not pass the step's arguments as a tuple of all arguments: (batch) without a comma is not a "
        "tuple.",
        "Write strategy.run(step, args=(batch,)) with the comma, or strategy.run(step, args=(x, y)) for several "
        "arguments, or coordinator.schedule(step, args=(batches,)).",
        when=calling(r"\.(?:run|schedule)\("),
        example=_TWO,
    ),
    Row(
        "mean-of-a-counter",
        "ValueError: creating distributed tf.Variable with aggregation=MEAN and a non-floating dtype is not supported",
        r"aggregation=MEAN and a non-floating dtype is not supported"
        r"|Cannot update non-float variables with tf\.VariableAggregation\.MEAN",
        "{line} creates an integer variable that averages its values in the replicas, but TensorFlow averages only "
        "floats.",
        "Use tf.VariableAggregation.SUM, or tf.VariableAggregation.ONLY_FIRST_REPLICA for a counter of steps.",
        example=_TWO,
    ),
    Row(
        "eager-execution-off",
        "RuntimeError: __iter__() is only supported inside of tf.function or when eager execution is enabled",
        r"RuntimeError: __iter__\(\) is only supported inside of tf\.function or when eager execution is enabled"
        r"|`tf\.data\.Dataset` only supports Python-style iteration in eager mode",
        "{line} reads a dataset in graph mode. Either eager execution is off, or the line is inside a tf.Graph.",
        "Remove tf.compat.v1.disable_eager_execution() and disable_v2_behavior(), or loop inside a @tf.function.",
        reported=("tensorflow/tensorflow#51076", "tensorflow/models#10240"),
        example=_TWO,
    ),
    Row(
        "batch-taken-in-a-replica",
        "ValueError: next(iterator) should be called from outside of replica_fn",
        r"next\(iterator\) should be called from outside of replica_fn",
        "{line} takes the next batch inside the function that strategy.run calls in each replica.",
        "Take the batch outside, and pass it as an argument: strategy.run(step, args=(next(batches),)).",
        example=_TWO,
    ),
    Row(
        "axis-of-a-scalar",
        "ValueError: Invalid reduction dimension 0 for input with 0 dimensions, from strategy.reduce",
        r"(?:Invalid reduction dimension|`axis` =) (?P<axis>-?\d+) (?:for input|out of range for `value`) with "
        r"(?:rank )?(?P<rank>\d+)",
        "{line} reduces along axis {axis}, but the value of each replica has {rank} dimensions and therefore no such "
        "axis.",
        "Write strategy.reduce(op, value, axis=None). Use an axis only for values with a row for each example.",
        when=showing("_mean_reduce_helper_fns|out of range for `value`"),
        example=_TWO,
    ),
    Row(
        "step-returns-nothing",
        "ValueError: None values not supported, from strategy.reduce",
        r"\.reduce\([^\n]*\n(?:[ ^~]*\n)*[^\n]*ValueError: None values not supported",
        "{line} reduces the result of a step, but the step returns nothing.",
        "Return the loss from the function that strategy.run calls.",
        example=_TWO,
    ),
    Row(
        "attribute-of-a-batch-of-replicas",
        "AttributeError: 'PerReplica' object has no attribute 'numpy'",
        r"AttributeError: 'PerReplica' object has no attribute '(?P<name>\w+)'",
        "{line} uses a value of all replicas, such as a distributed dataset's batch, as a tensor, but such a value "
        "has no {name}.",
        "Use the value in a function that strategy.run calls, or take this worker's part: "
        "strategy.experimental_local_results(value)[0]. Keras's train_on_batch takes batches of the plain dataset.",
        reported=("TensorSpeech/TensorFlowTTS#309",),
        example=_TWO,
    ),
    Row(
        "gather-of-a-scalar",
        "ValueError: Requires start <= limit when delta > 0: 1/0 for '{{{{node allgather/range_1}}}}'",
        r"Requires start <= limit when delta > 0: \d+/0 for '\{\{node allgather",
        "{line} gathers scalars, but gather joins values along an axis, and scalars have none.",
        "Add an axis to each value, strategy.gather(value[tf.newaxis], axis=0), or add the values up with "
        "strategy.reduce.",
        example=_TWO,
    ),
    Row(
        "gather-of-strings",
        "TypeError: Value passed to parameter 'input' has DataType string not in list of allowed values, from gather",
        r"Value passed to parameter 'input' has DataType (?P<type>\w+) not in list of allowed values: float32, float16",
        "{line} sends values of type {type} to the other workers, but collective operations only carry numbers.",
        "Gather numbers, such as the indices of the rows, and look up the values afterwards.",
        when=through("_batch_all_gather"),
        example=_TWO,
    ),
    Row(
        "numpy-in-a-function",
        "AttributeError: 'SymbolicTensor' object has no attribute 'numpy'",
        r"AttributeError: '(?:Symbolic|Eager)?Tensor' object has no attribute 'numpy'"
        r"|numpy\(\) is only available when eager execution is enabled",
        "{line} needs the value of a tensor in code that TensorFlow has converted to a graph: a @tf.function, a step "
        "of fit, or a function of dataset.map. In a graph, the tensor has no value yet.",
        "Return the tensor and call numpy() outside, print with tf.print, or wrap the code in tf.py_function. Remove "
        "tf.compat.v1.disable_eager_execution().",
        example=_TWO,
    ),
    Row(
        "optimizer-of-other-variables",
        "ValueError: Unknown variable … This optimizer can only be called for the variables it was originally built "
        "with",
        r"This optimizer can only be called for the variables it was originally built with"
        r"|KeyError: [^\n]{0,4}The optimizer cannot recognize variable",
        "{line} updates variables that its optimizer does not know. The optimizer was built for another model, was "
        "built before layers were added, or was loaded from an HDF5 file.",
        "Create an optimizer for each model, or call optimizer.build(all_variables) before the first step. Load a "
        "model in strategy.scope(), from a .keras file, or with load_model(path, compile=False) and compile it again "
        "there.",
        reported=("tensorflow/tensorflow#35942",),
        example=_ONE,
    ),
    Row(
        "shares-of-different-sizes",
        "InvalidArgumentError: Inputs to operation AddN of type AddN must have the same size and shape, in model.fit",
        r"Inputs to operation AddN of type AddN must have the same size and shape\.\s+Input 0: \[[\d,]*\] != input 1"
        r"|Value for attr 'T' of (?:string|bool) is not in the list of allowed values(?s:.{0,300}?)\{\{node AddN\}\}",
        "At {line}, the replicas of {task} got shares of a batch that fit of Keras 3 cannot add up. The shares have "
        "different sizes, or contain strings or booleans.",
        "Make each batch a multiple of the number of replicas: dataset.batch(size, drop_remainder=True). Convert "
        "strings and booleans to numbers in the dataset, not in the model: dataset.map(lambda x, y: (lookup(x), y)), "
        "with a tf.keras.layers.StringLookup or TextVectorization that was created before, outside of "
        "strategy.scope().",
        when=calling(r"\.(?:fit|evaluate|predict)\("),
        reported=("keras-team/keras#19246", "tensorflow/tensorflow#80951"),
        example=_ONE,
        over=("reduce-of-booleans",),
    ),
    Row(
        "summary-without-a-step",
        "ValueError: No step set. Please specify one either through the `step` argument or through set_step()",
        r"ValueError: No step set\. Please specify one either through the `step` argument",
        "{line} writes a summary without a step: neither the step argument nor tf.summary.experimental.set_step gives "
        "one.",
        "Pass step=optimizer.iterations. Or return the value from the function that strategy.run calls, reduce the "
        "value, and write it once, in the loop, with step=….",
        reported=("tensorflow/tensorflow#26980",),
        example=_TWO,
    ),
    Row(
        "seed-of-a-tensor",
        "TypeError: Expected int for argument 'seed2' not <tf.Tensor 'random_normal/mod:0' shape=() dtype=int32>",
        r"TypeError: Expected int for argument 'seed2?' not <tf\.Tensor",
        "{line} passes a tensor, such as a replica's number, as the seed, but this function takes only Python numbers.",
        "Use tf.random.stateless_normal(shape, seed=(seed, replica_id)), or another tf.random.stateless_… function, "
        "since their seeds may be tensors.",
        reported=("tensorflow/tensorflow#58433",),
        example=_TWO,
    ),
    Row(
        "tensor-of-another-function",
        "TypeError: <tf.Tensor 'mul:0' shape=() dtype=float32> is out of scope and cannot be used here.",
        r"is out of scope and cannot be used here\. Use return values"
        r"|An op outside of the function building code is being passed",
        "{line} uses a tensor that a @tf.function or a step created and stored, for example in a list or an "
        "attribute. Such a tensor exists only inside that function.",
        "Return the tensor from that function, or store the value in a tf.Variable that was created before.",
        example=_ONE,
    ),
    Row(
        "schedule-of-whole-numbers",
        "TypeError: Value passed to parameter 'x' has DataType int64 not in list of allowed values: bfloat16, …",
        r"Value passed to parameter '\w' has DataType int(?:32|64) not in list of allowed values: bfloat16",
        "{line} uses the step number as a float, but the step number is an integer.",
        "Begin the schedule's __call__(self, step) with step = tf.cast(step, tf.float32).",
        when=calling(r"\bstep\b"),
        example=_TWO,
    ),
    Row(
        "break-in-a-distributed-loop",
        "NotImplementedError: break and return statements are not yet supported in for ... in distributed input loops.",
        r"break and return statements are not yet supported in for \.\.\. in distributed input loops"
        r"|enumerate not supported with Distributed",
        "{line} calls a @tf.function that loops over a distributed dataset with break, return or enumerate, which "
        "TensorFlow does not support.",
        "Loop outside of the @tf.function, and make one step a @tf.function: for number, batch in "
        "enumerate(distributed): step(batch). To end earlier, shorten the dataset before you distribute it: "
        "dataset.take(steps).",
        example=_TWO,
    ),
)
