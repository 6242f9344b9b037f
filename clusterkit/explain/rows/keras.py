"""Rows about Keras: removed names (Keras 2, TensorFlow 1), the strategy's scope, files, losses and optimizers."""

from __future__ import annotations

from clusterkit.explain.frames import through
from clusterkit.explain.row import Row

_TWO = ("--workers", "2")
_OPTIMIZERS = "SGD|Adam|AdamW|Adamax|Nadam|RMSprop|Adagrad|Adadelta|Adafactor|Ftrl|Lion|Lamb|Muon|LossScaleOptimizer"

ROWS: tuple[Row, ...] = (
    Row(
        "optimizer-outside-the-scope",
        "RuntimeError: Mixing different tf.distribute.Strategy objects",
        r"RuntimeError: (?:Mixing different|Mismatching) tf\.distribute\.Strategy objects",
        "{line} uses a model, optimizer or metric that was created outside the strategy's scope, or in the scope of "
        "another strategy. Each call of a strategy's class creates a new strategy.",
        "Create only one strategy. In `with strategy.scope():`, create the model, the optimizer and the metrics, and "
        "call optimizer.build(model.trainable_variables).",
        reported=("tensorflow/tensorflow#35601", "GoogleCloudPlatform/practical-ml-vision-book#19"),
        example=_TWO,
    ),
    Row(
        "model-outside-the-scope",
        "AssertionError in distribution.extended.update, from the optimizer of Keras 3",
        r"^AssertionError$",
        "The model was created outside the scope in which it was compiled, so its variables do not belong to the "
        "strategy.",
        "Create the model inside `with strategy.scope():`, too.",
        when=through("/keras/src/backend/tensorflow/optimizer.py"),
        example=_TWO,
        over=("no-scope",),
    ),
    Row(
        "loss-reduction",
        "ValueError: Please use `tf.keras.losses.Reduction.SUM` or `tf.keras.losses.Reduction.NONE`",
        r"ValueError: Please use `tf\.keras\.losses\.Reduction\.SUM` or",
        "Outside fit, Keras 2 cannot average a loss over all replicas.",
        "Use reduction='none', and divide the sum of the losses by the global batch size. tf.nn.compute_average_loss "
        "computes this quotient.",
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
        "{line} creates a layer with stateful=True under a strategy, which Keras 2 does not support. Such a layer "
        "keeps the state of each row for the next batch, but another replica may get the next batch's row.",
        "Leave stateful=True out, or train without a strategy, in one process.",
        reported=("tensorflow/tensorflow#33072",),
        example=(*_TWO, "--keras", "2"),
    ),
    Row(
        "gradients-in-a-condition",
        "RuntimeError: `merge_call` called while defining a new graph or a tf.function",
        r"`merge_call` called while defining a new graph"
        r"|Some replicas made a different number of replica_context\(\)\.merge_call\(\) calls",
        "{line} applies gradients, or sums up other values over the replicas, in a condition, a loop or an inner "
        "tf.function of a step, which TensorFlow does not support.",
        "Move the condition or loop out of the function that strategy.run calls, or multiply the gradients by 0 or 1 "
        "instead. Remove @tf.function from inner functions.",
        reported=("tensorflow/tensorflow#59487", "tensorflow/models#9972", "TensorSpeech/TensorFlowTTS#449"),
        example=_TWO,
    ),
    Row(
        "two-kerases",
        "ValueError: Only instances of `keras.Layer` can be added to a Sequential model",
        r"ValueError: Only instances of `keras\.Layer` can be added(?s:.{0,300}?)'(?P<type>tf_keras|tensorflow_hub)\.",
        "The layer is a Keras 2 layer (from {type}), but the model is a Keras 3 model.",
        "Run the job with --keras 2, which makes tf.keras the same as tf_keras.",
        reported=("tensorflow/hub#920", "tensorflow/tensorflow#63849", "tensorflow/tensorflow#65419"),
        example=_TWO,
    ),
    Row(
        "dataset-creator",
        "AttributeError: module 'keras.utils' has no attribute 'experimental' (DatasetCreator)",
        r"AttributeError: module '(?:tensorflow\.)?keras[\w.]*\.utils' has no attribute '(?:experimental"
        r"|DatasetCreator)'"
        r"|No module named 'tensorflow\.keras\.utils\.experimental'",
        "{line} uses DatasetCreator, which exists only in Keras 2, because only fit of Keras 2 supports parameter "
        "servers.",
        "Run the job with --keras 2.",
        reported=("tensorflow/tensorflow#55668",),
        example=("--workers", "1", "--ps", "1", "--servers", "builtin"),
    ),
    Row(
        "sidecar-evaluator",
        "AttributeError: module 'keras.utils' has no attribute 'SidecarEvaluator'",
        r"AttributeError: module '(?:tensorflow\.)?keras[\w.]*' has no attribute 'SidecarEvaluator'",
        "{line} uses SidecarEvaluator, which exists only in Keras 2.",
        "Run the job with --keras 2, or write a loop in the evaluator that loads and evaluates each new checkpoint.",
        example=_TWO,
    ),
    Row(
        "experimental-layers",
        "AttributeError: module 'keras._tf_keras.keras.layers' has no attribute 'experimental'",
        r"AttributeError: module '(?:tensorflow\.)?keras[\w.]*\.layers' has no attribute 'experimental'"
        r"|No module named 'tensorflow\.keras\.layers\.experimental'",
        "{line} uses the name that a layer had in Keras 2.",
        "Run the job with --keras 2, or leave `experimental` and `preprocessing` out of the name, as in "
        "tf.keras.layers.Rescaling. For SyncBatchNormalization, write BatchNormalization(synchronized=True).",
        reported=("tensorflow/tensorflow#64349", "tensorflow/models#13495"),
        example=_TWO,
    ),
    Row(
        "legacy-optimizers",
        "ImportError: `keras.optimizers.legacy` is not supported in Keras 3",
        r"ImportError: `keras\.optimizers\.legacy` is not supported in Keras 3",
        "{line} uses an optimizer that exists only in Keras 2.",
        "Run the job with --keras 2, or write tf.keras.optimizers instead of tf.keras.optimizers.legacy.",
        reported=("amaiya/ktrain#525", "deepchem/deepchem#4564"),
        example=_TWO,
    ),
    Row(
        "optimizer-lr",
        "AttributeError: 'Adam' object has no attribute 'lr'",
        rf"AttributeError: '(?P<optimizer>{_OPTIMIZERS})' object has no attribute 'lr'",
        "The learning rate of an optimizer is called learning_rate in Keras 3. Keras 2 called it lr.",
        "Write optimizer.learning_rate, or run the job with --keras 2.",
        reported=("tensorflow/docs#2328",),
        example=_TWO,
    ),
    Row(
        "optimizer-arguments",
        "ValueError: Argument(s) not recognized: {'lr': 0.01}",
        r"ValueError: Argument\(s\) not recognized: \{'(?:lr|decay|schedule_decay|momentum|rho|clipnorm|clipvalue"
        r")'|\w+ is deprecated in the new (?:TF-)?Keras optimizer",
        "{line} passes an argument that optimizers of the installed Keras do not have. Older optimizers had lr and "
        "decay.",
        "Write learning_rate instead of lr, and a schedule such as ExponentialDecay instead of decay. Or run the job "
        "with --keras 2 and use tf.keras.optimizers.legacy, which accepts lr and decay.",
        reported=("philipperemy/keras-tcn#284", "GantMan/nsfw_model#164"),
        example=_TWO,
    ),
    Row(
        "experimental-arguments",
        "TypeError: Trainer.compile() got an unexpected keyword argument 'experimental_run_tf_function'",
        r"TypeError: \w+\.(?P<method>compile|apply_gradients|minimize)\(\) got an unexpected keyword argument "
        r"'(?P<argument>experimental_\w+|skip_gradients_aggregation|name|global_step|cloning|"
        r"sample_weight_mode|target_tensors)'",
        "{method} of Keras 3 has no argument {argument}, which an older Keras had (for Horovod, for example).",
        "Leave {argument} out, or run the job with --keras 2. Keras 3 itself sums the gradients over the replicas, so "
        "remove code that sums them before apply_gradients.",
        example=_TWO,
    ),
    Row(
        "compile-with-distribute",
        "TypeError: Trainer.compile() got an unexpected keyword argument 'distribute'",
        r"TypeError: \w+\.compile\(\) got an unexpected keyword argument 'distribute'"
        r"|ValueError: `distribute` argument in compile is not available in TF 2\.0",
        "The argument distribute of compile was removed in TensorFlow 2.0.",
        "Leave distribute out, and create and compile the model inside `with strategy.scope():`.",
        example=("--workers", "1"),
    ),
    Row(
        "fit-with-workers",
        "TypeError: TensorFlowTrainer.fit() got an unexpected keyword argument 'workers'",
        r"TypeError: \w+\.(?P<method>fit|evaluate|predict)\(\) got an unexpected keyword argument "
        r"'(?P<argument>workers|use_multiprocessing|max_queue_size)'",
        "{method} of Keras 3 has no argument {argument}.",
        "Leave {argument} out of {method}. Pass workers, use_multiprocessing and max_queue_size to "
        "tf.keras.utils.PyDataset instead.",
        reported=("pythonlessons/mltu#60",),
        example=_TWO,
    ),
    Row(
        "save-without-suffix",
        "ValueError: Invalid filepath extension for saving",
        r"ValueError: Invalid filepath extension for saving\.(?s:.{0,400}?)filepath=(?P<path>\S+?)\.?$",
        "model.save of Keras 3 cannot write a directory, and {path} ends in neither .keras nor .h5.",
        "Call clusterkit.training.export(model) in every worker, which keeps the chief's model. Or use a path that "
        "ends in .keras, in an existing directory, and a different path in each worker.",
        example=_TWO,
    ),
    Row(
        "load-a-saved-model",
        "ValueError: File format not supported: filepath=… Keras 3 only supports V3 `.keras` files",
        r"ValueError: File format not supported: filepath=(?P<path>\S+?)\. Keras 3 only supports",
        "{path} is a SavedModel of Keras 2, or another file that load_model of Keras 3 cannot read.",
        "Run the job with --keras 2, load the SavedModel with tf.keras.layers.TFSMLayer, or save the model as .keras. "
        "Restore a checkpoint with tf.train.Checkpoint(model).restore(path).",
        reported=("keras-team/keras#18709", "cbrnr/sleepecg#214"),
        example=_TWO,
    ),
    Row(
        "weights-without-suffix",
        "ValueError: The filename must end in `.weights.h5`",
        r"ValueError: The filename must end in `\.weights\.h5`\. Received: filepath=(?P<path>\S+)",
        "save_weights of Keras 3 cannot write TensorFlow checkpoints, and {path} does not end in .weights.h5.",
        "Add .weights.h5 to the path, or use clusterkit.training.Checkpointer, which writes checkpoints.",
        example=_TWO,
    ),
    Row(
        "checkpoint-without-suffix",
        "ValueError: The filepath provided must end in `.keras` (Keras model format)",
        r"ValueError: (?:The filepath provided must end in|When using `save_weights_only=True` in `ModelCheckpoint`)"
        r"(?s:.{0,200}?)filepath=(?P<path>\S+)",
        "ModelCheckpoint of Keras 3 does not accept the suffix of {path}.",
        "End the path in .keras or, with save_weights_only=True, in .weights.h5.",
        reported=("ageron/handson-ml3#169",),
        example=_TWO,
        over=("shared-file",),
    ),
    Row(
        "backup-without-a-directory",
        "ValueError: Empty `backup_dir` argument passed",
        r"ValueError: Empty `backup_dir` argument passed",
        "BackupAndRestore has no directory to save to.",
        "Use clusterkit.training.Backup(), which saves in the run's checkpoint directory, or pass a directory to "
        "BackupAndRestore.",
        example=_TWO,
    ),
    Row(
        "two-learning-rate-schedules",
        "TypeError: This optimizer was created with a `LearningRateSchedule` object as its `learning_rate`",
        r"TypeError: This optimizer was created with a `LearningRateSchedule` object"
        r"|learning_rate\.assign\((?s:.{0,800}?)Tensor' object has no attribute 'assign'",
        "The program, or a callback such as LearningRateScheduler or ReduceLROnPlateau, sets the learning rate of an "
        "optimizer whose learning rate is a schedule.",
        "Remove the callback or the assignment, or create the optimizer with a number as its learning rate.",
        example=_TWO,
    ),
    Row(
        "experimental-run-v2",
        "AttributeError: 'CollectiveAllReduceStrategy' object has no attribute 'experimental_run_v2'",
        r"'\w+Strategy\w*' object has no attribute '(?P<name>experimental_run(?:_v2)?|make_\w+_iterator|"
        r"experimental_make_numpy_dataset|broadcast|update|(?:worker|parameter)_devices|between_graph|num_towers|"
        r"initialize|finalize|should_checkpoint|(?:call|read)_for_each_(?:tower|replica)|distribute_dataset|read_var|"
        r"unwrap|group|num_replicas|reduce_to|batch_reduce\w*|colocate_vars_with|run_steps_on_dataset|configure)'",
        "{name} exists only in TensorFlow 2.1 and earlier.",
        "Write strategy.run(step, args=(batch,)), with the batches of "
        "strategy.experimental_distribute_dataset(dataset). Instead of unwrap, use "
        "strategy.experimental_local_results(value). Instead of read_var, use the variable itself.",
        reported=("tensorflow/tensorflow#49187", "danijar/dreamer#50", "tensorflow/tensorflow#24863"),
        example=_TWO,
    ),
    Row(
        "communication-argument",
        "TypeError: CollectiveAllReduceStrategy.__init__() got an unexpected keyword argument 'communication'",
        r"Strategy\w*\.__init__\(\) got an unexpected keyword argument 'communication'"
        r"|communication_options must be an instance of|Argument `implementation` must be instance of",
        "{line} chooses how workers communicate with an argument that MultiWorkerMirroredStrategy of the installed "
        "TensorFlow does not accept.",
        "Write options = tf.distribute.experimental.CommunicationOptions(implementation="
        "tf.distribute.experimental.CommunicationImplementation.RING), then "
        "tf.distribute.MultiWorkerMirroredStrategy(communication_options=options).",
        example=_TWO,
    ),
    Row(
        "variable-outside-the-scope",
        "ValueError: `colocate_vars_with` must only be passed a variable created in this …Strategy.scope()",
        r"was not created in the distribution strategy scope of|Trying to create optimizer slot variable under the "
        r"scope for"
        r"|`colocate_vars_with` must only be passed a variable created in this tf\.distribute\.Strategy\.scope",
        "The model at {line}, or one of its variables, was created outside the scope of the strategy in which the "
        "model is compiled or its optimizer is used.",
        "Create the model, its layers, its variables (with tf.Variable or add_weight) and its optimizer inside `with "
        "strategy.scope():`, and restore checkpoints there.",
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
        "{what}s of a model must be created in the same scope as the model.",
        "Create the metric or optimizer inside `with strategy.scope():`, or pass its name: metrics=['mae'], "
        "optimizer='adam'.",
        example=(*_TWO, "--keras", "2"),
    ),
    Row(
        "backup-of-an-unbuilt-model",
        "ValueError: To use the BackupAndRestore callback, you model must be built before you call `fit()`",
        r"ValueError: To use the BackupAndRestore callback, you model must be built before",
        "BackupAndRestore restores variables, but the model at {line} has no variables yet, because its input shape "
        "is not known.",
        "Begin the model with tf.keras.Input(shape=…), or call model.build(input_shape) in the strategy's scope.",
        example=("--workers", "1", "--no-patches"),
    ),
)
