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
        "{line} copies, or sends to another process, an object that cannot be copied: a strategy, an object that "
        "belongs to a strategy, or an object that contains parts of TensorFlow, such as a model, an optimizer, a "
        "dataset or a summary writer.",
        "Create the strategy and the model inside the function that the other process runs, and pass the function "
        "arrays, paths and model.get_weights(). To copy a model, call tf.keras.models.clone_model(model) in "
        "strategy.scope(), then set_weights.",
        reported=("tensorflow/tensorflow#46556", "tensorflow/tensorflow#42931", "ray-project/ray#5330"),
        example=_TWO,
    ),
    Row(
        "scope-in-a-scope",
        "RuntimeError: Must not be called inside a `tf.distribute.Strategy` scope.",
        r"Must not be called inside a `tf\.distribute\.Strategy` scope|Must not nest tf\.distribute\.Strategy scopes",
        "{line} enters a strategy inside the scope of a strategy, for example with experimental_set_strategy.",
        "Enter only one strategy, and only once: leave out tf.distribute.experimental_set_strategy or the outer "
        "strategy.scope().",
        example=_TWO,
    ),
    Row(
        "empty-cluster",
        "ValueError: Cluster spec must be non-empty in `tf.distribute.cluster_resolver.ClusterResolver`.",
        r"Cluster spec must be non-empty in|ValueError: There must be at least one worker\."
        r"|No `worker`, `chief` or `evaluator` tasks can be found in `cluster_spec`",
        "The resolver that {line} uses found no cluster, or a cluster without workers, because TF_CONFIG is not set, "
        "or is not set yet.",
        "Start the program with clusterkit up --workers 1 --ps 1 --servers builtin, which sets TF_CONFIG. Or set "
        "TF_CONFIG, including its tasks, before the resolver is created.",
        reported=("tensorflow/tensorflow#46843",),
        example=_ONE,
    ),
    Row(
        "optimizer-of-tensorflow-1-in-compile",
        "ValueError: Could not interpret optimizer identifier: <tensorflow.python.training.adam.AdamOptimizer …>",
        r"Could not interpret optimizer identifier: <(?P<type>(?:tensorflow|tf_keras|keras|transformers)\.[\w.]+)"
        r"|`tf\.compat\.v1\.keras` Optimizer \(.{0,200}\) is not supported"
        r"|Only TensorFlow native optimizers are supported with DistributionStrategy",
        "{line} compiles a model with an optimizer of TensorFlow 1, or of another Keras, which Keras does not accept.",
        "In strategy.scope(), write model.compile(optimizer=tf.keras.optimizers.Adam(0.001), loss=…)",
        reported=("tensorflow/tensorflow#26709", "tensorflow/tensorflow#27696"),
        example=_TWO,
    ),
    Row(
        "reduction-of-keras-2",
        "ValueError: Invalid value for argument `reduction`. … (module 'keras.losses' has no attribute 'Reduction')",
        r"Invalid value for argument `reduction`\. [^\n]*Received: reduction=auto"
        r"|module '(?:tensorflow\.)?keras[\w.]*\.losses' has no attribute 'Reduction'"
        r"|cannot import name 'Reduction' from '(?:tensorflow\.)?keras[\w.]*\.losses",
        "{line} creates a loss with a Reduction of Keras 2. In Keras 3, reductions are strings, and AUTO does not "
        "exist.",
        "Instead of Reduction.NONE (a loss per row), write reduction='none'. Instead of SUM, write 'sum'. Instead of "
        "AUTO, which was the mean, leave reduction out.",
        example=_TWO,
    ),
    Row(
        "built-for-one-batch-size",
        "ValueError: If an RNN is stateful, the batch size of the input sequences must be the same as …",
        _SIZES,
        "The model that {line} uses is built for batches of {built} rows, but got {got} rows. A strategy divides each "
        "batch among its replicas, and the last batch of a dataset may be smaller.",
        "Build the model for a replica's share, tf.keras.Input(batch_shape=(GLOBAL_BATCH // "
        "strategy.num_replicas_in_sync, …)), and use dataset.batch(GLOBAL_BATCH, drop_remainder=True). Or leave out "
        "the batch size and stateful=True: tf.keras.Input(shape=…).",
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
        "At {line}, Keras 3 applies gradients in a condition, because of gradient_accumulation_steps, use_ema or the "
        "loss scale of mixed_float16. TensorFlow does not support this under a strategy in a single process.",
        "Leave out gradient_accumulation_steps, use_ema and LossScaleOptimizer, and use mixed_bfloat16 instead of "
        "mixed_float16. Or train with several workers: MultiWorkerMirroredStrategy, with clusterkit up --workers 2.",
        reported=("keras-team/keras#18666", "keras-team/tf-keras#301"),
        example=_ONE,
        over=("gradients-in-a-condition",),
    ),
    Row(
        "set-value-of-keras-2",
        "AttributeError: 'str' object has no attribute 'name', from tf.keras.backend.set_value",
        r"AttributeError: 'str' object has no attribute 'name'",
        "{line} calls set_value or get_value of the backend for a variable of Keras 3, whose dtype is a string.",
        "To set a value, write model.optimizer.learning_rate = 0.01, or variable.assign(value). To read a value, "
        "write float(model.optimizer.learning_rate).",
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
        "{line} passes a dataset or a generator, and also labels, weights or a validation split, which Keras cannot "
        "apply to a dataset or a generator.",
        "Put labels and weights into the dataset: tf.data.Dataset.from_tensor_slices((x, y, weights)).batch(size). "
        "For validation, write fit(dataset.skip(n), validation_data=dataset.take(n)).",
        example=_TWO,
    ),
    Row(
        "weights-of-another-model",
        "ValueError: Layer 'dense' expected 2 variables, but received 0 variables during loading.",
        r"Layer count mismatch when loading weights|Weight count mismatch for"
        r"|Layer '[^'\n]*' expected \d+ variables, but received \d+ variables during loading"
        r"|was never built and thus it doesn't have any variables\. However the weights file"
        r"|Shape mismatch in .{0,80}for weight",
        "The file that {line} loads contains the weights of another model, or this model has no weights yet.",
        "Create the same layers as the program that saved the file, and build the model first: "
        "tf.keras.Input(shape=…), or model.build(shape). Or start without the file.",
        example=_ONE,
    ),
    Row(
        "mixed-precision-with-this-strategy",
        "ValueError: Mixed precision is not supported with the tf.distribute.Strategy: ParameterServerStrategyV2",
        r"(?:Mixed precision|Loss scaling) is not supported with the tf\.distribute\.Strategy: (?P<strategy>\w+)",
        "{line} trains with float16 under {strategy}, for which Keras 2 cannot scale the loss.",
        "Leave the policy out, or call tf.keras.mixed_precision.set_global_policy('float32'). "
        "MultiWorkerMirroredStrategy supports mixed precision.",
        example=_COORDINATED,
    ),
    Row(
        "strategy-after-a-strategy",
        "InvalidArgumentError: Shape mismatch in the collective instance 100. Op at device /job:localhost/…",
        rf"{MISMATCH}\. Op at device /job:localhost/",
        "At {line}, a second strategy trains in the same process. Both strategies number their collective operations "
        "from the beginning, so TensorFlow confuses the operations of one with those of the other.",
        "Create the strategy once, before the loop over the models, and use it for all models. Or train each model in "
        "its own process.",
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
        "{line} passes devices to a strategy, but not as a list of device names.",
        "Leave the argument out, so that the strategy uses all GPUs of the task (clusterkit up --gpus-per-task 2). Or "
        'pass names: tf.distribute.MirroredStrategy(["GPU:0", "GPU:1"]), or [gpu.name for gpu in '
        'tf.config.list_logical_devices("GPU")].',
        when=calling(r"Strategy\("),
        example=_ONE,
    ),
    Row(
        "model-without-call",
        "RuntimeError: Unable to automatically build the model. … Model GAN does not have a `call()` method",
        r"Unable to automatically build the model\.(?s:.{0,1500}?)Model (?P<model>\w+) does not have a `call\(\)`",
        "Under a strategy, fit of Keras 3 calls the model once to build it, but {model} has only a train_step and no "
        "call method.",
        "Define a call method that takes a batch: def call(self, x): return self.discriminator(x). Begin the inner "
        "models with tf.keras.Input(shape=…), and build the optimizers of train_step in strategy.scope(): "
        "self.d_optimizer.build(self.discriminator.trainable_variables).",
        example=(*_TWO, "--no-patches"),
    ),
    Row(
        "callback-of-another-keras",
        "AttributeError: 'Sequential' object has no attribute '_train_counter' ('_get_distribution_strategy')",
        r"'\w+' object has no attribute '(?:_train_counter|_(?:get_)?distribution_strategy|_in_multi_worker_mode)'",
        "{line} mixes two versions of Keras: the model comes from one, and a callback, an optimizer or fit from "
        "another, such as tf_keras, keras or tensorflow.python.keras.",
        "Import everything from the same Keras: from tensorflow.keras import callbacks, layers, optimizers. With "
        "--keras 2, tensorflow.keras is tf_keras.",
        reported=("tensorflow/tensorboard#3125",),
        example=_ONE,
    ),
    Row(
        "regularization-per-row",
        "ValueError: Shapes must be equal rank, but are 1 and 0, from compiled_loss or tf.add_n(model.losses)",
        r"Shapes must be equal rank, but are \d and 0",
        "{line} adds losses of layers, for example of regularizers, to a loss for each row. Losses of layers are "
        "single numbers.",
        "Average the loss first: loss = tf.nn.compute_average_loss(self.compiled_loss(y, p), global_batch_size=…) + "
        "tf.nn.scale_regularization_loss(tf.add_n(self.losses)), without regularization_losses.",
        calling(r"\blosses\b"),
        ("keras-team/keras#16529", "keras-team/tf-keras#610"),
        ("--workers", "2", "--keras", "2"),
    ),
    Row(
        "input-in-a-loss",
        "ValueError: A KerasTensor cannot be used as input to a TensorFlow function, from a loss in model.fit",
        r"A KerasTensor cannot be used as input to a TensorFlow function",
        "{line} runs in each step, for example in a loss, but uses an Input or a layer's output from the construction "
        "of the model, which has no value in a step.",
        "Take the value from the batch. Create the model with a subclass of tf.keras.Model that defines compute_loss, "
        "here for the second input: def compute_loss(self, x=None, y=None, y_pred=None, sample_weight=None, "
        "training=True): return loss(y, y_pred, x[1]) / self.distribute_strategy.num_replicas_in_sync. Leave loss out "
        "of compile.",
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
        "The model that {line} compiles was created or loaded outside of the strategy's scope.",
        "Load and compile the model in the same block, with a new optimizer: with strategy.scope(): model = "
        "tf.keras.models.load_model(path, compile=False), then model.compile(…).",
        reported=("amaiya/ktrain#513",),
        example=(*_ONE, "--keras", "2"),
        over=("metric-outside-the-scope",),
    ),
    Row(
        "session-cleared-in-the-scope",
        "IndexError: pop from empty list, when the scope of a strategy ends",
        r"in _pop_per_thread_mode\n(?s:.){0,500}?^IndexError: pop from empty list",
        "The program calls clear_session, or resets the default graph, inside `with strategy.scope():`. This ends the "
        "scope, so models that are created afterwards do not belong to the strategy.",
        "Call tf.keras.backend.clear_session() before `with strategy.scope():`. If a search clears the session before "
        "each model, put the scope around the code that creates and compiles one model, not around the search.",
        reported=("keras-team/autokeras#1101", "keras-team/keras-tuner#686"),
        example=_ONE,
    ),
    Row(
        "saved-model-called-in-the-scope",
        "InvalidArgumentError: assertion failed: [Trying to access a placeholder that is not supposed to be executed.",
        r"Trying to access a placeholder that is not supposed to be executed",
        "{line} calls a model or function outside of strategy.run, but it was loaded from a SavedModel in the "
        "strategy's scope, or contains such a model.",
        "Write strategy.run(lambda: model(rows)). Or leave the call out, and train with fit. In a loop of your own, "
        "also call optimizer.build(model.trainable_variables) in strategy.scope(), before the first step.",
        reported=("tensorflow/tensorflow#56852",),
        example=_ONE,
    ),
    Row(
        "rows-of-a-step-added-up",
        "ValueError: 'total' has shape () before the loop, but shape (None, 3) after one iteration.",
        r"'(?P<name>\w+)' has shape \(\) before the loop, but shape \((?P<shape>[^\n)]+)\) after one iteration",
        "{name} begins as a single number, but the loop assigns a tensor of shape ({shape}) to it. The replica's "
        "function returns a value for each row, and strategy.reduce(…, axis=None) keeps that shape.",
        "Return a single number from that function, such as tf.reduce_sum(values) or "
        "tf.nn.compute_average_loss(values, global_batch_size=…).",
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
        "The optimizer at {line} clips gradients, which this strategy, or this old Keras, does not support.",
        "Clip the gradients in train_step or in the loop, before apply_gradients: gradients, _ = "
        "tf.clip_by_global_norm(gradients, 1.0). Or use MirroredStrategy or MultiWorkerMirroredStrategy with a later "
        "Keras.",
        reported=("TensorSpeech/TensorFlowTTS#657", "tensorflow/tensorflow#33929"),
        example=("--workers", "1", "--keras", "2"),
    ),
)
