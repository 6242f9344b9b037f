"""The last bytes of a file of records are missing."""

import tensorflow as tf

strategy = tf.distribute.MultiWorkerMirroredStrategy()
index = strategy.cluster_resolver.task_id
with tf.io.TFRecordWriter(f"rows{index}.tfrecord") as writer:
    writer.write(b"a" * 100)
text = open(f"rows{index}.tfrecord", "rb").read()
open(f"rows{index}.tfrecord", "wb").write(text[:60])
for row in tf.data.TFRecordDataset(f"rows{index}.tfrecord"):
    print(row)
