"""Rows about Keras: removed names (Keras 2, TensorFlow 1), the strategy's scope, files, losses and optimizers."""

from __future__ import annotations

from clusterkit.explain.frames import through
from clusterkit.explain.row import Row

_TWO = ("--workers", "2")
_OPTIMIZERS = "SGD|Adam|AdamW|Adamax|Nadam|RMSprop|Adagrad|Adadelta|Adafactor|Ftrl|Lion|Lamb|Muon|LossScaleOptimizer"

ROWS: tuple[Row, ...] = (
    Row(
        "per-replica-conversion",
        "ValueError: Attempt to convert a value (PerReplica:{…}) with an unsupported type … to a Tensor",
        r"ValueError: Attempt to convert a value \(PerReplica:",
        "fit, evaluate and predict of Keras 3 fail on several workers: they use a value per replica as one tensor.",
        "Run the job with clusterkit's patches, that is, without --no-patches, or with --keras 2.",
        when=through("/keras/src/"),
        reported=("keras-team/keras#20585", "ray-project/ray#47464", "keras-team/keras#20329"),
        example=(*_TWO, "--no-patches"),
        over=("per-replica-value-as-a-tensor",),
    ),
    Row(
        "optimizer-outside-the-scope",
        "RuntimeError: Mixing different tf.distribute.Strategy objects",
        r"RuntimeError: (?:Mixing different|Mismatching) tf\.distribute\.Strategy objects",
        "{line} uses a model, optimizer or metric that was made outside the strategy's scope, or in another "
        "strategy's: each call of a strategy's class makes another one.",
        "Create one strategy, make the model, the optimizer and the metrics inside `with strategy.scope():`, and call "
        "optimizer.build(model.trainable_variables) there.",
        reported=("tensorflow/tensorflow#35601", "GoogleCloudPlatform/practical-ml-vision-book#19"),
        example=_TWO,
    ),
    Row(
        "model-outside-the-scope",
        "AssertionError in distribution.extended.update, from the optimizer of Keras 3",
        r"^AssertionError$",
        "The model's variables are not the strategy's: the model was made outside the scope in which it was compiled.",
        "Make the model, too, inside `with strategy.scope():`.",
        when=through("/keras/src/backend/tensorflow/optimizer.py"),
        example=_TWO,
        over=("no-scope",),
    ),
    Row(
        "loss-reduction",
        "ValueError: Please use `tf.keras.losses.Reduction.SUM` or `tf.keras.losses.Reduction.NONE`",
        r"ValueError: Please use `tf\.keras\.losses\.Reduction\.SUM` or",
        "Outside fit, Keras 2 cannot average a loss over all replicas.",
        "Use reduction='none', and divide the sum by the global batch size: tf.nn.compute_average_loss does both.",
        reported=(
            "OpenNMT/OpenNMT-tf#526",
            "deepfakes/faceswap#1224",
            "tensorflow/tensorflow#31317",
            "tensorflow/tensorflow#58938",
        ),
        example=(*_TWO, "--keras", "2"),
    ),
    Row(
        "stateful-layers",
        "ValueError: Stateful RNNs (created with `stateful=True`) are not yet supported with tf.distribute.Strategy.",
        r"Stateful RNNs \(created with `stateful=True`\) are not yet supported with tf\.distribute\.Strategy",
        "{line} creates a layer with stateful=True under a strategy, which Keras 2 does not support: the layer keeps "
        "the state of each row for the next batch, whose rows other replicas may get.",
        "Leave stateful=True out, or train without a strategy, in one process.",
        reported=("tensorflow/tensorflow#33072",),
        example=(*_TWO, "--keras", "2"),
    ),
    Row(
        "gradients-in-a-condition",
        "RuntimeError: `merge_call` called while defining a new graph or a tf.function",
        r"`merge_call` called while defining a new graph"
        r"|Some replicas made a different number of replica_context\(\)\.merge_call\(\) calls",
        "{line} applies gradients, or sums something else over the replicas, in a condition, a loop or an inner "
        "tf.function of a step, which TensorFlow does not support.",
        "Move the condition out of the function that strategy.run calls, or multiply the gradients by 0 or 1 instead; "
        "remove an inner @tf.function.",
        reported=("tensorflow/tensorflow#59487", "tensorflow/models#9972", "TensorSpeech/TensorFlowTTS#449"),
        example=_TWO,
    ),
    Row(
        "two-kerases",
        "ValueError: Only instances of `keras.Layer` can be added to a Sequential model",
        r"ValueError: Only instances of `keras\.Layer` can be added(?s:.{0,300}?)'(?P<type>tf_keras|tensorflow_hub)\.",
        "The layer is one of Keras 2 (it comes from {type}), but the model is one of Keras 3.",
        "Run the job with --keras 2: tf.keras is tf_keras then.",
        reported=("tensorflow/hub#920", "tensorflow/tensorflow#63849", "tensorflow/tensorflow#65419"),
        example=_TWO,
    ),
    Row(
        "dataset-creator",
        "AttributeError: module 'keras.utils' has no attribute 'experimental' (DatasetCreator)",
        r"AttributeError: module '(?:tensorflow\.)?keras[\w.]*\.utils' has no attribute '(?:experimental"
        r"|DatasetCreator)'"
        r"|No module named 'tensorflow\.keras\.utils\.experimental'",
        "{line} uses DatasetCreator, which only Keras 2 has: only its fit supports parameter servers.",
        "Run the job with --keras 2.",
        reported=("tensorflow/tensorflow#55668",),
        example=("--workers", "1", "--ps", "1", "--servers", "builtin"),
    ),
    Row(
        "sidecar-evaluator",
        "AttributeError: module 'keras.utils' has no attribute 'SidecarEvaluator'",
        r"AttributeError: module '(?:tensorflow\.)?keras[\w.]*' has no attribute 'SidecarEvaluator'",
        "{line} uses SidecarEvaluator, which only Keras 2 has.",
        "Run the job with --keras 2, or let the evaluator's own loop load each new checkpoint and evaluate it.",
        example=_TWO,
    ),
    Row(
        "experimental-layers",
        "AttributeError: module 'keras._tf_keras.keras.layers' has no attribute 'experimental'",
        r"AttributeError: module '(?:tensorflow\.)?keras[\w.]*\.layers' has no attribute 'experimental'"
        r"|No module named 'tensorflow\.keras\.layers\.experimental'",
        "{line} uses a layer under the name that it had in Keras 2.",
        "Run the job with --keras 2, or leave out `experimental` and `preprocessing`: tf.keras.layers.Rescaling. For "
        "SyncBatchNormalization, write BatchNormalization(synchronized=True).",
        reported=("tensorflow/tensorflow#64349", "tensorflow/models#13495"),
        example=_TWO,
    ),
    Row(
        "legacy-optimizers",
        "ImportError: `keras.optimizers.legacy` is not supported in Keras 3",
        r"ImportError: `keras\.optimizers\.legacy` is not supported in Keras 3",
        "{line} uses an optimizer that only Keras 2 has.",
        "Run the job with --keras 2, or write tf.keras.optimizers without legacy.",
        reported=("amaiya/ktrain#525", "deepchem/deepchem#4564"),
        example=_TWO,
    ),
    Row(
        "optimizer-lr",
        "AttributeError: 'Adam' object has no attribute 'lr'",
        rf"AttributeError: '(?P<optimizer>{_OPTIMIZERS})' object has no attribute 'lr'",
        "The learning rate of an optimizer was called lr in Keras 2, and is called learning_rate in Keras 3.",
        "Write optimizer.learning_rate, or run the job with --keras 2.",
        reported=("tensorflow/docs#2328",),
        example=_TWO,
    ),
    Row(
        "optimizer-arguments",
        "ValueError: Argument(s) not recognized: {'lr': 0.01}",
        r"ValueError: Argument\(s\) not recognized: \{'\w+'|\w+ is deprecated in the new (?:TF-)?Keras optimizer",
        "{line} passes an argument of older optimizers: those of the installed Keras have neither lr nor decay.",
        "Write learning_rate for lr, and a schedule such as ExponentialDecay for decay; tf.keras.optimizers.legacy, "
        "with "
        "--keras 2, takes them.",
        reported=("philipperemy/keras-tcn#284", "GantMan/nsfw_model#164"),
        example=_TWO,
    ),
    Row(
        "experimental-arguments",
        "TypeError: Trainer.compile() got an unexpected keyword argument 'experimental_run_tf_function'",
        r"TypeError: \w+\.(?P<method>compile|apply_gradients|minimize)\(\) got an unexpected keyword argument "
        r"'(?P<argument>experimental_\w+|skip_gradients_aggregation|name|global_step|distribute|cloning|"
        r"sample_weight_mode|target_tensors)'",
        "{method} of Keras 3 has no argument {argument}: that was one of an older Keras, as for Horovod.",
        "Leave the argument out, or run the job with --keras 2. Keras 3 sums the gradients over the replicas by "
        "itself: a program that sums them before apply_gradients must leave that out, too. For distribute=strategy, "
        "make and compile the model in strategy.scope().",
        example=_TWO,
    ),
    Row(
        "fit-with-workers",
        "TypeError: TensorFlowTrainer.fit() got an unexpected keyword argument 'workers'",
        r"TypeError: \w+\.(?P<method>fit|evaluate|predict)\(\) got an unexpected keyword argument "
        r"'(?P<argument>workers|use_multiprocessing|max_queue_size)'",
        "{method} of Keras 3 has no argument {argument}.",
        "Leave it out of {method}; tf.keras.utils.PyDataset takes workers, use_multiprocessing and max_queue_size.",
        reported=("pythonlessons/mltu#60",),
        example=_TWO,
    ),
    Row(
        "save-without-suffix",
        "ValueError: Invalid filepath extension for saving",
        r"ValueError: Invalid filepath extension for saving\.(?s:.{0,400}?)filepath=(?P<path>\S+?)\.?$",
        "model.save of Keras 3 writes no directories: {path} ends in neither .keras nor .h5.",
        "Let every worker call clusterkit.training.export(model), which keeps the chief's; or write a path that ends "
        "in .keras, in a directory that exists, and another one for each worker.",
        example=_TWO,
    ),
    Row(
        "load-a-saved-model",
        "ValueError: File format not supported: filepath=… Keras 3 only supports V3 `.keras` files",
        r"ValueError: File format not supported: filepath=(?P<path>\S+?)\. Keras 3 only supports",
        "{path} is a SavedModel of Keras 2, or another file that load_model of Keras 3 cannot read.",
        "Run the job with --keras 2, load it with tf.keras.layers.TFSMLayer, or save the model as .keras; restore a "
        "checkpoint with tf.train.Checkpoint(model).restore(path).",
        reported=("keras-team/keras#18709", "cbrnr/sleepecg#214"),
        example=_TWO,
    ),
    Row(
        "weights-without-suffix",
        "ValueError: The filename must end in `.weights.h5`",
        r"ValueError: The filename must end in `\.weights\.h5`\. Received: filepath=(?P<path>\S+)",
        "save_weights of Keras 3 writes no TensorFlow checkpoints: {path} does not end in .weights.h5.",
        "Add .weights.h5 to the path, or use clusterkit.training.Checkpointer, which writes checkpoints.",
        example=_TWO,
    ),
    Row(
        "checkpoint-without-suffix",
        "ValueError: The filepath provided must end in `.keras` (Keras model format)",
        r"ValueError: (?:The filepath provided must end in|When using `save_weights_only=True` in `ModelCheckpoint`)"
        r"(?s:.{0,200}?)filepath=(?P<path>\S+)",
        "ModelCheckpoint of Keras 3 does not accept the suffix of {path}.",
        "End the path in .keras, or in .weights.h5 with save_weights_only=True.",
        reported=("ageron/handson-ml3#169",),
        example=_TWO,
        over=("shared-file",),
    ),
    Row(
        "backup-without-a-directory",
        "ValueError: Empty `backup_dir` argument passed",
        r"ValueError: Empty `backup_dir` argument passed",
        "BackupAndRestore has no directory to save to.",
        "Use clusterkit.training.Backup(), which saves in the run's checkpoint directory, or name a directory.",
        example=_TWO,
    ),
    Row(
        "two-learning-rate-schedules",
        "TypeError: This optimizer was created with a `LearningRateSchedule` object as its `learning_rate`",
        r"TypeError: This optimizer was created with a `LearningRateSchedule` object"
        r"|learning_rate\.assign\((?s:.{0,800}?)Tensor' object has no attribute 'assign'",
        "A callback, such as LearningRateScheduler or ReduceLROnPlateau, or the program itself, sets the learning rate "
        "of an optimizer that has a schedule of its own.",
        "Leave out the callback or the assignment, or make the optimizer with a number.",
        example=_TWO,
    ),
    Row(
        "experimental-run-v2",
        "AttributeError: 'CollectiveAllReduceStrategy' object has no attribute 'experimental_run_v2'",
        r"'\w+Strategy\w*' object has no attribute '(?P<name>experimental_run(?:_v2)?|make_\w+_iterator|"
        r"experimental_make_numpy_dataset|broadcast|update|(?:worker|parameter)_devices|between_graph|num_towers|"
        r"initialize|finalize|should_checkpoint|(?:call|read)_for_each_(?:tower|replica)|distribute_dataset|read_var|"
        r"unwrap|group|num_replicas|reduce_to|batch_reduce\w*|colocate_vars_with|run_steps_on_dataset|configure)'",
        "{name} is a name of TensorFlow 2.1 and earlier.",
        "strategy.run(step, args=(batch,)), with the batches of strategy.experimental_distribute_dataset(dataset); "
        "strategy.experimental_local_results(value) for unwrap, and the variable itself for read_var.",
        reported=("tensorflow/tensorflow#49187", "danijar/dreamer#50", "tensorflow/tensorflow#24863"),
        example=_TWO,
    ),
    Row(
        "communication-argument",
        "TypeError: CollectiveAllReduceStrategy.__init__() got an unexpected keyword argument 'communication'",
        r"Strategy\w*\.__init__\(\) got an unexpected keyword argument 'communication'"
        r"|communication_options must be an instance of|Argument `implementation` must be instance of",
        "{line} chooses how workers communicate in another way than MultiWorkerMirroredStrategy of the installed "
        "TensorFlow takes.",
        "options = tf.distribute.experimental.CommunicationOptions(implementation="
        "tf.distribute.experimental.CommunicationImplementation.RING); "
        "tf.distribute.MultiWorkerMirroredStrategy(communication_options=options)",
        example=_TWO,
    ),
    Row(
        "variable-outside-the-scope",
        "ValueError: `colocate_vars_with` must only be passed a variable created in this …Strategy.scope()",
        r"was not created in the distribution strategy scope of|Trying to create optimizer slot variable under the "
        r"scope for"
        r"|`colocate_vars_with` must only be passed a variable created in this tf\.distribute\.Strategy\.scope",
        "The model of {line}, or a variable of it, was made outside the scope of the strategy under which it is "
        "compiled "
        "or its optimizer is used.",
        "Make the model, its layers, its variables (with tf.Variable or add_weight) and its optimizer inside with "
        "strategy.scope(), and restore checkpoints there.",
        reported=(
            "tensorflow/hub#469",
            "tensorflow/tensorflow#36005",
            "tensorflow/tensorflow#32561",
            "huggingface/transformers#8448",
            "tensorflow/recommenders-addons#272",
            "dmonterom/face_recognition_TF2#4",
            "NVIDIA-Merlin/HugeCTR#387",
        ),
        example=_TWO,
    ),
    Row(
        "metric-outside-the-scope",
        "ValueError: Metric … passed to `model.compile` was created inside a different distribution strategy scope",
        r"ValueError: (?P<what>Metric|Optimizer) .* was created inside a different distribution strategy scope",
        "{what}s of a model have to be made in the scope in which the model was made.",
        "Make it inside `with strategy.scope():`, or pass its name: metrics=['mae'], optimizer='adam'.",
        example=(*_TWO, "--keras", "2"),
    ),
    Row(
        "backup-of-an-unbuilt-model",
        "ValueError: To use the BackupAndRestore callback, you model must be built before you call `fit()`",
        r"ValueError: To use the BackupAndRestore callback, you model must be built before",
        "BackupAndRestore restores variables, and the model of {line} has none yet: it does not know its input.",
        "Begin the model with tf.keras.Input(shape=…), or call model.build(input_shape) in the strategy's scope.",
        example=("--workers", "1", "--no-patches"),
    ),
)
