"""Is a worker of TensorFlow 1 whose chief does not come."""

import tensorflow as tf

v1 = tf.compat.v1
with tf.Graph().as_default():
    step = v1.train.get_or_create_global_step()
    with v1.train.MonitoredSession(v1.train.WorkerSessionCreator(max_wait_secs=2)) as session:
        session.run(step)
