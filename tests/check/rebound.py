"""Programs that bind a name several times, as most do with a dataset, each with the finding that it has."""

from __future__ import annotations

from clusterkit.check.findings import Severity
from tests.check.programs import BUILTIN, CLUSTER, COORDINATOR, GANG, MADE, ONE, SCOPED, SERVED, TF, TWO, Row
from tests.check.shares import PAIR

BATCHES = "tf.data.Dataset.from_tensor_slices(x)"
IN_A_FUNCTION = "def rows(data):\n    data = data.cache()\n    return data\n"  # another variable of the same name

REBOUND = [
    Row(
        "shard-twice",
        f"{GANG}{IN_A_FUNCTION}data = {BATCHES}\ndata = data.shard(2, index)  # here\ndata = data.batch(8)\n"
        "model.fit(data)\n",
        (
            ("model.fit(data)", "data = whole\nmodel.fit(data)"),
            ("model.fit(data)", "def train(data):\n    model.fit(data)"),
            ("data = data.batch(8)", "while index:\n    data = rows(data)"),
        ),
    ),
    Row(
        "shard-twice",
        f"{GANG}data = None\ndata = other().shard(2, index)  # here\nmodel.fit(data)\n",
        (("model.fit(data)", "del data\nmodel.fit(data)"),),
    ),
    Row(
        "endless-epoch",
        f"{GANG}data = {BATCHES}\ndata = data.repeat()\ndata = data.batch(8)\nmodel.fit(data, epochs=3)  # here\n",
        (
            ("data = data.repeat()", "if x:\n    data = data.repeat()"),
            ("data.batch(8)", "data.batch(8).take(9)"),
            ("model.fit", "data = data.take(9)\nmodel.fit"),
            ("data = data.repeat()", "copy = data.repeat()"),
        ),
    ),
    Row(
        "endless-epoch",
        f"{GANG}def make():\n    data = {BATCHES}\n    data = data.repeat()\n    return data\ndata = make()\n"
        "data = strategy.experimental_distribute_dataset(data)\nfor x in data:  # here\n    train(x)\n",
        (("    return data", "    data = data.take(3)\n    return data"),),
    ),
    Row(
        "finite-data",
        f"{COORDINATOR}{IN_A_FUNCTION}data = {BATCHES}\ndata = data.batch(3)\n{SCOPED}"
        "model.fit(data, steps_per_epoch=9)  # here\ndata = data.repeat()\n",
        (("model.fit", "data = data.repeat()\nmodel.fit"), ("model.fit", "if x:\n    data = rows(x)\nmodel.fit")),
        BUILTIN,
    ),
    Row(
        "undistributed-batches",
        f"{PAIR}data = {BATCHES}\ndata = data.shuffle(64).batch(8)\nfor x in data:  # here\n"
        "    strategy.run(step, args=(x,))\n",
        (
            ("for x in data", "data = divided(data)\nfor x in data"),
            (".batch(8)\n", ".batch(8)\nif x:\n    data = divided(data)\n"),
        ),
        ONE,
    ),
    Row(
        "steps-of-one-replica",
        f"{GANG}size = 64\nbatch = size * num_workers\nsteps = len(x) / size\nsteps = int(steps)\n"
        "model.fit(data, steps_per_epoch=steps)  # here\n",
        (("int(steps)", "int(steps // num_workers)"), ("steps = int(steps)", "if x:\n    steps = 7")),
    ),
    Row(
        "undivided-batch",
        f"{GANG}size = 8\nsize *= strategy.num_replicas_in_sync\n"
        "def rows(context):\n    data = tf.data.Dataset.range(64).shard(2, context.input_pipeline_id)\n"
        "    return data.batch(size)  # here\nstrategy.distribute_datasets_from_function(rows)\n",
        (("size *=", "size +="), ("size *=", "half ="), ("def rows", "size = 8\ndef rows")),
    ),
    Row(
        "mean-of-parts",
        f"{GANG}def step(x):\n    loss = tf.reduce_sum(model(x))\n    loss = loss / global_batch_size\n"
        "    return loss\nstep = tf.function(step)\nloss = strategy.run(step, args=(x,))\n"
        "loss = strategy.reduce('MEAN', loss, axis=None)  # here\n",
        (
            ("    return loss", "    loss = tf.square(loss)\n    return loss"),
            ("loss / global_batch_size", "loss / 3"),
            ("tf.function(step)", "timed(step)"),
        ),
    ),
    Row(
        "mean-of-parts",
        f"{PAIR}seen = tf.keras.metrics.Mean()\ndef step(x):\n    with tf.GradientTape() as tape:\n"
        "        loss = tf.reduce_sum(model(x))\n        loss /= global_batch_size\n"
        "    seen.update_state(loss)  # here\nstrategy.run(step, args=(x,))\n",
        (("loss /=", "loss *="), ("    seen.update", "    loss = model(x)\n    seen.update")),
        ONE,
    ),
    Row(
        "loss-divided-twice",
        f"{GANG}size = 8\nsize = size * strategy.num_replicas_in_sync\ndef loss(y, p):  # here\n"
        "    loss = tf.reduce_sum(y - p)\n    loss /= size\n    return loss\nmodel.compile('sgd', loss=loss)\n",
        (("loss /= size", "loss /= 3"), ("loss /= size", "if size:\n        loss /= size"), ("size * ", "size + ")),
        {**TWO, "keras": 2},
    ),
    Row(
        "loss-per-replica",
        f"{GANG}def step(x):\n    with tf.GradientTape() as tape:\n        loss = tf.reduce_mean(model(x))  # here\n"
        "step = tf.function(step)\nstrategy.run(step, args=(x,))\n",
        (("tf.function(step)", "timed(step)"), ("strategy.run", "if x:\n    step = other\nstrategy.run")),
    ),
    Row(
        "keras-3-fit",
        f"{COORDINATOR}layer = None\ndef build():\n    model = tf.keras.Sequential()\n    return model\n{SCOPED}"
        "model.fit(data, steps_per_epoch=9)  # here\n",
        (("model.fit", "model = build()\nmodel.fit"), ("model.fit", "for model in models:\n    model.fit")),
        {**BUILTIN, "keras": 3},
        (BUILTIN,),
        Severity.ERROR,
    ),
    Row(
        "unscoped-layer",
        f"{COORDINATOR}layer = None\nlayer = tf.keras.layers.Normalization()  # here\nlayer.adapt(rows)\n{SCOPED}",
        (("with strategy", "layer = None\nwith strategy"), ("layer.adapt", "layer = made(layer)\nlayer.adapt")),
        BUILTIN,
        (),
        Severity.ERROR,
    ),
    Row(
        "tf-config-overwritten",
        f"{TF}config = {CLUSTER}\nconfig = json.dumps(config)\nos.environ['TF_CONFIG'] = config  # here\n"
        f"strategy = {MADE}\n",
        (
            ("config = json", "config['task']['index'] = 1\nconfig = json"),
            ("config = json", "same = config\nsame['task']['index'] = 1\nconfig = json"),
            ("os.environ", "config = mine(config)\nos.environ"),
        ),
    ),
    Row(
        "tf-config-without-cluster",
        f"{TF}config = {{'task': {{'type': 'worker', 'index': 0}}}}\nconfig = json.dumps(config)\n"
        f"os.environ['TF_CONFIG'] = config  # here\nstrategy = {MADE}\n",
        (("config = json", "fill(config)\nconfig = json"), ("config = json", "config['cluster'] = x\nconfig = json")),
    ),
    Row(
        "tf-config-of-other-tasks",
        f"{TF}config = 1\nconfig = {CLUSTER}\nos.environ['TF_CONFIG'] = json.dumps(config)  # here\n"
        f"strategy = {MADE}\n",
        (("os.environ", "config = mine()\nos.environ"),),
        ONE,
    ),
    Row(
        "server-beside-the-strategy",
        f"{TF}config = os.environ['TF_CONFIG']\nconfig = json.loads(config)\nmake = None\nmake = tf.distribute.Server\n"
        f"make(config['cluster'], job_name='worker')  # here\nstrategy = {MADE}\n",
        (("make(config", "make = Mine\nmake(config"),),
    ),
    Row(
        "cluster-without-the-chief",
        f"{COORDINATOR}tasks = {{'worker': hosts, 'ps': others, 'chief': first}}\n"
        "tasks = {'worker': hosts, 'ps': others}\ntf.train.ClusterSpec(tasks)  # here\n"
        "tf.data.Dataset.from_generator(rows)\n",
        (("tf.train", "tasks = made(tasks)\ntf.train"),),
        {**SERVED, "network": "virtual", "servers": "builtin"},
    ),
    Row(
        "shared-file",
        f"{GANG}path = 'model'\npath = '/tmp/model.keras'\nmodel.save(path)  # here\n",
        (("model.save", "path = own(path)\nmodel.save"), ("model.save", "if x:\n    path = own(path)\nmodel.save")),
    ),
    Row(
        "unseeded-rows",
        f"import numpy as np\n{GANG}rng = np.random.default_rng(1)\nrng = np.random.default_rng()\n"
        "x = x[rng.permutation(9)]  # here\nstrategy.experimental_distribute_dataset(x)\n",
        (("x = x[", "rng = np.random.default_rng(2)\nx = x["),),
    ),
    Row(
        "strategy-too-late",
        f"{TF}class Trainer:\n    def main(self):\n        pass\n"
        f"def main():\n    seed = tf.constant(1)\n    strategy = {MADE}  # here\nmain()\n",
        (("main()\n", "main = Trainer().main\nmain()\n"), ("\nmain()", "\nTrainer().main()")),
        TWO,
        (ONE, SERVED),
        Severity.ERROR,
    ),
    Row(
        "forks",
        f"{TF}from multiprocessing import Process\nclass Worker:\n    def work(self):\n        pass\n"
        "def work(rows):\n    return model.predict(rows)\nProcess(target=work, args=(x,)).start()  # here\n",
        (("Process(target", "work = other\nProcess(target"), ("target=work", "target=Worker().work")),
        ONE,
    ),
    # A batch size of one replica that grows to that of all of them is the right one.
    Row(
        "batch-per-replica",
        f"{GANG}local_batch = 8\ndata = data.batch(local_batch)  # here\n",
        (
            ("data = ", "local_batch = local_batch * strategy.num_replicas_in_sync\ndata = "),
            ("data = ", "local_batch *= strategy.num_replicas_in_sync\ndata = "),
        ),
    ),
]  # fmt: skip
