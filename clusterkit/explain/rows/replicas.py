"""Rows about per-replica values, distributed datasets, and the functions that strategies call."""

from __future__ import annotations

from clusterkit.explain.frames import calling, showing, through
from clusterkit.explain.row import Evidence, Row, Words
from clusterkit.explain.rows.gangs import CROSS

_ONE = ("--workers", "1")
_TWO = ("--workers", "2")
_MAKES_DATASETS = through("in _create_datasets_from_function_with_input_context")
_ASSIGNS = calling(r"\.assign(?:_add|_sub)?\(")
_BRANCHES = showing(r"^ *File \"[^\"\n]*__autograph_generated_file[^\n]*, in (?:if|else|loop)_body")


def _assigns(evidence: Evidence) -> Words | None:
    """Check whether the program assigns to a variable. The values say where it does, and how to move the assignment."""
    if _ASSIGNS(evidence) is None:
        return None
    if _BRANCHES(evidence) is not None:
        move = "Assign outside of the condition or loop: variable.assign(tf.where(condition, new, variable))."
        return {"where": "a condition or loop of a step", "move": move}
    move = "Remove @tf.function from the function that assigns, such as a layer's call. fit or the step compiles it."
    return {"where": "a tf.function that a step calls", "move": move}


def _calls_the_step(evidence: Evidence) -> Words | None:
    """Check whether the program calls a step and passes the result, not the function, to a strategy or coordinator."""
    run = r"(?:(?i:strat)\w*\.run|\.schedule)\("
    return (calling(run) if "is not callable" in evidence.first.text else showing(rf"{run}\w+\("))(evidence)


ROWS: tuple[Row, ...] = (
    Row(
        "batch-of-replicas-indexed",
        "TypeError: 'PerReplica' object is not subscriptable ('PerReplica' object is not iterable)",
        r"'PerReplica' object is not (?:subscriptable|iterable)|type 'PerReplica' has no len"
        r"|TypeError: [^\n]*(?:unsupported operand|not supported between|must be|format str|of type)[^\n]*PerReplica",
        "{line} uses a value of all replicas, such as a distributed dataset's batch, as a tensor or a list.",
        "Use it in a function that strategy.run calls, add it up with strategy.reduce, or take this worker's part: "
        "strategy.experimental_local_results(value)[0].",
        example=_TWO,
    ),
    Row(
        "variable-without-aggregation",
        "ValueError: You must specify an aggregation method to update a MirroredVariable in Replica Context.",
        r"You must specify an aggregation method to update a \w+ in (?:Replica|Tower) Context"
        r"|Could not convert from `tf\.VariableAggregation` VariableAggregation\.NONE to",
        "At {line}, each replica has or sets its own value of a variable, but the variable does not define how to "
        "combine these values.",
        "Set the aggregation where the variable is created: tf.Variable(…, aggregation=tf.VariableAggregation.MEAN), "
        "or self.add_weight(…, aggregation='mean') in a layer. Use ONLY_FIRST_REPLICA if the value is the same in all "
        "replicas.",
        reported=(
            "tensorflow/addons#740",
            "huggingface/transformers#2794",
            "tensorflow/tensorflow#37834",
            "google-research/seed_rl#16",
        ),
        example=_ONE,
    ),
    Row(
        "assign-in-an-inner-function",
        "RuntimeError: `merge_call` called while defining a new graph or a tf.function, from variable.assign",
        r"`merge_call` called while defining a new graph",
        "{line} assigns to a variable of all replicas in {where}, where TensorFlow cannot combine the replicas' "
        "values.",
        "{move} Or let each replica set its own copy: tf.Variable(0.0, trainable=False, "
        "synchronization=tf.VariableSynchronization.ON_READ, aggregation=tf.VariableAggregation.MEAN).",
        when=_assigns,
        reported=("tensorflow/tensorflow#34203",),
        example=_ONE,
        over=("gradients-in-a-condition",),
    ),
    Row(
        "empty-share",
        "ValueError: slice index 0 of dimension 0 out of bounds, … with input shapes: [0,4]",
        r"slice index -?\d+ of dimension 0 out of bounds[^\n]*input shapes: \[0[,\]]"
        r"|nput shape axis 0 must equal \d+, got shape \[0[,\]]"
        r"|must have the same size and shape\.\s{1,9}Input 0: \[0,[\d,]{1,99}\] != input 1: \[0,",
        "The last global batch at {line} has fewer rows than there are replicas, so this replica gets no rows.",
        "Drop that batch with dataset.batch(size, drop_remainder=True) before the dataset is distributed. For "
        "evaluation, choose a batch size that divides the number of rows.",
        showing(r"/tensorflow/python/distribute/|\breplica_\d+/"),
        ("tensorflow/tensorflow#58809", "tensorflow/models#9858", "tensorflow/tensorflow#52986"),
        _TWO,
    ),
    Row(
        "distributed-dataset-as-a-dataset",
        "AttributeError: 'DistributedDataset' object has no attribute 'take'",
        r"'Distributed(?:Dataset\w*|Iterator)' (?:object has no attribute '(?P<name>\w+)'|has no len"
        r"|is not subscriptable|object is not (?P<iterator>an iterator))",
        "{line} uses a distributed dataset as a tf.data.Dataset or as an iterator, but it only supports iteration.",
        "Call take, map, batch, repeat and len on the plain dataset, and then distribute the result. For next(…), "
        "create an iterator once: iter(distributed).",
        example=_TWO,
    ),
    Row(
        "class-weight-of-a-distributed-dataset",
        "AttributeError: 'DistributedDataset' object has no attribute 'map', from fit with class_weight",
        r"'Distributed\w+' object has no attribute 'map'",
        "{line} passes class_weight to fit together with a dataset that the program has distributed. fit applies the "
        "weights with dataset.map, which a distributed dataset does not have.",
        "Pass the plain dataset to fit, in batches of the global size, since fit distributes it by itself. Or leave "
        "class_weight out, and add the weight of each class before you distribute the dataset: dataset.map(lambda x, "
        "y: (x, y, tf.gather([1.0, 9.0], y))).",
        when=calling(r"\.fit\("),
        reported=("tensorflow/tensorflow#41290", "intel/ipex-llm#5713"),
        example=_TWO,
        over=("distributed-dataset-as-a-dataset",),
    ),
    Row(
        "model-called-on-all-replicas",
        "ValueError: Only input tensors may be passed as positional arguments. … PerReplica:{…}",
        r"(?:Only input tensors may be passed as positional arguments\.[^\n]*|Unrecognized data type: x=)PerReplica:",
        "{line} calls a model on the batch of all replicas instead of on the share of one replica.",
        "Put the call and the loss into one function: def share(x, y): return tf.reduce_mean(loss(y, model(x))). "
        "Then, in a @tf.function, write strategy.reduce('MEAN', strategy.run(share, args=(x, y)), axis=None). For the "
        "outputs alone, write strategy.gather(strategy.run(lambda x: model(x), args=(x,)), axis=0).",
        example=_TWO,
    ),
    Row(
        "signature-of-a-tensor",
        "TypeError: Binding inputs to tf.function failed due to `'PerReplica' object has no attribute 'dtype'`",
        r"failed due to `'PerReplica' object has no attribute|Python inputs incompatible with input_signature[^\n]*\n?"
        r"(?s:.{0,400}?)PerReplica",
        "{line} passes a batch of all replicas to a tf.function whose input_signature describes tensors.",
        "Leave input_signature out, and pass a number as tf.constant(number). Or take the signature from the "
        "distributed dataset: [dataset.element_spec] for a batch, [*dataset.element_spec, tf.TensorSpec([], "
        "tf.int64)] for the parts of a batch and a number.",
        example=_TWO,
        over=("attribute-of-a-batch-of-replicas",),
    ),
    Row(
        "batch-unpacked-by-run",
        "TypeError: step() takes 1 positional argument but 2 were given, from strategy.run(step, args=batch)",
        r"TypeError: (?!Strategy|Replica)(?P<function>[\w.<>]+)\(\) (?:takes \d+ positional arguments? but \d+ were"
        r"|missing \d+ required positional argument)",
        "{line} calls {function} with a wrong number of arguments, since strategy.run passes each element of args as "
        "one argument.",
        "Write strategy.run(step, args=(batch,)) to pass a batch that is a tuple as one argument, or args=batch to "
        "pass its parts.",
        when=calling(r"(?i)strat\w*\.run\("),
        example=_TWO,
    ),
    Row(
        "dataset-instead-of-a-function",
        "TypeError: '_BatchDataset' object is not callable, from distribute_datasets_from_function",
        r"TypeError: '(?P<type>\w*Dataset\w*)' object is not callable",
        "{line} passes a dataset to distribute_datasets_from_function, which needs a function that returns a dataset.",
        "Write strategy.experimental_distribute_dataset(dataset), or distribute_datasets_from_function(lambda "
        "context: dataset.shard(context.num_input_pipelines, context.input_pipeline_id)).",
        when=_MAKES_DATASETS,
        example=_TWO,
    ),
    Row(
        "dataset-function-without-argument",
        "TypeError: dataset_fn() takes 0 positional arguments but 1 was given, from distribute_datasets_from_function",
        r"TypeError: (?P<function>[\w.<>]+)\(\) takes 0 positional arguments but 1 was given",
        "distribute_datasets_from_function passes a tf.distribute.InputContext to {function}, but {function} takes no "
        "argument.",
        "Write def dataset_fn(context): …, and batch by context.get_per_replica_batch_size(global_batch_size).",
        when=_MAKES_DATASETS,
        example=_TWO,
    ),
    Row(
        "dataset-function-of-arrays",
        "AttributeError: 'numpy.ndarray' object has no attribute 'element_spec'",
        r"AttributeError: '(?P<type>[\w.]+)' object has no attribute 'element_spec'",
        "The function that {line} passes returns a {type}, but it must return a tf.data.Dataset.",
        "Return a dataset: return tf.data.Dataset.from_tensor_slices(arrays).batch(size)",
        when=_MAKES_DATASETS,
        example=_TWO,
    ),
    Row(
        "unknown-reduce-operation",
        "ValueError: 'AVG' is not a valid ReduceOp",
        r"ValueError: '?(?P<operation>[^'\n]{1,80}?)'? is not a valid ReduceOp"
        r"|Expected `reduce_op` to be a `tf\.distribute\.ReduceOp`, not: (?P<other>[^\n]{1,80})",
        "{line} reduces with an operation that strategies do not have. A strategy can only add up or average values.",
        "Write strategy.reduce('SUM', value, axis=None), or 'MEAN'. For another operation, first call "
        "strategy.gather(value, axis=0).",
        example=_TWO,
    ),
    Row(
        "reduce-of-booleans",
        "InvalidArgumentError: Value for attr 'T' of bool is not in the list of allowed values … CollectiveReduceV2",
        r"Value for attr 'T' of (?P<type>\w+) is not in the list of allowed values"
        r"(?s:.{0,300}?)(?:CollectiveReduce|node AddN)",
        "{line} reduces values of type {type} over the replicas, but only numbers can be reduced.",
        "Convert the value first: tf.cast(value, tf.float32). Instead of strings, reduce numbers, and look up the "
        "strings afterwards.",
        example=_TWO,
    ),
    Row(
        "reduce-of-sparse-values",
        "ValueError: Cannot convert `input_tensor` to a `PerReplica` object because it doesn't have device set.",
        r"Cannot convert `input_tensor` to a `PerReplica` object because it doesn't have device set"
        r"|gather does not support IndexedSlices",
        "{line} reduces or gathers a sparse or ragged tensor, or the gradient of an embedding, but workers can only "
        "add up and join dense tensors.",
        "Convert the value to a dense tensor first: tf.sparse.to_dense(value), tf.convert_to_tensor(gradient), or "
        "value.to_tensor() with the same shape in all workers.",
        example=_TWO,
    ),
    Row(
        "resolver-of-another-strategy",
        "AttributeError: 'NoneType' object has no attribute 'task_type' ('task_id'), from strategy.cluster_resolver",
        r"\.cluster_resolver\b[^\n]*\n(?:[ ^~]+\n)?AttributeError: 'NoneType' object has no attribute '(?P<name>\w+)'",
        "{line} uses the resolver of a strategy that has none, such as MirroredStrategy, which works in one process "
        "and knows no task.",
        "Create a tf.distribute.MultiWorkerMirroredStrategy(), or write resolver = "
        "tf.distribute.cluster_resolver.TFConfigClusterResolver().",
        example=_TWO,
    ),
    Row(
        "values-of-one-replica",
        "AttributeError: 'EagerTensor' object has no attribute 'values', at what strategy.run returned",
        r"\.values\b[^\n]*\n(?:[ ^~]+\n|  File [^\n]*\n|    [^\n]*\n){0,8}"
        r"AttributeError: '[\w.]*(?:Eager|Symbolic)?Tensor' object has no attribute 'values'",
        "{line} expects a value per replica, but strategy.run returned a tensor, as it does in a worker with one "
        "replica.",
        "Use strategy.experimental_local_results(value), which returns a tuple for any number of replicas.",
        example=_TWO,
    ),
    Row(
        "fit-in-run",
        "RuntimeError: Method requires being in cross-replica context …, in model.fit called by strategy.run",
        CROSS,
        "{line} calls Keras's {method} in each replica, but {method} distributes its batches by itself.",
        "Call model.{method} without strategy.run, in all workers.",
        when=calling(r"\.(?P<method>fit|evaluate|predict)\("),
        example=_TWO,
        over=("reduce-in-a-replica",),
    ),
    Row(
        "scope-without-call",
        "TypeError: 'method' object does not support the context manager protocol, at with strategy.scope: or with "
        "strategy:",
        r"'(?:method|function|type|\w*Strategy\w*)' object does not support the context manager protocol"
        r"|^AttributeError: __enter__|\w\.scope\(\) missing 1 required positional argument: 'self'",
        "{line} enters the strategy, its class or the method scope itself, instead of the scope that scope() returns.",
        "Create a strategy, with the parentheses after its class, and enter its scope(): strategy = "
        "tf.distribute.MultiWorkerMirroredStrategy(), then with strategy.scope():",
        when=calling(r"with (?:\w[\w.]*\.scope\b|[\w.]*(?i:strat)\w*(?:\(\))?:)"),
        example=_TWO,
    ),
    Row(
        "mirrored-after-multi-worker",
        "Fatal Python error: Segmentation fault, in MirroredStrategy() after MultiWorkerMirroredStrategy()",
        r"/mirrored_strategy\.py\", line \d+ in __init__$",
        "{task} crashed in MirroredStrategy() at {line}. The installed TensorFlow cannot create a MirroredStrategy in "
        "a process that is connected to other workers.",
        "Create only one strategy. MultiWorkerMirroredStrategy also uses all GPUs of each worker.",
        when=through("Fatal Python error: Segmentation fault"),
        example=_TWO,
    ),
    Row(
        "mirrored-strategy-of-several-machines",
        "RuntimeError: In-graph multi-worker training with `MirroredStrategy` is not supported in eager mode.",
        r"In-graph multi-worker training with `MirroredStrategy` is not supported"
        r"|ValueError: (?:Local device should have only 'localhost'|Remote device string must have task specified)",
        "{line} passes devices of several tasks to MirroredStrategy, which can only use devices of one process.",
        "Create a tf.distribute.MultiWorkerMirroredStrategy() in every task instead.",
        example=_TWO,
    ),
    Row(
        "reduce-of-a-python-value",
        "ValueError: A non-DistributedValues value 1 cannot be reduced with the given reduce op ReduceOp.SUM.",
        r"A non-DistributedValues value (?P<value>[^\n]{1,80}?) cannot be reduced with the given reduce op",
        "{line} reduces {value}, which is not a tensor that each replica has computed.",
        "Return a tensor from the step, such as tf.constant(1). A value that is the same in all replicas needs no "
        "reduce.",
        example=_ONE,
    ),
    Row(
        "result-instead-of-a-function",
        "TypeError: 'EagerTensor' object is not callable, from strategy.run(step(batch))",
        r"TypeError: '[\w.]+' object is not callable|using a PerReplica object while not inside a replica context",
        "At {line}, the program calls the step itself, and passes the result instead of the function.",
        "Pass the function and its arguments separately: strategy.run(step, args=(batch,)), or "
        "coordinator.schedule(step, args=(batches,)).",
        when=_calls_the_step,
        example=_TWO,
        over=("per-replica-value-as-a-tensor",),
    ),
    Row(
        "scatter-into-a-variable",
        "NotImplementedError: scatter_update is only supported for mirrored variable … with NONE or "
        "`ONLY_FIRST_REPLICA` aggregation",
        r"is only supported for mirrored variable \(variable created within|^ *NotImplementedError\s*$"
        r"|NotImplementedError: Variables with `synchronization=ON_READ` doesn't support",
        "{line} changes single rows of a variable that each replica has, which TensorFlow does not support.",
        "Assign the whole variable: variable.assign(tf.tensor_scatter_nd_add(variable, indices, updates)). Create the "
        "variable in strategy.scope() as tf.Variable(…, aggregation=tf.VariableAggregation.MEAN).",
        when=calling(r"scatter_"),
        reported=("tensorflow/tensorflow#30056", "tensorflow/tensorflow#23687"),
        example=_ONE,
    ),
)
