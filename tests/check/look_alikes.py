"""Correct programs that only look like ones with a mistake, as people write them."""

from __future__ import annotations

IMPORTS = """\
import os, json, sys
import numpy as np
import tensorflow as tf
"""
STRATEGY = """\
strategy = tf.distribute.MultiWorkerMirroredStrategy()
"""
STEP = """\
B = 8
with strategy.scope():
    w = tf.Variable(tf.ones((4,1)))
    opt = tf.keras.optimizers.SGD()
def step(batch):
    x, y = batch
    with tf.GradientTape() as tape:
"""
APPLY = """\
    g = tape.gradient(loss, [w])
    opt.apply_gradients(zip(g,[w]))
"""
ROWS = """\
rows = tf.data.Dataset.from_tensor_slices((np.zeros((64, 4), 'f'), np.zeros((64, 1), 'f')))
data = strategy.experimental_distribute_dataset(rows.batch(B))
"""
MODEL = """\
with strategy.scope():
    model = tf.keras.Sequential([tf.keras.layers.Dense(512), tf.keras.layers.Dense(1)])
    model.compile('sgd','mse')
"""
CONFIG = """\
os.environ['TF_CONFIG'] = json.dumps({
    'cluster': {'worker': ['localhost:1', 'localhost:2']},
    'task': {'type': 'worker', 'index': 0},
})
"""
# The programs without their imports, in the pieces of which they are made.
PIECES: dict[str, tuple[str, ...]] = {
    "a number that happens to be a product": (
        STRATEGY,
        """\
per_replica = 32
batch = per_replica * strategy.num_replicas_in_sync
x = np.zeros((2048, 8)); y = np.zeros(2048)
data = tf.data.Dataset.from_tensor_slices((x,y)).batch(batch)
""",
        MODEL,
        """\
model.fit(data, epochs=2, steps_per_epoch=16)
""",
    ),
    "a metric that says how its variable is combined": (
        STRATEGY,
        """\
class M(tf.keras.metrics.Metric):
    def __init__(self):
        super().__init__()
        self.v = self.add_weight(name='v', aggregation='mean')
    def update_state(self, y, p, sample_weight=None):
        self.v.assign(tf.reduce_mean(tf.abs(y-p)))
    def result(self):
        return self.v
with strategy.scope():
    model = tf.keras.Sequential([tf.keras.layers.Dense(1)])
    model.compile('sgd','mse',metrics=[M()])
model.fit(np.zeros((8,1)),np.zeros(8))
""",
    ),
    "the results of a reduced value": (
        STRATEGY,
        """\
@tf.function
def step(x):
    per = strategy.run(lambda v: v, args=(x,))
    return strategy.reduce('SUM', per, axis=None)
for x in strategy.experimental_distribute_dataset(tf.data.Dataset.range(8).batch(4)):
    print(strategy.experimental_local_results(strategy.reduce('SUM', strategy.run(lambda v: v, args=(x,)), axis=None)))
""",
    ),
    "an accuracy beside the loss": (
        STRATEGY,
        STEP,
        """\
        p = x @ w
        accuracy = tf.reduce_mean(tf.cast(tf.abs(p-y)<.5, tf.float32))
        loss = tf.reduce_sum((p-y)**2) / B
""",
        APPLY,
        """\
    return accuracy
""",
        ROWS,
        """\
for b in data:
    strategy.run(step, args=(b,))
""",
    ),
    "centred data under the tape": (
        STRATEGY,
        STEP,
        """\
        x = x - tf.reduce_mean(x)
        p = x @ w
        loss = tf.nn.compute_average_loss(tf.reduce_sum((p-y)**2, axis=1), global_batch_size=B)
""",
        APPLY,
        """\
    return loss
""",
        ROWS,
        """\
for b in data:
    strategy.run(step, args=(b,))
""",
    ),
    "rows that were cut before": (
        STRATEGY,
        """\
i = strategy.cluster_resolver.task_id
n = 2
x = np.zeros((64,4),'f')[i::n]; y = np.zeros((64,1),'f')[i::n]
def make(context):
    return tf.data.Dataset.from_tensor_slices((x,y)).batch(4)
data = strategy.distribute_datasets_from_function(make)
for b in data:
    strategy.run(lambda r: r[0], args=(b,))
""",
    ),
    "processes that are spawned": (
        """\
import multiprocessing
def write(i):
    import tensorflow as tf
    with tf.io.TFRecordWriter(f'/tmp/{i}') as w:
        w.write(b'x')
if __name__ == '__main__':
    strategy = tf.distribute.MultiWorkerMirroredStrategy()
    with multiprocessing.get_context('spawn').Pool(2) as pool:
        pool.map(write, range(2))
""",
    ),
    "forks that write records": (
        """\
import multiprocessing
def write(i):
    with tf.io.TFRecordWriter(f'/tmp/{i}') as w:
        w.write(b'x')
if __name__ == '__main__':
    with multiprocessing.Pool(2) as pool:
        pool.map(write, range(2))
""",
    ),
    "data that ends by a condition": (
        STRATEGY,
        MODEL,
        """\
data = tf.data.Dataset.range(100).repeat().take_while(lambda v: v < 90).batch(4)
model.fit(data)
""",
    ),
    "a loop that ends the process": (
        STRATEGY,
        """\
data = strategy.experimental_distribute_dataset(tf.data.Dataset.range(100).repeat().batch(4))
n = 0
for b in data:
    strategy.run(lambda v: v, args=(b,))
    n += 1
    if n > 9: sys.exit(0)
""",
    ),
    "a callback that ends fit": (
        STRATEGY,
        MODEL,
        """\
class S(tf.keras.callbacks.Callback):
    def on_train_batch_end(self, batch, logs=None):
        if batch > 9: self.model.stop_training = True
model.fit(tf.data.Dataset.range(100).repeat().batch(4), callbacks=[S()])
""",
    ),
    "a sum along an axis": (
        STRATEGY,
        STEP,
        """\
        loss = tf.reduce_sum((x@w-y)**2, axis=1)
        loss = tf.reduce_sum(loss) * (1/B)
""",
        APPLY,
        """\
    return loss
""",
        ROWS,
        """\
for b in data:
    print(strategy.reduce('SUM', strategy.run(step, args=(b,)), axis=None))
""",
    ),
    "shuffled rows that no strategy sees": (
        STRATEGY,
        MODEL,
        """\
test = tf.data.Dataset.range(100).shuffle(10).batch(4)
for b in test:
    print(b)
model.fit(np.zeros((8,1)),np.zeros(8))
""",
    ),
    "TF_CONFIG that is deleted": (
        CONFIG,
        """\
del os.environ['TF_CONFIG']
""",
        STRATEGY,
        MODEL,
    ),
    "TF_CONFIG that is popped": (
        CONFIG,
        """\
os.environ.pop('TF_CONFIG', None)
""",
        STRATEGY,
        MODEL,
    ),
    "TF_CONFIG that is set after the strategy": (
        STRATEGY,
        MODEL,
        CONFIG,
    ),
}
PROGRAMS = {name: "".join((IMPORTS, *pieces)) for name, pieces in PIECES.items()}
