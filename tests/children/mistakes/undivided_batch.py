"""The function makes batches of the global batch size, and each worker gets the whole of one."""

import tensorflow as tf

strategy = tf.distribute.MultiWorkerMirroredStrategy()
GLOBAL_BATCH_SIZE = 8 * strategy.num_replicas_in_sync


def dataset_fn(context):
    rows = tf.data.Dataset.from_tensor_slices(tf.ones((64, 4)))
    return rows.shard(context.num_input_pipelines, context.input_pipeline_id).batch(GLOBAL_BATCH_SIZE)


@tf.function
def train(x):
    return strategy.reduce("SUM", strategy.run(tf.reduce_sum, args=(x,)), axis=None)


for x in strategy.distribute_datasets_from_function(dataset_fn):
    print(float(train(x)) / 4, "rows in a step, and not", GLOBAL_BATCH_SIZE)
