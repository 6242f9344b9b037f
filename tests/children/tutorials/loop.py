"""The form of the custom-loop tutorial: one of two ways to distribute a dataset, metrics, apply_gradients."""

import sys

import model_setup
import tensorflow as tf

GLOBAL_BATCH = 64

strategy = tf.distribute.MultiWorkerMirroredStrategy()
with strategy.scope():
    model = model_setup.build_and_compile_model()
    optimizer = tf.keras.optimizers.SGD(learning_rate=0.05)
    train_accuracy = tf.keras.metrics.SparseCategoricalAccuracy(name="train_accuracy")


def dataset_fn(context):
    batch = context.get_per_replica_batch_size(GLOBAL_BATCH)
    return model_setup.dataset(batch).shard(context.num_input_pipelines, context.input_pipeline_id)


if sys.argv[1] == "function":
    distributed = strategy.distribute_datasets_from_function(dataset_fn)
else:
    distributed = strategy.experimental_distribute_dataset(model_setup.dataset(GLOBAL_BATCH))


@tf.function
def train_step(iterator):
    def step_fn(inputs):
        x, y = inputs
        with tf.GradientTape() as tape:
            predictions = model(x, training=True)
            per_example = tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True, reduction="none")(
                y, predictions
            )
            loss = tf.nn.compute_average_loss(per_example, global_batch_size=GLOBAL_BATCH)
        gradients = tape.gradient(loss, model.trainable_variables)
        optimizer.apply_gradients(zip(gradients, model.trainable_variables))
        train_accuracy.update_state(y, predictions)
        return loss

    per_replica = strategy.run(step_fn, args=(next(iterator),))
    return strategy.reduce(tf.distribute.ReduceOp.SUM, per_replica, axis=None)


iterator = iter(distributed)
losses = []
for epoch in range(2):
    total = 0.0
    for _ in range(10):
        total += float(train_step(iterator))
    losses.append(total / 10)
    print(f"epoch {epoch}: loss {losses[-1]:.4f}, accuracy {float(train_accuracy.result()):.3f}")
    train_accuracy.reset_state()
print("loss fell", losses[1] < losses[0])
print("weights", f"{sum(float(tf.reduce_sum(w)) for w in model.trainable_variables):.5f}")
