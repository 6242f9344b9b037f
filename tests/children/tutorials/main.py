"""The form of the multi-worker Keras tutorial: TF_CONFIG gives the number of workers, `fit`, each worker saves."""

import json
import os
import sys

import model_setup
import tensorflow as tf

PER_WORKER_BATCH = 32

tf_config = json.loads(os.environ["TF_CONFIG"])
num_workers = len(tf_config["cluster"]["worker"])

strategy = tf.distribute.MultiWorkerMirroredStrategy()
dataset = model_setup.dataset(PER_WORKER_BATCH * num_workers)
with strategy.scope():
    model = model_setup.build_and_compile_model()
history = model.fit(dataset, epochs=2, steps_per_epoch=10, verbose=2)
print("loss fell", history.history["loss"][1] < history.history["loss"][0])


def is_chief(task_type, task_id):
    return task_type == "chief" or (task_type == "worker" and task_id == 0)


def own_directory(path, task_id, chief):
    """The real place for the chief, a temporary one beside it for everybody else."""
    return path if chief else os.path.join(path, f"workertemp_{task_id}")


task_type, task_id = strategy.cluster_resolver.task_type, strategy.cluster_resolver.task_id
chief = is_chief(task_type, task_id)
directory = own_directory(sys.argv[1], task_id, chief)
tf.io.gfile.makedirs(directory)
model.save(os.path.join(directory, "model.keras"))
if not chief:
    tf.io.gfile.rmtree(directory)
else:
    loaded = tf.keras.models.load_model(os.path.join(directory, "model.keras"))
    print("loaded predicts", loaded.predict(model_setup.images()[:3], verbose=0).shape)

checkpoint = tf.train.Checkpoint(model=model)
manager = tf.train.CheckpointManager(
    checkpoint, directory=own_directory(sys.argv[1], f"ckpt_{task_id}", chief), max_to_keep=1
)
print("saved", os.path.basename(manager.save()))
