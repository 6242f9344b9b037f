"""Rows about programs that were written for TensorFlow 1 or for an older Keras."""

from __future__ import annotations

import re

from clusterkit.explain.frames import calling, frames_of, through
from clusterkit.explain.row import HOLDS, Evidence, Row, Words

_ONE = ("--workers", "1")
_TWO = ("--workers", "2")
_METRICS = (
    r"Mean|Sum|(?:Root)?Mean(?:Squared|Absolute)(?:Logarithmic|Percentage)?Error|AUC|Precision|Recall|Accuracy"
    r"|(?:Binary|(?:Sparse)?(?:TopK)?Categorical)(?:Accuracy|Crossentropy)"
)
_OPTIMIZERS = "SGD|Adam|AdamW|Adamax|Nadam|RMSprop|Adagrad|Adadelta|Ftrl|LossScaleOptimizer"
_V1 = "Call tf.compat.v1.disable_v2_behavior() as a stopgap, without a strategy; for several tasks, "
_GONE = (
    "fit_generator|evaluate_generator|predict_generator|predict_classes|predict_proba|reset_states|to_yaml|updates"
    "|state_updates|get_(?:in|out)put_\\w+_?at|add_update|submodules|name_scope|_make_\\w+"
)
_MODULES = (
    r"engine|initializers\.\w+|layers\.(?:core|convolutional|normalization|recurrent|pooling|merge|embeddings"
    r"|advanced_activations|wrappers|noise|local)|backend\.tensorflow_backend|utils\.(?:np_utils|training_utils|"
    r"multi_gpu_utils|generic_utils)|optimizers\.optimizer_v2|wrappers|objectives|preprocessing\.text"
)

_OLD = re.compile(r"/tensorflow_core/|/tensorflow/contrib/|/python(?:2\.7|3\.[4-8])/")
_DISTRIBUTES = re.compile(
    r"/tensorflow(?:_core)?/(?:contrib/distribute/|python/(?:distribute/|training/distribute\.py|keras/engine/\w*distrib))"
)


def _old_distribute(evidence: Evidence) -> Words | None:
    """Check whether the tf.distribute code of an old TensorFlow has raised the error."""
    frames = frames_of(evidence.first.text)
    raised = frames[-1][0] if frames else ""
    old = _DISTRIBUTES.search(raised) and _OLD.search(raised)
    return HOLDS if old or "'DistributedCallbackModel' object has no" in evidence.first.text else None


ROWS: tuple[Row, ...] = (
    Row(
        "old-distribute",
        "AssertionError: assert not as_ref, in tensorflow/contrib/distribute/python/values.py",
        r"^\w[\w.]*(?:Error|Exception)\b",
        "{line} fails inside of tf.distribute of an old TensorFlow, where much of what Keras, optimizers, metrics and "
        "estimators do under strategies was not supported, or was a known defect.",
        "pip install --upgrade tensorflow, make the strategy as tf.distribute.MirroredStrategy() or "
        "MultiWorkerMirroredStrategy(), and train with fit or strategy.run instead of an estimator.",
        when=_old_distribute,
        reported=("tensorflow/tensorflow#21786", "tensorflow/tensorflow#33531", "tensorflow/tensorflow#28931"),
        example=_ONE,
        general=True,
    ),
    Row(
        "multi-gpu-model",
        "ImportError: cannot import name 'multi_gpu_model' from 'tensorflow.keras.utils'",
        r"cannot import name 'multi_gpu_model'|has no attribute 'multi_gpu_model'",
        "multi_gpu_model was removed from Keras: strategies do its work.",
        "with tf.distribute.MirroredStrategy().scope(): build and compile the model; MultiWorkerMirroredStrategy if "
        "the job has several workers.",
        reported=("keras-team/keras#14440", "minimaxir/textgenrnn#258"),
        example=_ONE,
    ),
    Row(
        "keras-sessions",
        "AttributeError: module 'keras._tf_keras.keras.backend' has no attribute 'set_session'",
        r"module '(?:tensorflow\.)?keras[\w.]*\.backend' has no attribute '(?P<name>[gs]et_session"
        r"|tensorflow_backend|learning_phase)'",
        "{name} of Keras's backend is for TensorFlow 1, which ran in sessions.",
        "Leave it out; set devices with tf.config.set_visible_devices and tf.config.experimental.set_memory_growth.",
        example=_ONE,
    ),
    Row(
        "keras-modules",
        "ModuleNotFoundError: No module named 'keras.engine' ('keras.layers.normalization', 'keras.utils.np_utils')",
        rf"No module named '(?P<module>(?:tensorflow\.)?keras\.(?:{_MODULES}))\b",
        "{line} imports {module}, an inner module that only old versions of Keras have.",
        "Import from what is public: from tensorflow.keras.layers import Layer, BatchNormalization; to_categorical is "
        "in tensorflow.keras.utils.",
        example=_ONE,
    ),
    Row(
        "placeholders",
        "RuntimeError: tf.placeholder() is not compatible with eager execution.",
        r"RuntimeError: [^\n]*(?:(?:not compatible|incompatible) with eager execution"
        r"|not supported when eager execution is "
        r"enabled|When eager execution is enabled, `var_list` must)",
        "{line} builds a graph, such as with a placeholder, a queue, a Saver or a Supervisor: the program was "
        "written for "
        "TensorFlow 1, which built a graph and then ran it.",
        f"{_V1}pass data as arguments of a @tf.function.",
        reported=("tensorflow/models#10031", "tensorflow/tpu#820"),
        example=_ONE,
    ),
    Row(
        "sessions",
        "RuntimeError: The Session graph is empty. Add operations to the graph before calling run().",
        r"RuntimeError: The Session graph is empty",
        "{line} runs a session, but in TensorFlow 2 operations are executed at once and are in no graph.",
        f"{_V1}use the tensors themselves, and a @tf.function for the step.",
        reported=("OlafenwaMoses/ImageAI#400", "SeldonIO/alibi#959"),
        example=_ONE,
    ),
    Row(
        "session-not-ready",
        "Waiting for model to be ready. Ready_for_local_init_op: Variables not initialized: global_step, …",
        r"Waiting for model to be ready\.\s+Ready_for_local_init_op|Session was not ready after waiting \d+ secs",
        "{task} waits for the chief, which initializes the variables of TensorFlow 1: it has not come, failed, or is "
        "called master, a name that later versions do not know.",
        "Look at the chief's log; call it chief in TF_CONFIG, or make worker:0 the chief (is_chief=index == 0).",
        reported=("kubeflow/kubeflow#1283",),
        example=_ONE,
    ),
    Row(
        "eager-execution-switched-off",
        "TypeError: int() argument must be a string … not 'SymbolicTensor', in model.fit",
        r"TypeError: int\(\) argument must be [^\n]* not 'SymbolicTensor'",
        "The program switches eager execution off (disable_v2_behavior, disable_eager_execution), and Keras 3 does not "
        "train without it.",
        "Leave that call out: fit and @tf.function build graphs by themselves.",
        when=through("/keras/src/trainers/data_adapters/"),
        reported=("tensorflow/tensorflow#39753",),
        example=_TWO,
    ),
    Row(
        "dataset-iterators",
        "AttributeError: '_BatchDataset' object has no attribute 'make_one_shot_iterator'",
        r"'_?\w*Dataset(?:V\d\w*)?' object has no attribute '(?P<name>make_(?:one_shot|initializable)_iterator)'",
        "{name} is a name of TensorFlow 1.",
        "for batch in dataset: …, or batches = iter(dataset), then next(batches).",
        reported=("tensorflow/tensorflow#29252", "tensorflow/tensorflow#33555"),
        example=_ONE,
    ),
    Row(
        "optimizers-of-tensorflow-1",
        "RuntimeError: `loss` passed to Optimizer.compute_gradients should be a function when eager execution is …",
        r"`loss` passed to Optimizer\.compute_gradients should be a function when eager execution is enabled",
        "{line} minimizes a tensor with an optimizer of TensorFlow 1, which needs a graph.",
        "Compute the loss under tf.GradientTape, and call apply_gradients of an optimizer of tf.keras.optimizers.",
        reported=("raphael-group/netNMF-sc#3",),
        example=_ONE,
    ),
    Row(
        "fit-generator",
        "AttributeError: 'Sequential' object has no attribute 'fit_generator'",
        rf"AttributeError: '(?:Sequential|Functional|Model)' object has no attribute '(?P<name>{_GONE})'"
        r"|`(?:fit|evaluate|predict)_generator` is not supported for models compiled with tf\.distribute",
        "{line} uses a method that was removed from Keras, such as fit_generator or predict_classes.",
        "Call fit, evaluate or predict, with the generator as first argument: model.fit(generator, epochs=…). Pass "
        "workers, use_multiprocessing and max_queue_size to the constructor of a tf.keras.utils.PyDataset: "
        "super().__init__(workers=…). Classes are predict(x).argmax(-1).",
        reported=("keras-team/keras#19225",),
        example=_TWO,
    ),
    Row(
        "scaled-loss",
        "AttributeError: 'LossScaleOptimizer' object has no attribute 'get_scaled_loss'",
        r"'LossScaleOptimizer' object has no attribute '(?P<name>get_scaled_loss|get_unscaled_gradients)'",
        "{name} is a method of Keras 2.",
        "loss = optimizer.scale_loss(loss), and nothing for the gradients: apply_gradients of Keras 3 divides them by "
        "itself.",
        reported=("tensorflow/models#11157", "keras-team/keras#19479", "tensorflow/tensorflow#64124"),
        example=_TWO,
    ),
    Row(
        "save-format",
        "ValueError: The `save_format` argument is deprecated in Keras 3.",
        r"ValueError: The `save_format` argument is deprecated in Keras 3",
        "save of Keras 3 has no argument save_format: the end of the path decides.",
        "End the path in .keras; for a SavedModel, call model.export(path), or clusterkit.training.export(model).",
        example=_TWO,
    ),
    Row(
        "reset-states",
        "AttributeError: 'Mean' object has no attribute 'reset_states'",
        rf"AttributeError: '(?P<metric>{_METRICS})' object has no attribute 'reset_states'",
        "Metrics of Keras 3 have no reset_states.",
        "Write reset_state().",
        example=_ONE,
    ),
    Row(
        "optimizer-weights",
        "AttributeError: 'Adam' object has no attribute 'get_weights'",
        rf"AttributeError: '(?P<optimizer>{_OPTIMIZERS})' object has no attribute '(?P<name>get_weights|weights|"
        r"get_updates|minimize|get_slot\w*|add_slot|compute_gradients|aggregate_gradients|_\w{0,60})'",
        "{name} is a name of older optimizers, which those of Keras 3 do not have.",
        "For minimize, compute the gradients under tf.GradientTape, and call apply_gradients(zip(gradients, "
        "variables)); else use optimizer.variables, optimizer.build(variables) and optimizer.learning_rate; to restore "
        "a model with its "
        "optimizer, load_model in the scope. With --keras 2, tf.keras.optimizers.legacy has the old names.",
        example=_ONE,
    ),
    Row(
        "uses-horovod",
        "ModuleNotFoundError: No module named 'horovod'",
        r"ModuleNotFoundError: No module named '(?P<module>horovod|mpi4py|byteps|tensorflowonspark|smdistributed"
        r"|spark_tensorflow_distributor|sparkdl|elephas|distkeras|raydp)\b",
        "The program uses {module}, which is not installed. It does not read TF_CONFIG: clusterkit's tasks do not "
        "connect by it.",
        "Use tf.distribute.MultiWorkerMirroredStrategy() in its place, such as of hvd.init() and "
        "hvd.DistributedOptimizer(…).",
        example=_TWO,
    ),
    Row(
        "add-metric",
        "NotImplementedError: Layer `add_metric()` method is deprecated.",
        r"`add_metric\(\)` method is deprecated|object has no attribute 'add_update'",
        "{line} calls add_metric or add_update, which Keras 3 does not have.",
        "Make a tf.keras.metrics.Mean() in __init__, and call its update_state; or run the job with --keras 2.",
        example=_ONE,
    ),
    Row(
        "keras-tensor",
        "ValueError: A KerasTensor cannot be used as input to a TensorFlow function.",
        r"A KerasTensor cannot be used as input to a TensorFlow function",
        "{line} calls a function of TensorFlow on the input of a functional model, which is no tensor in Keras 3.",
        "Use keras.ops, as in keras.ops.sum(x), or a layer that calls the function; or run the job with --keras 2.",
        example=_ONE,
    ),
    Row(
        "name-of-a-weight",
        "ValueError: `name` must be passed as a keyword argument. Received: add_weight('kernel', ...)",
        r"`name` must be passed as a keyword argument\. Received: add_weight"
        r"|add_weight\(\) got multiple values for argument 'shape'"
        r"|Cannot convert '\w+' to a shape\. Found invalid dimension '\w'",
        "add_weight of Keras 3 takes the shape first, and {line} passes a name.",
        "self.add_weight(name='kernel', shape=…), with all arguments named; in a metric, shape=() for a number",
        example=_ONE,
    ),
    Row(
        "layer-arguments",
        "ValueError: Unrecognized keyword arguments passed to LSTM: {{'batch_input_shape': …}}",
        r"Unrecognized keyword arguments passed to (?P<layer>\w+): \{'(?P<argument>batch_input_shape|input_length|"
        r"weights|input_dim|input_shape|autocast|dynamic|mask_zero|fused|virtual_batch_size|adjustment)'",
        "{layer} of Keras 3 has no argument {argument}.",
        "Leave it out. Begin the model with tf.keras.Input(batch_shape=…) or Input(shape=…), set weights with "
        "set_weights after the "
        "layer is built, or run the job with --keras 2.",
        example=_ONE,
    ),
    Row(
        "callback-arguments",
        "TypeError: ModelCheckpoint.__init__() got an unexpected keyword argument 'period'",
        r"TypeError: (?P<callback>ModelCheckpoint|TensorBoard|EarlyStopping|ReduceLROnPlateau)\.__init__\(\) got an "
        r"unexpected keyword argument '(?P<argument>\w+)'",
        "{callback} of Keras 3 has no argument {argument}.",
        "Leave it out; save_freq='epoch', or a number of batches, replaces the period of ModelCheckpoint.",
        example=_ONE,
    ),
    Row(
        "private-callbacks",
        "AttributeError: 'CallbackList' object has no attribute '_call_begin_hook'",
        r"AttributeError: 'CallbackList' object has no attribute '(?P<name>_\w+)'",
        "{line} uses {name}, an inner part of another version of Keras.",
        "Call the public methods: callbacks.on_train_begin(), callbacks.on_epoch_end(epoch, logs) and so on.",
        reported=("tensorflow/tensorflow#40374",),
        example=_TWO,
    ),
    Row(
        "own-optimizer",
        "ValueError: Argument `learning_rate` should be float … Received instead: learning_rate=MyOptimizer",
        r"ValueError: Argument `learning_rate` should be float(?s:.{0,300}?)Received instead: learning_rate=[A-Za-z]",
        "{line} makes an optimizer of its own for an older Keras: the constructor of today's takes the learning rate "
        "first, and calls other methods.",
        "Run the job with --keras 2, and derive the class from tf.keras.optimizers.legacy.Optimizer; or pass "
        "learning_rate=… and name=…, and write build(self, variables) and update_step(self, gradient, variable, "
        "learning_rate) for _create_slots and _resource_apply_dense.",
        when=calling(r"super\("),
        reported=("tensorflow/addons#2525",),
        example=_ONE,
    ),
    Row(
        "arguments-of-a-weight",
        "ValueError: Invalid value for argument `aggregation`. Expected one of `None`, `'none'`, `'mean'`, `'sum'`, …",
        r"Invalid value for argument `(?:aggregation|synchronization)`\. Expected one of"
        r"|add_(?:weight|variable)\(\) got an unexpected keyword argument",
        "{line} makes a weight with arguments of Keras 2, which has aggregations of TensorFlow, synchronization, "
        "use_resource and others.",
        "self.add_weight(name='total', shape=(), initializer='zeros', trainable=False, aggregation='mean'): the "
        "aggregation is a text in Keras 3 ('mean', 'sum', 'only_first_replica'), and the others are gone; or run the "
        "job with --keras 2.",
        example=_ONE,
    ),
)
