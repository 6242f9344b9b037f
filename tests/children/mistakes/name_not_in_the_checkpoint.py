"""Restores a checkpoint into a model with another name."""

import tensorflow as tf

v1 = tf.compat.v1
for name in ("dense/kernel", "dense_1/kernel"):
    with tf.Graph().as_default(), v1.Session() as session:
        v1.get_variable(name, [])
        saver = v1.train.Saver()
        if name == "dense/kernel":
            session.run(v1.global_variables_initializer())
            saver.save(session, "./model.ckpt")
        else:
            saver.restore(session, "./model.ckpt")
