"""The form of the migration guide's side-car evaluator: `fit` saves weights, and a task of its own evaluates them.

In their first attempt the workers wait at step 52: whoever is killed after step 50 dies there.
"""

import json
import os
import sys
import time

import tensorflow as tf

place = sys.argv[1]
EPOCHS, STEPS = 4, 20
task = json.loads(os.environ["TF_CONFIG"])["task"]


def make_data():
    x = tf.random.stateless_normal([640, 10], [1, 2])
    y = tf.cast(tf.reduce_mean(x, axis=1) > 0, tf.int64)
    return tf.data.Dataset.from_tensor_slices((x, y))


def make_model():
    model = tf.keras.models.Sequential([tf.keras.layers.Dense(8, "relu", input_shape=(10,)), tf.keras.layers.Dense(2)])
    loss = tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(tf.keras.optimizers.Adam(0.01), loss, metrics=["accuracy"])
    return model


def train():
    strategy = tf.distribute.MultiWorkerMirroredStrategy()
    with strategy.scope():
        model = make_model()
    dataset = make_data().shuffle(640).repeat().batch(32)
    callbacks = [
        tf.keras.callbacks.BackupAndRestore(os.path.join(place, "backup")),
        tf.keras.callbacks.ModelCheckpoint(os.path.join(place, "ckpt-{epoch}"), save_weights_only=True),
        tf.keras.callbacks.LambdaCallback(on_train_batch_end=lambda batch, logs: wait(model)),
    ]
    model.fit(dataset, epochs=EPOCHS, steps_per_epoch=STEPS, callbacks=callbacks, verbose=2)


def wait(model):
    if os.environ["CLUSTERKIT_ATTEMPT"] == "1" and model.optimizer.iterations.numpy() == 52:
        time.sleep(600)


def evaluate():
    evaluator = tf.keras.utils.SidecarEvaluator(
        model=make_model(),
        data=make_data().batch(64),
        checkpoint_dir=place,
        max_evaluations=EPOCHS,
        callbacks=[tf.keras.callbacks.TensorBoard(log_dir=os.path.join(place, "board"))],
    )
    evaluator.start()
    loss, accuracy = evaluator.model.evaluate(evaluator.data, verbose=0)
    print("evaluated", int(evaluator.model.optimizer.iterations), "accuracy is good", accuracy > 0.8)


if task["type"] == "evaluator":
    evaluate()
else:
    train()
