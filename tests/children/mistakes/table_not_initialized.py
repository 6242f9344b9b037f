"""A session reads a lookup table whose initializer nobody has run."""

import tensorflow as tf

with tf.Graph().as_default(), tf.compat.v1.Session() as session:
    rows = tf.lookup.KeyValueTensorInitializer(["a", "b"], [0, 1])
    table = tf.lookup.StaticHashTable(rows, default_value=-1)
    print(session.run(table.lookup(tf.constant(["a"]))))
