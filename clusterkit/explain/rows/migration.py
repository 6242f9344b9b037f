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
_V1 = "As a stopgap without a strategy, call tf.compat.v1.disable_v2_behavior(). For several tasks, "
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
        "{line} fails inside tf.distribute of an old TensorFlow. There, Keras, optimizers, metrics and estimators "
        "were often unsupported under strategies, or had known bugs.",
        "Run pip install --upgrade tensorflow. Create the strategy with tf.distribute.MirroredStrategy() or "
        "tf.distribute.MultiWorkerMirroredStrategy(), and train with fit or strategy.run instead of an estimator.",
        when=_old_distribute,
        reported=("tensorflow/tensorflow#21786", "tensorflow/tensorflow#33531", "tensorflow/tensorflow#28931"),
        example=_ONE,
        general=True,
    ),
    Row(
        "multi-gpu-model",
        "ImportError: cannot import name 'multi_gpu_model' from 'tensorflow.keras.utils'",
        r"cannot import name 'multi_gpu_model'|has no attribute 'multi_gpu_model'",
        "multi_gpu_model was removed from Keras. Strategies replace it.",
        "Build and compile the model in `with tf.distribute.MirroredStrategy().scope():`, or use "
        "MultiWorkerMirroredStrategy if the job has several workers.",
        reported=("keras-team/keras#14440", "minimaxir/textgenrnn#258"),
        example=_ONE,
    ),
    Row(
        "keras-sessions",
        "AttributeError: module 'keras._tf_keras.keras.backend' has no attribute 'set_session'",
        r"module '(?:tensorflow\.)?keras[\w.]*\.backend' has no attribute '(?P<name>[gs]et_session"
        r"|tensorflow_backend|learning_phase)'",
        "{name} of Keras's backend is for TensorFlow 1, which ran programs in sessions.",
        "Leave {name} out. Configure devices with tf.config.set_visible_devices and "
        "tf.config.experimental.set_memory_growth.",
        example=_ONE,
    ),
    Row(
        "keras-modules",
        "ModuleNotFoundError: No module named 'keras.engine' ('keras.layers.normalization', 'keras.utils.np_utils')",
        rf"No module named '(?P<module>(?:tensorflow\.)?keras\.(?:{_MODULES}))\b",
        "{line} imports {module}, an internal module that only old versions of Keras have.",
        "Import the public names instead: from tensorflow.keras.layers import Layer, BatchNormalization. Import "
        "to_categorical from tensorflow.keras.utils.",
        example=_ONE,
    ),
    Row(
        "placeholders",
        "RuntimeError: tf.placeholder() is not compatible with eager execution.",
        r"RuntimeError: [^\n]*(?:(?:not compatible|incompatible) with eager execution"
        r"|not supported when eager execution is "
        r"enabled|When eager execution is enabled, `var_list` must)",
        "{line} builds a graph, for example with a placeholder, a queue, a Saver or a Supervisor. The program was "
        "written for TensorFlow 1, which built a graph before running it.",
        f"{_V1}pass data as arguments of a @tf.function.",
        reported=("tensorflow/models#10031", "tensorflow/tpu#820"),
        example=_ONE,
    ),
    Row(
        "sessions",
        "RuntimeError: The Session graph is empty. Add operations to the graph before calling run().",
        r"RuntimeError: The Session graph is empty",
        "{line} runs a session, but TensorFlow 2 executes operations at once instead of adding them to a graph.",
        f"{_V1}use the tensors themselves, and make the step a @tf.function.",
        reported=("OlafenwaMoses/ImageAI#400", "SeldonIO/alibi#959"),
        example=_ONE,
    ),
    Row(
        "session-not-ready",
        "Waiting for model to be ready. Ready_for_local_init_op: Variables not initialized: global_step, …",
        r"Waiting for model to be ready\.\s+Ready_for_local_init_op|Session was not ready after waiting \d+ secs",
        "{task} waits for the chief to initialize the variables of TensorFlow 1. The chief has not started, has "
        "failed, or is called master, a name that later versions do not know.",
        "Look at the chief's log. Give the chief the task type chief in TF_CONFIG, or make worker:0 the chief "
        "(is_chief=index == 0).",
        reported=("kubeflow/kubeflow#1283",),
        example=_ONE,
    ),
    Row(
        "eager-execution-switched-off",
        "TypeError: int() argument must be a string … not 'SymbolicTensor', in model.fit",
        r"TypeError: int\(\) argument must be [^\n]* not 'SymbolicTensor'",
        "The program disables eager execution (disable_v2_behavior, disable_eager_execution), but Keras 3 cannot "
        "train without it.",
        "Remove that call, since fit and @tf.function build graphs by themselves.",
        when=through("/keras/src/trainers/data_adapters/"),
        reported=("tensorflow/tensorflow#39753",),
        example=_TWO,
    ),
    Row(
        "dataset-iterators",
        "AttributeError: '_BatchDataset' object has no attribute 'make_one_shot_iterator'",
        r"'_?\w*Dataset(?:V\d\w*)?' object has no attribute '(?P<name>make_(?:one_shot|initializable)_iterator)'",
        "{name} exists only in TensorFlow 1.",
        "Write for batch in dataset: …, or batches = iter(dataset) and then next(batches).",
        reported=("tensorflow/tensorflow#29252", "tensorflow/tensorflow#33555"),
        example=_ONE,
    ),
    Row(
        "optimizers-of-tensorflow-1",
        "RuntimeError: `loss` passed to Optimizer.compute_gradients should be a function when eager execution is …",
        r"`loss` passed to Optimizer\.compute_gradients should be a function when eager execution is enabled",
        "{line} minimizes a tensor with an optimizer of TensorFlow 1, which needs a graph.",
        "Compute the loss under tf.GradientTape, and call apply_gradients of an optimizer from tf.keras.optimizers.",
        reported=("raphael-group/netNMF-sc#3",),
        example=_ONE,
    ),
    Row(
        "fit-generator",
        "AttributeError: 'Sequential' object has no attribute 'fit_generator'",
        rf"AttributeError: '(?:Sequential|Functional|Model)' object has no attribute '(?P<name>{_GONE})'"
        r"|`(?:fit|evaluate|predict)_generator` is not supported for models compiled with tf\.distribute",
        "{line} uses a method that was removed from Keras, such as fit_generator or predict_classes.",
        "Call fit, evaluate or predict with the generator as the first argument: model.fit(generator, epochs=…). Pass "
        "workers, use_multiprocessing and max_queue_size to the constructor of a tf.keras.utils.PyDataset: "
        "super().__init__(workers=…). Instead of predict_classes(x), write predict(x).argmax(-1).",
        reported=("keras-team/keras#19225",),
        example=_TWO,
    ),
    Row(
        "scaled-loss",
        "AttributeError: 'LossScaleOptimizer' object has no attribute 'get_scaled_loss'",
        r"'LossScaleOptimizer' object has no attribute '(?P<name>get_scaled_loss|get_unscaled_gradients)'",
        "{name} exists only in Keras 2.",
        "Write loss = optimizer.scale_loss(loss), and leave the gradients unchanged, since apply_gradients of Keras 3 "
        "divides them by the scale.",
        reported=("tensorflow/models#11157", "keras-team/keras#19479", "tensorflow/tensorflow#64124"),
        example=_TWO,
    ),
    Row(
        "save-format",
        "ValueError: The `save_format` argument is deprecated in Keras 3.",
        r"ValueError: The `save_format` argument is deprecated in Keras 3",
        "save of Keras 3 has no argument save_format. The suffix of the path determines the format.",
        "End the path in .keras. For a SavedModel, call model.export(path) or clusterkit.training.export(model).",
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
        "{name} is a name of older optimizers, and optimizers of Keras 3 do not have it.",
        "Instead of minimize, compute the gradients under tf.GradientTape, and call apply_gradients(zip(gradients, "
        "variables)). Otherwise, use optimizer.variables, optimizer.build(variables) and optimizer.learning_rate. To "
        "restore a model with its optimizer, call load_model in the scope. With --keras 2, tf.keras.optimizers.legacy "
        "has the old names.",
        example=_ONE,
    ),
    Row(
        "uses-horovod",
        "ModuleNotFoundError: No module named 'horovod'",
        r"ModuleNotFoundError: No module named '(?P<module>horovod|mpi4py|byteps|tensorflowonspark|smdistributed"
        r"|spark_tensorflow_distributor|sparkdl|elephas|distkeras|raydp)\b",
        "The program uses {module}, which is not installed. {module} does not read TF_CONFIG, so it cannot connect "
        "clusterkit's tasks.",
        "Use tf.distribute.MultiWorkerMirroredStrategy() instead, for example instead of hvd.init() and "
        "hvd.DistributedOptimizer(…).",
        example=_TWO,
    ),
    Row(
        "add-metric",
        "NotImplementedError: Layer `add_metric()` method is deprecated.",
        r"`add_metric\(\)` method is deprecated|object has no attribute 'add_update'",
        "{line} calls add_metric or add_update, which Keras 3 does not have.",
        "Create a tf.keras.metrics.Mean() in __init__, and call its update_state, or run the job with --keras 2.",
        example=_ONE,
    ),
    Row(
        "keras-tensor",
        "ValueError: A KerasTensor cannot be used as input to a TensorFlow function.",
        r"A KerasTensor cannot be used as input to a TensorFlow function",
        "{line} calls a TensorFlow function on the input of a functional model, which is not a tensor in Keras 3.",
        "Use keras.ops, as in keras.ops.sum(x), or call the function in a layer, or run the job with --keras 2.",
        example=_ONE,
    ),
    Row(
        "name-of-a-weight",
        "ValueError: `name` must be passed as a keyword argument. Received: add_weight('kernel', ...)",
        r"`name` must be passed as a keyword argument\. Received: add_weight"
        r"|add_weight\(\) got multiple values for argument 'shape'"
        r"|Cannot convert '\w+' to a shape\. Found invalid dimension '\w'",
        "{line} passes a name as the first argument of add_weight, but add_weight of Keras 3 takes the shape first.",
        "Write self.add_weight(name='kernel', shape=…), with all arguments named. In a metric, a single number has "
        "shape=().",
        example=_ONE,
    ),
    Row(
        "layer-arguments",
        "ValueError: Unrecognized keyword arguments passed to LSTM: {{'batch_input_shape': …}}",
        r"Unrecognized keyword arguments passed to (?P<layer>\w+): \{'(?P<argument>batch_input_shape|input_length|"
        r"weights|input_dim|input_shape|autocast|dynamic|mask_zero|fused|virtual_batch_size|adjustment)'",
        "{layer} of Keras 3 has no argument {argument}.",
        "Leave {argument} out. Begin the model with tf.keras.Input(batch_shape=…) or Input(shape=…), and call "
        "set_weights after the layer is built, or run the job with --keras 2.",
        example=_ONE,
    ),
    Row(
        "callback-arguments",
        "TypeError: ModelCheckpoint.__init__() got an unexpected keyword argument 'period'",
        r"TypeError: (?P<callback>ModelCheckpoint|TensorBoard|EarlyStopping|ReduceLROnPlateau)\.__init__\(\) got an "
        r"unexpected keyword argument '(?P<argument>\w+)'",
        "{callback} of Keras 3 has no argument {argument}.",
        "Leave {argument} out. Instead of period of ModelCheckpoint, pass save_freq='epoch' or a number of batches.",
        example=_ONE,
    ),
    Row(
        "private-callbacks",
        "AttributeError: 'CallbackList' object has no attribute '_call_begin_hook'",
        r"AttributeError: 'CallbackList' object has no attribute '(?P<name>_\w+)'",
        "{line} uses {name}, a private name of another version of Keras.",
        "Call the public methods: callbacks.on_train_begin(), callbacks.on_epoch_end(epoch, logs) and so on.",
        reported=("tensorflow/tensorflow#40374",),
        example=_TWO,
    ),
    Row(
        "own-optimizer",
        "ValueError: Argument `learning_rate` should be float … Received instead: learning_rate=MyOptimizer",
        r"ValueError: Argument `learning_rate` should be float(?s:.{0,300}?)Received instead: learning_rate=[A-Za-z]",
        "{line} defines an optimizer for an older Keras. The constructor of a Keras 3 optimizer takes the learning "
        "rate first, and the optimizer calls other methods.",
        "Run the job with --keras 2, and derive the class from tf.keras.optimizers.legacy.Optimizer. Or pass "
        "learning_rate=… and name=…, and write build(self, variables) and update_step(self, gradient, variable, "
        "learning_rate) instead of _create_slots and _resource_apply_dense.",
        when=calling(r"super\("),
        reported=("tensorflow/addons#2525",),
        example=_ONE,
    ),
    Row(
        "arguments-of-a-weight",
        "ValueError: Invalid value for argument `aggregation`. Expected one of `None`, `'none'`, `'mean'`, `'sum'`, …",
        r"Invalid value for argument `(?:aggregation|synchronization)`\. Expected one of"
        r"|add_(?:weight|variable)\(\) got an unexpected keyword argument",
        "{line} creates a weight with arguments of Keras 2, such as TensorFlow's aggregations, synchronization or "
        "use_resource.",
        "Write self.add_weight(name='total', shape=(), initializer='zeros', trainable=False, aggregation='mean'). In "
        "Keras 3, the aggregation is a string ('mean', 'sum', 'only_first_replica'), and the other arguments are "
        "gone. Or run the job with --keras 2.",
        example=_ONE,
    ),
)
