"""The form of the parameter-server tutorial with `fit`: DatasetCreator and callbacks, the coordinator's code alone."""

import os

import tensorflow as tf

cluster_resolver = tf.distribute.cluster_resolver.TFConfigClusterResolver()
strategy = tf.distribute.ParameterServerStrategy(cluster_resolver)


def dataset_fn(input_context):
    batch = input_context.get_per_replica_batch_size(64)
    x = tf.random.stateless_normal([512, 10], [1, 2])
    y = tf.cast(tf.reduce_mean(x, axis=1) > 0, tf.int64)
    dataset = tf.data.Dataset.from_tensor_slices((x, y)).shuffle(512).repeat()
    return dataset.shard(input_context.num_input_pipelines, input_context.input_pipeline_id).batch(batch).prefetch(2)


with strategy.scope():
    model = tf.keras.models.Sequential([tf.keras.layers.Dense(10), tf.keras.layers.Dense(2)])
    model.compile(
        tf.keras.optimizers.legacy.SGD(),
        loss=tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        steps_per_execution=10,
    )
working = os.environ["CLUSTERKIT_CHECKPOINT_DIR"]
callbacks = [
    tf.keras.callbacks.TensorBoard(log_dir=os.path.join(working, "log")),
    tf.keras.callbacks.ModelCheckpoint(filepath=os.path.join(working, "ckpt-{epoch}"), save_weights_only=True),
]
history = model.fit(
    tf.keras.utils.experimental.DatasetCreator(dataset_fn), epochs=3, steps_per_epoch=20, callbacks=callbacks, verbose=2
)
print("loss fell", history.history["loss"][-1] < history.history["loss"][0])
print("files", sorted(name for name in os.listdir(working) if name.endswith(".index")))
