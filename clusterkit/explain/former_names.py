"""The names that were removed from TensorFlow after version 1, from Keras after version 2, and from NumPy after 1."""

NAMES = """
keras: dtensor engine estimator experimental objectives saving
keras.backend: experimental function get_graph get_session image_dim_ordering in_test_phase in_train_phase
  learning_phase learning_phase_scope local_conv1d local_conv2d manual_variable_initialization
  normalize_batch_in_training placeholder print_tensor random_binomial reset_uids set_image_dim_ordering
  set_learning_phase set_session tensorflow_backend
keras.callbacks: BaseLogger SidecarEvaluatorModelExport experimental
keras.constraints: RadialConstraint radial_constraint
keras.layers: AbstractRNNCell BatchNormalizationV1 BatchNormalizationV2 CuDNNGRU CuDNNLSTM DenseFeatures
  LocallyConnected1D LocallyConnected2D SequenceFeatures StackedRNNCells_v2 SyncBatchNormalization convolutional core
  experimental merge normalization recurrent
keras.losses: kl_divergence log_cosh mean_absolute_error mean_absolute_percentage_error mean_squared_error
  mean_squared_logarithmic_error
keras.metrics: MeanRelativeError MeanTensor experimental kl_divergence log_cosh mean_absolute_error
  mean_absolute_percentage_error mean_squared_error mean_squared_logarithmic_error
keras.mixed_precision: experimental
keras.models: experimental model_from_config model_from_yaml
keras.optimizers: TFOptimizer adadelta adagrad adam adam_v2 adamax experimental gradient_descent_v2 nadam optimizer_v2
  rmsprop sgd
keras.optimizers.legacy: Adadelta Adamax Nadam
keras.utils: GeneratorEnqueuer OrderedEnqueuer SequenceEnqueuer SidecarEvaluator StepsPerExecutionTuner TimedThread
  conv_utils data_utils experimental generic_utils layer_utils multi_gpu_model multi_gpu_utils np_utils to_ordinal
  training_utils warmstart_embedding_matrix
tensorflow: AUTO_REUSE ConditionalAccumulator ConditionalAccumulatorBase ConfigProto Dimension Event FIFOQueue
  FixedLenFeature FixedLenSequenceFeature FixedLengthRecordReader GIT_VERSION GPUOptions GraphDef GraphKeys
  GraphOptions IdentityReader InteractiveSession LMDBReader MetaGraphDef NoGradient NodeDef NotDifferentiable OpError
  OptimizerOptions PaddingFIFOQueue Print PriorityQueue QUANTIZED_DTYPES QueueBase RandomShuffleQueue ReaderBase
  RunMetadata RunOptions Session SparseConditionalAccumulator SparseFeature SparseTensorValue Summary TFRecordReader
  TextLineReader VERSION VarLenFeature VariableScope WholeFileReader accumulate_n add_check_numerics_ops
  add_to_collection add_to_collections all_variables angle app arg_max arg_min assert_greater_equal assert_integer
  assert_less_equal assert_near assert_negative assert_non_negative assert_non_positive assert_none_equal
  assert_positive assert_rank_at_least assert_rank_in assert_scalar assert_type assert_variables_initialized assign
  assign_add assign_sub batch_gather bincount ceil check_numerics cholesky cholesky_solve clip_by_average_norm
  colocate_with confusion_matrix conj container convert_to_tensor_or_indexed_slices convert_to_tensor_or_sparse_tensor
  count_nonzero count_up_to create_partitioned_variables cross cumprod decode_base64 decode_compressed decode_csv
  decode_json_example decode_raw deserialize_many_sparse diag diag_part dimension_at_index dimension_value
  disable_eager_execution disable_resource_variables disable_tensor_equality disable_v2_behavior distributions div
  div_no_nan enable_eager_execution enable_resource_variables enable_tensor_equality enable_v2_behavior encode_base64
  erf erfc executing_eagerly_outside_functions expm1 extract_image_patches fixed_size_partitioner flags floor_div
  floordiv floormod get_collection get_collection_ref get_default_graph get_default_session get_local_variable
  get_seed get_variable get_variable_scope gfile global_norm global_variables global_variables_initializer
  glorot_normal_initializer glorot_uniform_initializer imag initialize_all_tables initialize_all_variables
  initialize_local_variables initialize_variables invert_permutation is_finite is_inf is_nan is_numeric_tensor
  is_variable_initialized layers lgamma lin_space load_file_system_library local_variables local_variables_initializer
  log log1p log_sigmoid logging logical_xor make_template matching_files matrix_band_part matrix_determinant
  matrix_diag matrix_diag_part matrix_inverse matrix_set_diag matrix_solve matrix_solve_ls matrix_transpose
  matrix_triangular_solve min_max_variable_partitioner mixed_precision mod model_variables moving_average_variables
  multinomial no_regularizer op_scope orthogonal_initializer parse_example parse_single_example
  parse_single_sequence_example parse_tensor placeholder placeholder_with_default py_func python_io qr random_crop
  random_gamma random_normal random_poisson random_shuffle random_uniform read_file real reciprocal reduce_join
  regex_replace report_uninitialized_variables reset_default_graph resource_loader resource_variables_enabled
  reverse_v2 rint rsqrt scatter_add scatter_div scatter_max scatter_min scatter_mul scatter_sub scatter_update
  segment_max segment_mean segment_min segment_prod segment_sum self_adjoint_eig self_adjoint_eigvals
  serialize_many_sparse serialize_sparse serialize_tensor set_random_seed setdiff1d sparse_add sparse_concat
  sparse_fill_empty_rows sparse_mask sparse_matmul sparse_maximum sparse_merge sparse_minimum sparse_placeholder
  sparse_reorder sparse_reset_shape sparse_reshape sparse_retain sparse_slice sparse_softmax sparse_split
  sparse_tensor_dense_matmul sparse_tensor_to_dense sparse_to_dense sparse_to_indicator sparse_transpose spectral
  squared_difference string_join string_split string_strip string_to_hash_bucket string_to_hash_bucket_fast
  string_to_hash_bucket_strong string_to_number substr svd tables_initializer tensor_scatter_add tensor_scatter_sub
  tensor_scatter_update to_bfloat16 to_complex128 to_complex64 to_double to_float to_int32 to_int64 trace
  trainable_variables truncated_normal truncated_normal_initializer uniform_unit_scaling_initializer
  unsorted_segment_max unsorted_segment_mean unsorted_segment_min unsorted_segment_prod unsorted_segment_sum
  variable_axis_size_partitioner variable_op_scope variable_scope variables_initializer variance_scaling_initializer
  verify_tensor_all_finite where_v2 wrap_function write_file
tensorflow.data: get_output_classes get_output_shapes get_output_types make_initializable_iterator
  make_one_shot_iterator
tensorflow.data.experimental: map_and_batch_with_legacy_function
tensorflow.debugging: is_finite is_inf is_nan
tensorflow.distribute: get_loss_reduction
tensorflow.dtypes: as_string
tensorflow.experimental: output_all_intermediates
tensorflow.feature_column: input_layer linear_model shared_embedding_columns
tensorflow.graph_util: convert_variables_to_constants extract_sub_graph must_run_on_cpu remove_training_nodes
  tensor_shape_from_node_def_name
tensorflow.image: extract_image_patches resize_area resize_bicubic resize_bilinear resize_image_with_crop_or_pad
  resize_image_with_pad resize_images resize_nearest_neighbor transpose_image
tensorflow.initializers: global_variables local_variables tables_initializer uniform_unit_scaling variables
tensorflow.io: PaddingFIFOQueue PriorityQueue QueueBase RandomShuffleQueue TFRecordCompressionType tf_record_iterator
tensorflow.linalg: transpose
tensorflow.losses: absolute_difference add_loss compute_weighted_loss cosine_distance get_losses
  get_regularization_loss get_regularization_losses get_total_loss hinge_loss huber_loss log_loss
  mean_pairwise_squared_error mean_squared_error sigmoid_cross_entropy softmax_cross_entropy
  sparse_softmax_cross_entropy
tensorflow.metrics: accuracy auc average_precision_at_k false_negatives false_positives mean mean_absolute_error
  mean_cosine_distance mean_iou mean_per_class_accuracy mean_relative_error mean_squared_error mean_tensor
  percentage_below precision precision_at_k precision_at_top_k recall recall_at_k recall_at_top_k
  root_mean_squared_error sensitivity_at_specificity sparse_average_precision_at_k sparse_precision_at_k
  specificity_at_sensitivity true_negatives true_positives
tensorflow.nn: avg_pool_v2 bidirectional_dynamic_rnn ctc_beam_search_decoder_v2 ctc_loss_v2 depthwise_conv2d_native
  dynamic_rnn fused_batch_norm log_uniform_candidate_sampler max_pool_v2 raw_rnn relu_layer rnn_cell
  softmax_cross_entropy_with_logits_v2 static_bidirectional_rnn static_rnn static_state_saving_rnn
  uniform_candidate_sampler xw_plus_b
tensorflow.ragged: RaggedTensorValue constant_value placeholder
tensorflow.random: get_seed multinomial set_random_seed stateless_multinomial
tensorflow.saved_model: Builder build_signature_def build_tensor_info builder classification_signature_def constants
  get_tensor_from_tensor_info is_valid_signature load_v2 loader predict_signature_def regression_signature_def
  signature_constants signature_def_utils simple_save tag_constants utils
tensorflow.saved_model.experimental: save
tensorflow.sparse: SparseConditionalAccumulator matmul merge placeholder reduce_max_sparse reduce_sum_sparse
tensorflow.summary: Event FileWriter FileWriterCache Summary SummaryDescription TaggedRunMetadata all_v2_summary_ops
  get_summary_description initialize merge merge_all tensor_summary
tensorflow.tpu: CrossShardOptimizer batch_parallel core cross_replica_sum initialize_system replicate rewrite shard
  shutdown_system
tensorflow.tpu.experimental: embedding_column shared_embedding_columns
tensorflow.train: AdadeltaOptimizer AdagradDAOptimizer AdagradOptimizer AdamOptimizer CheckpointSaverHook
  CheckpointSaverListener ChiefSessionCreator FeedFnHook FinalOpsHook FtrlOptimizer GlobalStepWaiterHook
  GradientDescentOptimizer LoggingTensorHook LooperThread MomentumOptimizer MonitoredSession MonitoredTrainingSession
  NanLossDuringTrainingError NanTensorHook NewCheckpointReader Optimizer ProfilerHook ProximalAdagradOptimizer
  ProximalGradientDescentOptimizer QueueRunner RMSPropOptimizer Saver SaverDef Scaffold SecondOrStepTimer Server
  SessionCreator SessionManager SessionRunArgs SessionRunContext SessionRunHook SessionRunValues
  SingularMonitoredSession StepCounterHook StopAtStepHook SummarySaverHook Supervisor SyncReplicasOptimizer VocabInfo
  WorkerSessionCreator add_queue_runner assert_global_step basic_train_loop batch batch_join checkpoint_exists
  cosine_decay cosine_decay_restarts create_global_step exponential_decay export_meta_graph
  generate_checkpoint_state_proto get_checkpoint_mtimes get_global_step get_or_create_global_step global_step
  import_meta_graph init_from_checkpoint input_producer inverse_time_decay limit_epochs linear_cosine_decay
  match_filenames_once natural_exp_decay noisy_linear_cosine_decay piecewise_constant piecewise_constant_decay
  polynomial_decay queue_runner remove_checkpoint replica_device_setter shuffle_batch shuffle_batch_join
  slice_input_producer start_queue_runners string_input_producer summary_iterator update_checkpoint_state warm_start
  write_graph
tensorflow.train.experimental: DynamicLossScale FixedLossScale LossScale MixedPrecisionLossScaleOptimizer
  disable_mixed_precision_graph_rewrite enable_mixed_precision_graph_rewrite
numpy: DataSource Inf Infinity NINF NaN PINF alltrue asfarray asscalar bool8 byte_bounds cast complex complex_
  cumproduct deprecate disp find_common_type float float_ in1d infty int int0 issctype issubclass_ issubsctype lookfor
  mat maximum_sctype msort nbytes obj2sctype object object0 product recfromcsv round_ safe_eval sctypes
  set_string_function sometrue source str str0 string_ trapz typeDict uint0 unicode unicode_ who
"""  # a paragraph for each module that still exists, with the names that were removed from it

OLDER = """
keras: engine objectives
keras.backend: get_graph get_session image_dim_ordering set_image_dim_ordering set_session tensorflow_backend
keras.layers: BatchNormalizationV1 BatchNormalizationV2 CuDNNGRU CuDNNLSTM SequenceFeatures StackedRNNCells_v2
  SyncBatchNormalization convolutional core merge normalization recurrent
keras.mixed_precision: experimental
keras.optimizers: TFOptimizer adadelta adagrad adam adam_v2 adamax gradient_descent_v2 nadam optimizer_v2 rmsprop sgd
keras.utils: conv_utils data_utils generic_utils layer_utils multi_gpu_model multi_gpu_utils np_utils training_utils
"""  # the names in NAMES that tf_keras, the last Keras 2, does not have either

REPLACED = """
tf.app: absl.app
tf.assert_rank_in: tf.debugging.assert_rank_in
tf.assign: variable.assign(value)
tf.assign_add: variable.assign_add(value)
tf.ceil: tf.math.ceil
tf.ConfigProto: tf.compat.v1.ConfigProto
tf.count_nonzero: tf.math.count_nonzero
tf.decode_csv: tf.io.decode_csv
tf.decode_raw: tf.io.decode_raw
tf.div: tf.math.divide
tf.FixedLenFeature: tf.io.FixedLenFeature
tf.flags: absl.flags
tf.get_variable: tf.Variable, created in strategy.scope()
tf.gfile: tf.io.gfile
tf.global_variables_initializer: nothing, since variables are initialized when they are created
tf.GPUOptions: tf.config.experimental.set_memory_growth(gpu, True)
tf.image.resize_bilinear: tf.image.resize
tf.image.resize_images: tf.image.resize
tf.layers: tf.keras.layers
tf.log: tf.math.log
tf.logging: the package absl.logging
tf.losses.mean_squared_error: tf.keras.losses.MeanSquaredError()
tf.losses.softmax_cross_entropy: tf.keras.losses.CategoricalCrossentropy(from_logits=True)
tf.losses.sparse_softmax_cross_entropy: tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True)
tf.matrix_inverse: tf.linalg.inv
tf.parse_example: tf.io.parse_example
tf.parse_single_example: tf.io.parse_single_example
tf.placeholder: an argument of a @tf.function
tf.python_io: tf.io
tf.random_normal: tf.random.normal
tf.random_uniform: tf.random.uniform
tf.read_file: tf.io.read_file
tf.set_random_seed: tf.random.set_seed
tf.summary.FileWriter: tf.summary.create_file_writer
tf.summary.merge_all: nothing, since tf.summary.scalar writes to the default writer
tf.TFRecordReader: tf.data.TFRecordDataset
tf.to_float: tf.cast(x, tf.float32)
tf.to_int32: tf.cast(x, tf.int32)
tf.to_int64: tf.cast(x, tf.int64)
tf.train.AdagradOptimizer: tf.keras.optimizers.Adagrad
tf.train.AdamOptimizer: tf.keras.optimizers.Adam
tf.train.FtrlOptimizer: tf.keras.optimizers.Ftrl
tf.train.get_or_create_global_step: optimizer.iterations
tf.train.GradientDescentOptimizer: tf.keras.optimizers.SGD
tf.train.MomentumOptimizer: tf.keras.optimizers.SGD(rate, momentum=0.9)
tf.train.MonitoredTrainingSession: fit or a loop with strategy.run, and clusterkit.training.Checkpointer
tf.train.replica_device_setter: ParameterServerStrategy, which places variables by itself
tf.train.RMSPropOptimizer: tf.keras.optimizers.RMSprop
tf.train.Saver: tf.train.Checkpoint
tf.train.Server: tf.distribute.Server
tf.train.Supervisor: clusterkit.training.Checkpointer
tf.train.SyncReplicasOptimizer: MultiWorkerMirroredStrategy, whose workers train in step
tf.truncated_normal: tf.random.truncated_normal
tf.variable_scope: tf.name_scope, and tf.Variable instead of tf.get_variable
tf.VarLenFeature: tf.io.VarLenFeature
tf.keras.experimental: tf.keras.optimizers.schedules.CosineDecay instead of tf.keras.experimental.CosineDecay, and \
tf.keras.layers.TFSMLayer(path, call_endpoint='serving_default') instead of load_from_saved_model
tf.keras.layers.CuDNNGRU: tf.keras.layers.GRU, which uses cuDNN by itself
tf.keras.layers.CuDNNLSTM: tf.keras.layers.LSTM, which uses cuDNN by itself
tf.keras.layers.SyncBatchNormalization: tf.keras.layers.BatchNormalization(synchronized=True)
tf.keras.metrics.mean_squared_error: tf.keras.metrics.MeanSquaredError()
tf.keras.losses.mean_squared_error: tf.keras.losses.MeanSquaredError()
tf.keras.mixed_precision.experimental: tf.keras.mixed_precision.set_global_policy('mixed_float16') instead of \
set_policy, and tf.keras.mixed_precision.LossScaleOptimizer(optimizer) instead of experimental.LossScaleOptimizer
tf.keras.optimizers.adam_v2: tf.keras.optimizers.Adam
tf.keras.optimizers.gradient_descent_v2: tf.keras.optimizers.SGD
tf.keras.objectives: tf.keras.losses
tf.keras.utils.np_utils: from tensorflow.keras.utils import to_categorical
"""  # a line for each name, with the code to write instead
