"""Programs whose loops, losses or TF_CONFIG are wrong, each with its finding, and the changes that remove it."""

from __future__ import annotations

from tests.check.programs import GANG, MADE, ONE, SERVED, TF, TWO, Row

STEPS = [
    Row(
        "mean-of-parts",
        f"{GANG}def step(x):\n    loss = tf.reduce_sum(model(x)) * (1.0 / global_batch_size)\n    return loss\n\n"
        "def train(x):\n    losses = strategy.run(step, args=(x,))\n"
        "    return strategy.reduce(tf.distribute.ReduceOp.MEAN, losses, axis=None)  # here\n",
        (
            ("ReduceOp.MEAN", "ReduceOp.SUM"),
            ("reduce_sum", "reduce_mean"),
            ("(1.0 / global_batch_size)", "0.5"),
            ("(1.0 / global_batch_size)", "(1.0 / batch_size)"),
            ("losses = strategy.run", "losses = losses + strategy.run"),
            ("    return loss\n", "    if x:\n        loss = 0\n    return loss\n"),
            ("axis=None)", "axis=None) * strategy.num_replicas_in_sync"),
            ("    return loss\n", "    return loss, x\n"),
            ("    return loss\n", "    if x:\n        return x\n    return loss\n"),
        ),
        TWO,
        (ONE, SERVED),
    ),
    Row(
        "mean-of-parts",
        f"{GANG}GLOBAL_BATCH_SIZE = 8 * strategy.num_replicas_in_sync\ndef loss_of(x):\n    return "
        "tf.nn.compute_average_loss(model(x), global_batch_size=GLOBAL_BATCH_SIZE)\n"
        "def step(x):\n    return loss_of(x)\n"
        "print(strategy.reduce('MEAN', strategy.run(step, args=(x,)), axis=None))  # here\n",
        (
            ("'MEAN'", "'SUM'"),
            ("tf.nn.compute_average_loss", "compute_average_loss"),
            ("return loss_of(x)", "return loss_of"),
            ("axis=None", "axis=0"),
        ),
    ),
    Row(
        "mean-of-parts",
        f"{GANG}def step(x):\n    return tf.reduce_sum(model(x)) / args.global_batch\n"
        "strategy.reduce(reduce_op='mean', value=strategy.run(step, args=(x,)), axis=None)  # here\n",
        (("args.global_batch", "args.batch"), ("strategy.reduce(", "step = 1\nstrategy.reduce(")),
    ),
    Row(
        "loss-divided-twice",
        f"{GANG}GLOBAL_BATCH = 64\ndef loss(y, p):  # here\n"
        "    return tf.nn.compute_average_loss((y - p) ** 2, global_batch_size=GLOBAL_BATCH)\n"
        "model.compile('sgd', loss=loss)\n",
        (
            ("tf.nn.compute_average_loss((y - p) ** 2, global_batch_size=GLOBAL_BATCH)", "(y - p) ** 2"),
            ("loss=loss", "loss='mse'"),
            ("model.compile('sgd', loss=loss)", "print(loss)"),
        ),
        {**TWO, "keras": 2},
        ({**ONE, "keras": 2}, {**SERVED, "keras": 2}, TWO),  # Keras 3 leaves such a loss as it is
    ),
    Row(
        "loss-divided-twice",
        f"{TF}strategy = tf.distribute.MirroredStrategy(devices)\nsize = 8 * strategy.num_replicas_in_sync\n"
        "class Mine(tf.keras.losses.Loss):\n    def __init__(self, size):\n        self.size = size\n"
        "    def call(self, y, p):  # here\n        loss = abs(y - p)\n"
        "        loss = tf.reduce_sum(loss) * (1.0 / self.size)\n        return loss\n"
        "model.compile('sgd', Mine(size))\n",
        (
            ("(devices)", "()"),
            ("(devices)", "(['CPU:0'])"),
            ("8 * strategy.num_replicas_in_sync", "8"),
            ("self.size = size", "super().__init__(reduction='sum')"),
            ("tf.keras.losses.Loss", "Base"),
            ("        return loss\n", "        print(loss)\n"),
        ),
        {**ONE, "keras": 2},
    ),
    Row(
        "undistributed-batches",
        f"{GANG}data = tf.data.Dataset.range(64).batch(8)\nshares = strategy.experimental_distribute_dataset(data)\n"
        "def step(x):\n    return x\n\ndef train(batch):\n    return strategy.run(step, args=(batch,))\n\n"
        "for x in data:  # here\n    train(x)\n",
        (
            ("for x in data:", "for x in shares:"),
            ("shares = ", "data = "),
            ("    train(x)", "    model(x)"),
            ("    train(x)", "    train(next(iter(shares)))"),
            ("args=(batch,)", "args=(noise,)"),
            ("range(64)", "range(64).shard(2, index)"),
            ("def train", "def evaluate():\n    return list(shares)\ndef train"),
        ),
        TWO,
        (ONE, SERVED),
    ),
    Row(
        "undistributed-batches",
        f"{GANG}data = tf.data.Dataset.range(64).batch(8)\nshares = strategy.experimental_distribute_dataset(data)\n"
        "for x, y in data:  # here\n    strategy.run(step, args=(x, y))\n",
        (("args=(x, y)", "args=(z,)"), ("args=(x, y)", "{x: y}"), ("strategy.run(step", "print(step")),
    ),
    Row(
        "shard-twice",
        f"{GANG}data = tf.data.Dataset.range(64).shard(2, index)  # here\nbatches = data.shuffle(9).batch(8)\n"
        "shares = strategy.experimental_distribute_dataset(batches)\n",
        (
            (".shard(2, index)", ""),
            ("strategy.experimental_distribute_dataset(batches)", "list(batches)"),
            ("batches = ", "options.experimental_distribute.auto_shard_policy = OFF\nbatches = "),
            ("shares = ", "if index:\n    batches = None\nshares = "),
        ),
        TWO,
        (ONE, SERVED),
    ),
    Row(
        "shard-twice",
        f"{GANG}data = tf.data.Dataset.range(64)\ndata = data.shard(2, index)  # here\n"
        "data = data.batch(8)\nmodel.fit(data)\n",
        (
            ("data.shard(2, index)", "data.take(2)"),
            ("data = data.batch", "if index:\n    data = other()\ndata = data.batch"),
            ("data = data.batch(8)", "data = whole.batch(8)"),
        ),
        TWO,
        (ONE, SERVED),
    ),
    Row(
        "tf-config-without-cluster",
        f"{TF}task = {{'type': 'worker'}}\n"
        "os.environ['TF_CONFIG'] = json.dumps({'sparseCluster': {}, 'task': task})  # here\n"
        f"strategy = {MADE}\n",
        (
            ("sparseCluster", "cluster"),
            ("'sparseCluster': {}, ", "**rest, "),
            ("{'sparseCluster': {}, 'task': task}", "{}"),
            ("os.environ[", "if alone: os.environ["),
            ("os.environ['TF_CONFIG']", "os.environ['MINE']"),
            ("strategy = ", "os.environ['TF_CONFIG'] = saved\nstrategy = "),
        ),
        TWO,
        (ONE, {**TWO, "tf_config": "ours"}),
    ),
    Row(
        "tf-config-without-cluster",
        f"{TF}config = {{'task': {{'type': 'worker', 'index': 0}}}}\n"
        "os.environ['TF_CONFIG'] = json.dumps(config)  # here\n"
        f"strategy = {MADE}\n",
        (("\nos.", "\nconfig['cluster'] = read()\nos."), ("\nos.", "\nfill(config)\nos."), ("'task'", "'cluster'")),
    ),
]  # fmt: skip
