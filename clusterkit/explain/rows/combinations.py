"""Rows about strategies, models, optimizers and data that do not work together."""

from __future__ import annotations

import re

from clusterkit.explain.frames import calling, showing
from clusterkit.explain.row import Evidence, Row, Words
from clusterkit.explain.rows.gangs import MISMATCH

_ONE = ("--workers", "1")
_TWO = ("--workers", "2")
_COORDINATED = ("--workers", "1", "--ps", "1", "--servers", "builtin", "--keras", "2")
_SIZES = (
    r"If an? RNN is stateful, the batch size of the input[\s\S]{0,300}?Expected batch size: (?P<whole>\d{1,9})\s+- "
    r"Received batch size: (?P<part>\d{1,9})"
    r"|is incompatible with the layer: expected shape=\((?P<built>\d{1,9})(?P<rest>,[^\n)]{0,200})\), found "
    r"shape=\((?P<got>\d{1,9})(?P=rest)\)"
)
_IN_A_STEP = (  # the frame in which the program calls Keras or a strategy, and the next frame, in Keras or TensorFlow
    r"(?:\.(?:fit|evaluate|train_on_batch|test_on_batch)|(?i:strat)\w*\.run)\([^\n]*\n"
    r"(?:(?!  File )[^\n]*\n){0,20}  File \"[^\"\n]*/(?:keras/src|tensorflow/python)/"
)


def _sizes(evidence: Evidence) -> Words | None:
    """Check whether the size of a model's batches, {got}, differs from the size for which it was built, {built}."""
    found = re.search(_SIZES, evidence.first.text)
    if found is None or (found["whole"] or found["built"]) == (found["part"] or found["got"]):
        return None
    return {"built": found["whole"] or found["built"], "got": found["part"] or found["got"]}


ROWS: tuple[Row, ...] = (
    Row(
        "strategy-copied",
        "ValueError: MultiWorkerMirroredStrategy cannot be deep copied in eager mode.",
        r"cannot be deep copied in eager mode|RuntimeError: Must only deepcopy DistributionStrategy"
        r"|TypeError: (?:can't|cannot) pickle '?(?:_thread\.|weakref|tensorflow|module|Graph)",
        "{line} copies or sends to another process what cannot be copied: a strategy, or what belongs to one or holds "
        "parts of TensorFlow, such as a model, an optimizer, a dataset or a writer of summaries.",
        "Make the strategy and the model inside of the function that the other process runs, and pass it arrays, paths "
        "and model.get_weights(). To copy a model: tf.keras.models.clone_model(model) in strategy.scope(), then "
        "set_weights.",
        reported=("tensorflow/tensorflow#46556", "tensorflow/tensorflow#42931", "ray-project/ray#5330"),
        example=_TWO,
    ),
    Row(
        "scope-in-a-scope",
        "RuntimeError: Must not be called inside a `tf.distribute.Strategy` scope.",
        r"Must not be called inside a `tf\.distribute\.Strategy` scope|Must not nest tf\.distribute\.Strategy scopes",
        "{line} enters a strategy inside of the scope of one, such as with experimental_set_strategy.",
        "Enter one strategy, once: leave tf.distribute.experimental_set_strategy out, or the outer with "
        "strategy.scope().",
        example=_TWO,
    ),
    Row(
        "empty-cluster",
        "ValueError: Cluster spec must be non-empty in `tf.distribute.cluster_resolver.ClusterResolver`.",
        r"Cluster spec must be non-empty in|ValueError: There must be at least one worker\."
        r"|No `worker`, `chief` or `evaluator` tasks can be found in `cluster_spec`",
        "The resolver that {line} uses has found no cluster, or one without workers: TF_CONFIG is not set, or not yet.",
        "Start the program with clusterkit up --workers 1 --ps 1 --servers builtin, which sets TF_CONFIG; or set it, "
        "with its tasks, before the resolver is made.",
        reported=("tensorflow/tensorflow#46843",),
        example=_ONE,
    ),
    Row(
        "optimizer-of-tensorflow-1-in-compile",
        "ValueError: Could not interpret optimizer identifier: <tensorflow.python.training.adam.AdamOptimizer …>",
        r"Could not interpret optimizer identifier: <(?P<type>(?:tensorflow|tf_keras|keras|transformers)\.[\w.]+)"
        r"|`tf\.compat\.v1\.keras` Optimizer \(.{0,200}\) is not supported"
        r"|Only TensorFlow native optimizers are supported with DistributionStrategy",
        "{line} compiles a model with an optimizer of TensorFlow 1, or of another Keras, which Keras does not take.",
        "model.compile(optimizer=tf.keras.optimizers.Adam(0.001), loss=…), in strategy.scope()",
        reported=("tensorflow/tensorflow#26709", "tensorflow/tensorflow#27696"),
        example=_TWO,
    ),
    Row(
        "reduction-of-keras-2",
        "ValueError: Invalid value for argument `reduction`. … (module 'keras.losses' has no attribute 'Reduction')",
        r"Invalid value for argument `reduction`\. [^\n]*Received: reduction=auto"
        r"|module '(?:tensorflow\.)?keras[\w.]*\.losses' has no attribute 'Reduction'"
        r"|cannot import name 'Reduction' from '(?:tensorflow\.)?keras[\w.]*\.losses",
        "{line} makes a loss with a Reduction of Keras 2: reductions of Keras 3 are texts, and none is called AUTO.",
        "For Reduction.NONE, a loss per row, write reduction='none'; for SUM, write 'sum'; leave reduction out for the "
        "mean, which was AUTO.",
        example=_TWO,
    ),
    Row(
        "built-for-one-batch-size",
        "ValueError: If an RNN is stateful, the batch size of the input sequences must be the same as …",
        _SIZES,
        "The model that {line} uses is built for batches of {built} rows, and got {got}: a strategy divides each batch "
        "among its replicas, and the last batch of a dataset may be smaller.",
        "Build it for a replica's part, tf.keras.Input(batch_shape=(GLOBAL_BATCH // strategy.num_replicas_in_sync, …))"
        ", with dataset.batch(GLOBAL_BATCH, drop_remainder=True); or leave the size and stateful=True out: "
        "tf.keras.Input(shape=…).",
        _sizes,
        reported=("tensorflow/tensorflow#26763",),
        example=_ONE,
        over=("fixed-batch-size",),
    ),
    Row(
        "optimizer-with-a-condition",
        "RuntimeError: Exception encountered when calling Cond.call(). `merge_call` called while defining a new graph",
        r"when calling Cond\.call\(\)\.(?s:.{0,20}?)`merge_call` called while defining a new graph"
        r"|loss_scale_optimizer\.py(?s:.{0,4000}?)`merge_call` called while defining a new graph",
        "Keras 3 applies the gradients of {line} in a condition, for gradient_accumulation_steps, use_ema or the loss "
        "scale of mixed_float16, which TensorFlow does not support where a process has several replicas.",
        "Leave gradient_accumulation_steps, use_ema and LossScaleOptimizer out, and take mixed_bfloat16 for "
        "mixed_float16; or have one replica in each process: MultiWorkerMirroredStrategy, with clusterkit up "
        "--workers 2 --gpus-per-task 1.",
        reported=("keras-team/keras#18666", "keras-team/tf-keras#301"),
        example=_ONE,
        over=("gradients-in-a-condition",),
    ),
    Row(
        "set-value-of-keras-2",
        "AttributeError: 'str' object has no attribute 'name', from tf.keras.backend.set_value",
        r"AttributeError: 'str' object has no attribute 'name'",
        "{line} calls set_value for a variable of Keras 3, whose dtype is a text.",
        "model.optimizer.learning_rate = 0.01, or variable.assign(value); to read it: float(model.optimizer."
        "learning_rate).",
        calling(r"\b(?:backend|K)\.(?:batch_)?[sg]et_value\("),
        example=_TWO,
    ),
    Row(
        "arguments-beside-a-dataset",
        "ValueError: When providing `x` as a tf.data.Dataset, `y` should not be passed.",
        r"When providing `x` as an? [\w. ]+, `(?P<argument>\w+)` should not be passed"
        r"|argument is not supported when using (?:dataset|python generator|`keras\.utils\.Sequence`) as input"
        r"|rgument `validation_split` is only supported for|`validation_split` is only supported for"
        r"|validation_split argument is not supported with distribution",
        "{line} passes a dataset or a generator, and beside it labels, weights or a share for validation, which Keras "
        "cannot take out of it.",
        "Put them into the dataset: tf.data.Dataset.from_tensor_slices((x, y, weights)).batch(size); and validate with "
        "fit(dataset.skip(n), validation_data=dataset.take(n)).",
        example=_TWO,
    ),
    Row(
        "weights-of-another-model",
        "ValueError: Layer 'dense' expected 2 variables, but received 0 variables during loading.",
        r"Layer count mismatch when loading weights|Weight count mismatch for"
        r"|Layer '[^'\n]*' expected \d+ variables, but received \d+ variables during loading"
        r"|was never built and thus it doesn't have any variables\. However the weights file"
        r"|Shape mismatch in .{0,80}for weight",
        "The file that {line} loads has the weights of another model, or the model here has no weights yet.",
        "Make the same layers as the program that saved them, and build the model first: tf.keras.Input(shape=…), or "
        "model.build(shape); or begin without the file.",
        example=_ONE,
    ),
    Row(
        "mixed-precision-with-this-strategy",
        "ValueError: Mixed precision is not supported with the tf.distribute.Strategy: ParameterServerStrategyV2",
        r"(?:Mixed precision|Loss scaling) is not supported with the tf\.distribute\.Strategy: (?P<strategy>\w+)",
        "{line} trains with float16 under {strategy}, for which Keras 2 cannot scale the loss.",
        "Leave the policy out, or call tf.keras.mixed_precision.set_global_policy('float32'); "
        "MultiWorkerMirroredStrategy takes mixed precision.",
        example=_COORDINATED,
    ),
    Row(
        "strategy-after-a-strategy",
        "InvalidArgumentError: Shape mismatch in the collective instance 100. Op at device /job:localhost/…",
        rf"{MISMATCH}\. Op at device /job:localhost/",
        "At {line}, a second strategy trains in one process: both number their collective operations from the "
        "beginning, and TensorFlow takes those of one for those of the other.",
        "Make the strategy once, before a loop over models, and use it for all of them; or train each model in a "
        "process of its own.",
        when=showing(r"\.(?:fit|evaluate|predict)\("),
        reported=("tensorflow/tensorflow#62790",),
        example=_ONE,
        over=("calls-differ", "shapes-differ"),
    ),
    Row(
        "devices-of-a-strategy",
        "AttributeError: 'PhysicalDevice' object has no attribute 'split', from MirroredStrategy",
        r"'PhysicalDevice' object has no attribute '\w+'|TypeError: 'int' object is not iterable"
        r"|ValueError: Unknown attribute '.' is encountered while parsing the device spec",
        "{line} names the devices of a strategy in another way than as a list of names.",
        "Leave the argument out, for all GPUs of the task (clusterkit up --gpus-per-task 2), or pass names: "
        'tf.distribute.MirroredStrategy(["GPU:0", "GPU:1"]), or [gpu.name for gpu in '
        'tf.config.list_logical_devices("GPU")].',
        when=calling(r"Strategy\("),
        example=_ONE,
    ),
    Row(
        "model-without-call",
        "RuntimeError: Unable to automatically build the model. … Model GAN does not have a `call()` method",
        r"Unable to automatically build the model\.(?s:.{0,1500}?)Model (?P<model>\w+) does not have a `call\(\)`",
        "Under a strategy, fit of Keras 3 calls the model once to build it, and {model} has no call, only a "
        "train_step.",
        "Give it one that takes a batch: def call(self, x): return self.discriminator(x). Begin its parts with "
        "tf.keras.Input(shape=…), and build the optimizers of train_step in strategy.scope(): "
        "self.d_optimizer.build(self.discriminator.trainable_variables).",
        example=_TWO,
    ),
    Row(
        "callback-of-another-keras",
        "AttributeError: 'Sequential' object has no attribute '_train_counter' ('_get_distribution_strategy')",
        r"'\w+' object has no attribute '(?:_train_counter|_(?:get_)?distribution_strategy|_in_multi_worker_mode)'",
        "{line} mixes two Kerases: the model is of one, and a callback, an optimizer or fit itself of another, such as "
        "tf_keras, keras or tensorflow.python.keras.",
        "Import everything from one: from tensorflow.keras import callbacks, layers, optimizers; with --keras 2, that "
        "is tf_keras.",
        reported=("tensorflow/tensorboard#3125",),
        example=_ONE,
    ),
    Row(
        "regularization-per-row",
        "ValueError: Shapes must be equal rank, but are 1 and 0, from compiled_loss or tf.add_n(model.losses)",
        r"Shapes must be equal rank, but are \d and 0",
        "{line} adds losses of layers, such as of regularizers, which are single numbers, to a loss for each row.",
        "Take the mean first: loss = tf.nn.compute_average_loss(self.compiled_loss(y, p), global_batch_size=…) + "
        "tf.nn.scale_regularization_loss(tf.add_n(self.losses)), without regularization_losses.",
        calling(r"\blosses\b"),
        ("keras-team/keras#16529", "keras-team/tf-keras#610"),
        ("--workers", "2", "--keras", "2"),
    ),
    Row(
        "input-in-a-loss",
        "ValueError: A KerasTensor cannot be used as input to a TensorFlow function, from a loss in model.fit",
        r"A KerasTensor cannot be used as input to a TensorFlow function",
        "{line}, as in a loss, runs in each step and uses an Input or a layer's output from the construction of the "
        "model, which has no value there.",
        "Take the value from the batch. In a subclass of tf.keras.Model, with which you make the model: def "
        "compute_loss(self, x=None, y=None, y_pred=None, sample_weight=None, training=True): return loss(y, y_pred, "
        "x[1]) / self.distribute_strategy.num_replicas_in_sync, for the second input. Leave loss out of compile.",
        showing(_IN_A_STEP),
        ("tensorflow/tensorflow#35093",),
        _TWO,
        over=("keras-tensor",),
    ),
    Row(
        "loaded-outside-the-scope",
        "ValueError: Optimizer … was created inside a different … scope than the model (…DefaultDistributionStrategy)",
        r"ValueError: (?P<what>Metric|Optimizer) [^\n]* was created inside a different distribution strategy scope "
        r"than the model\.[^\n]*_DefaultDistributionStrategy",
        "The model that {line} compiles was made or loaded outside of the strategy's scope.",
        "Load and compile it inside, with a new optimizer: with strategy.scope(): model = "
        "tf.keras.models.load_model(path, compile=False), and model.compile(…) in the same block.",
        reported=("amaiya/ktrain#513",),
        example=(*_ONE, "--keras", "2"),
        over=("metric-outside-the-scope",),
    ),
    Row(
        "session-cleared-in-the-scope",
        "IndexError: pop from empty list, when the scope of a strategy ends",
        r"in _pop_per_thread_mode\n(?s:.){0,500}?^IndexError: pop from empty list",
        "The program calls clear_session, or resets the default graph, inside `with strategy.scope():`. The scope is "
        "lost from there on: models made after that are not the strategy's.",
        "Call tf.keras.backend.clear_session() before `with strategy.scope():`. If a search clears the session before "
        "each model, put the scope around the code that makes and compiles one model, not around the search.",
        reported=("keras-team/autokeras#1101", "keras-team/keras-tuner#686"),
        example=_ONE,
    ),
    Row(
        "saved-model-called-in-the-scope",
        "InvalidArgumentError: assertion failed: [Trying to access a placeholder that is not supposed to be executed.",
        r"Trying to access a placeholder that is not supposed to be executed",
        "{line} calls a model or function that was loaded from a SavedModel in the strategy's scope, or contains one, "
        "outside of strategy.run.",
        "strategy.run(lambda: model(rows)); or leave the call out, and train with fit. In a loop of your own, also "
        "call optimizer.build(model.trainable_variables) in strategy.scope(), before the first step.",
        reported=("tensorflow/tensorflow#56852",),
        example=_ONE,
    ),
    Row(
        "rows-of-a-step-added-up",
        "ValueError: 'total' has shape () before the loop, but shape (None, 3) after one iteration.",
        r"'(?P<name>\w+)' has shape \(\) before the loop, but shape \((?P<shape>[^\n)]+)\) after one iteration",
        "{name} begins as a single number, and is given a tensor of the shape ({shape}) in the loop: the function of a "
        "replica returns a value for each row, and strategy.reduce(…, axis=None) keeps their shape.",
        "Let that function return a single number, such as tf.reduce_sum(values) or tf.nn.compute_average_loss(values, "
        "global_batch_size=…).",
        showing(
            r"^ +File [^\n]*, in \w*(?i:distribut|replica|strateg)\w* |^ +for [^\n]* in [^\n]*(?i:dist_|distribut)"
        ),
        ("tensorflow/tensorflow#32099",),
        _TWO,
    ),
    Row(
        "clipping-in-the-optimizer",
        "ValueError: `clipnorm` is not supported with `CenteralStorageStrategy`.",
        r"Gradient clipping in the optimizer \(by setting clipnorm or clipvalue\) is currently unsupported"
        r"|`\w*clip\w+` is not supported with `CenteralStorageStrategy`",
        "The optimizer that {line} uses clips gradients, which this strategy, or this old Keras, does not support.",
        "Clip them in train_step or in the loop, before apply_gradients: gradients, _ = tf.clip_by_global_norm("
        "gradients, 1.0); or use MirroredStrategy or MultiWorkerMirroredStrategy with a later Keras.",
        reported=("TensorSpeech/TensorFlowTTS#657", "tensorflow/tensorflow#33929"),
        example=("--workers", "1", "--keras", "2"),
    ),
)
