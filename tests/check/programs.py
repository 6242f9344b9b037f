"""Programs with mistakes, each with the finding that it has, and the changes that remove it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from clusterkit.check.findings import Severity

TF = "import json, os\nimport tensorflow as tf\nfrom clusterkit import training\n"
RESOLVER = "tf.distribute.cluster_resolver.TFConfigClusterResolver()"
MADE = "tf.distribute.MultiWorkerMirroredStrategy()"
PLAIN = "import tensorflow as tf\nmodel = tf.keras.Sequential([tf.keras.layers.Dense(1)])\nmodel.compile('sgd')\n"
GANG = f"{TF}strategy = {MADE}\n"
CLUSTER = "{'cluster': {'worker': ['localhost:12345', 'localhost:23456']}, 'task': {'type': 'worker', 'index': 0}}"
TWO: dict[str, Any] = {"workers": 2}
SERVED: dict[str, Any] = {"workers": 2, "ps": 1}
ONE: dict[str, Any] = {"workers": 1}
BUILTIN: dict[str, Any] = {**SERVED, "servers": "builtin", "keras": 2}
COORDINATOR = f"import tensorflow as tf\nstrategy = tf.distribute.ParameterServerStrategy({RESOLVER})\n"
SCOPED = "with strategy.scope():\n    model = tf.keras.Sequential([layer])\n    model.compile('sgd', 'mse')\n"


@dataclass(frozen=True)
class Row:
    """A finding, a program that has it, changes that remove it, and the job."""

    finding: str
    text: str
    without: tuple[tuple[str, str], ...] = ()
    job: dict[str, Any] = field(default_factory=lambda: TWO)
    other_jobs: tuple[dict[str, Any], ...] = ()
    severity: Severity = Severity.WARNING


PROGRAMS = [
    Row(
        "dataset-creator",
        f"{TF}tf.keras.utils.experimental.DatasetCreator(lambda context: None)  # here\n",
        (("tf.keras.ut", "if os.environ.get('X'): tf.keras.ut"), ("import tensorflow as tf", "import mine as tf")),
        SERVED,
        ({**SERVED, "keras": 2},),
        Severity.ERROR,
    ),
    Row(
        "coordinator-everywhere",
        f"import tensorflow as tf\nstrategy = tf.distribute.ParameterServerStrategy({RESOLVER})  # here\n",
        (
            ("strategy =", "if resolver.is_chief: strategy ="),
            ("strategy =", "start_server_of(resolver)\nstrategy ="),
            ("strategy =", "print(resolver.task_type)\nstrategy ="),
        ),
        SERVED,
        ({**SERVED, "servers": "builtin"},),
        Severity.ERROR,
    ),
    Row(
        "keras-3-fit",
        f"{COORDINATOR}{SCOPED}model.fit(data, steps_per_epoch=9)  # here\n",
        (("with strategy.scope()", "if x"), ("model.fit(", "scaler.fit("), ("    model.compile('sgd', 'mse')\n", "")),
        {**BUILTIN, "keras": 3},
        (BUILTIN,),
        Severity.ERROR,
    ),
    Row(
        "unscoped-layer",
        f"{COORDINATOR}layer = tf.keras.layers.Normalization()  # here\nlayer.adapt(rows)\n{SCOPED}",
        (
            ("layer = tf", "with strategy.scope():\n    layer = tf"),
            ("layer.adapt(rows)\n", ""),
            ("Sequential([layer])", "Sequential()"),
        ),
        BUILTIN,
        (),
        Severity.ERROR,
    ),
    Row(
        "finite-data",
        f"{COORDINATOR}data = tf.data.Dataset.from_tensor_slices(x)\ndata = data.shuffle(9).batch(3)\n{SCOPED}"
        "model.fit(data, steps_per_epoch=9)  # here\n",
        (
            ("shuffle(9)", "shuffle(9).repeat()"),
            ("shuffle(9)", "apply(forever)"),
            ("from_tensor_slices(x)", "from_generator(rows)"),
            ("model.fit(data", "model.fit(others"),
            ("data = data.", "if x:\n    data = made()\ndata = data."),
        ),
        BUILTIN,
        (),
    ),
    Row(
        "finite-data",
        f"{COORDINATOR}{SCOPED}data = tf.data.TFRecordDataset(x).batch(3)\nmodel.evaluate(data)  # here\n",
        (("batch(3)", "batch(3).repeat()"),),
        BUILTIN,
    ),
    Row(
        "shard-of-one-pipeline",
        f"{COORDINATOR}def rows(context):\n"
        "    return data.shard(context.num_input_pipelines, context.input_pipeline_id)  # here\n",
        (
            *(("shard(", "skip("), ("data.shard(", "data.shuffle(64).shard("), ("context.input_pipeline_id", "0")),
            ("ParameterServer", "MultiWorkerMirrored"),
        ),
        BUILTIN,
        (ONE, TWO),
    ),
    Row(
        "tf-config-overwritten",
        f"{TF}config = {CLUSTER}\nos.environ['TF_CONFIG'] = json.dumps(config)  # here\nstrategy = {MADE}\n",
        (
            ("os.environ['TF_CONFIG'] = json.dumps(config)", "os.environ.setdefault('TF_CONFIG', json.dumps(config))"),
            ("os.environ['TF_CONFIG'] =", "if 'TF_CONFIG' not in os.environ: os.environ['TF_CONFIG'] ="),
            ("os.environ['TF_CONFIG'] =", "config['task']['index'] = 1\nos.environ['TF_CONFIG'] ="),
            ("os.environ['TF_CONFIG'] =", "os.environ['TF_CONFIG_OF_OTHERS'] ="),
            ("json.dumps(config)", "json.dumps(make())"),
        ),
        TWO,
        (ONE,),
    ),
    Row(
        "tf-config-overwritten",
        f"from os import environ\n{TF}def main():\n    environ['TF_CONFIG'] = json.dumps({CLUSTER})  # here\n"
        "if __name__ == '__main__':\n    main()\n",
        (("    main()\n", "    print(main)\n"), ("def main():", "def main():\n    yield"), ("def m", "async def m")),
    ),
    Row(
        "strategy-too-late",
        f"{TF}seed = tf.constant(1)\nstrategy = {MADE}  # here\n",
        (
            ("tf.constant(1)", "1"),
            ("tf.constant(1)", "tf.random.set_seed(1)"),
            ("seed =", "seed = lambda:"),
            ("seed =", "tf = numpy\nseed ="),
            ("strategy =", "if os.environ.get('X'): strategy ="),
        ),
        TWO,
        (ONE, SERVED),
        Severity.ERROR,
    ),
    Row(
        "strategy-too-late",
        f"{TF}def main(argv):\n    optimizer = tf.keras.optimizers.Adam()\n    strategy = training.strategy()  # here\n"
        "import absl.app\nabsl.app.run(main)\n",
        (("tf.keras.optimizers.Adam()", "tf.keras.optimizers.schedules.X()"), ("y()  #", "y('mirrored')  #")),
        TWO,
        ({**TWO, "keras": 2},),
        Severity.ERROR,
    ),
    Row(
        "wrong-strategy",
        f"{TF}strategy = tf.distribute.experimental.ParameterServerStrategy({RESOLVER})  # here\n",
        (
            ("strategy =", "if training.has_ps(): strategy ="),
            ("strategy =", f"other = {MADE}\nstrategy ="),
            ("strategy =", "training.serve()\nstrategy ="),
        ),
        TWO,
        (SERVED,),
        Severity.ERROR,
    ),
    Row(
        "wrong-strategy",
        f"{TF}strategy = {MADE}  # here\n",
        (("strategy =", "if not training.has_ps(): strategy ="), ("strategy =", "def make(): strategy =")),
        SERVED,
        (TWO,),
        Severity.ERROR,
    ),
    Row(
        "wrong-strategy",
        "import tensorflow as tf\nwith tf.distribute.MirroredStrategy().scope():  # here\n    model = build()\n",
        (("Mirrored", "MultiWorkerMirrored"), ("import ", "import horovod, "), ("build()", "build(task_index)")),
        TWO,
        (ONE,),
    ),
    Row(
        "no-strategy",
        f"{PLAIN}model.fit(x)  # here\nmodel.fit(y)\n",
        (
            ("model.compile('sgd')", "pass"),
            ("model.fit", "scaler.fit"),
            ("model.fit", "if x: model.fit"),
            ("import tensorflow as tf", "import tensorflow as tf\nfrom mine import make_strategy"),
            ("import tensorflow as tf", "import tensorflow as tf\nimport horovod.tensorflow as hvd"),
            ("import tensorflow as tf", "import tensorflow as tf\nfrom tensorflow.experimental import dtensor"),
            ("import tensorflow as tf", "import tensorflow as tf, os\nprint(os.environ['TF_CONFIG'])"),
        ),
        TWO,
        (ONE, {**ONE, "evaluator": True}, {**TWO, "restart_scope": "task"}, {**TWO, "convention": "jax"}),
    ),
    Row("no-strategy", f"{PLAIN}class T:\n    pass\nmodel.fit(x)  # here\n", (), SERVED),
    Row(
        "no-scope",
        f"{PLAIN.replace('model =', f'strategy = {MADE}{chr(10)}model =')}model.fit(x)  # here\n",
        (
            ("model = ", "with strategy.scope(): model = "),
            ("model.fit(x)", "train(model, strategy)"),
            ("model.fit(x)", "model.fit(x, callbacks=[Mine(strategy)])"),
            ("strategy = ", "self.strategy = "),
            ("strategy = ", "strategy = x or "),
        ),
        TWO,
        (ONE, {**TWO, "restart_scope": "task"}),
    ),
    Row(
        "unseeded-shuffle",
        f"{GANG}data = tf.data.Dataset.range(9).shuffle(9)  # here\n"
        "rows = strategy.experimental_distribute_dataset(data)\n",
        (
            ("shuffle(9)", "shuffle(9, seed=3)"),
            ("shuffle(9)", "shuffle(9, 3)"),
            ("shuffle(9)", "shuffle(**options)"),
            ("strategy = ", "tf.keras.utils.set_random_seed(1)\nstrategy = "),
            ("data = tf.data.Dataset.range(9).shuffle(9)", "import random\nrandom.shuffle(rows)"),
        ),
        {**TWO, "patches": False},
        (ONE, TWO),
    ),
    Row(
        "loss-per-replica",
        f"{GANG}def step(x):\n    with tf.GradientTape() as tape:\n"
        "        loss = tf.reduce_mean(model(x) ** 2)  # here\n"
        "    return tape.gradient(loss, model.trainable_variables)\n\n"
        "for batch in data:\n    strategy.run(step, args=(batch,))\n",
        (
            ("tf.reduce_mean(model(x) ** 2)", "tf.reduce_sum(model(x) ** 2) / GLOBAL_BATCH"),
            ("tf.reduce_mean(model(x) ** 2)", "tf.nn.compute_average_loss(model(x) ** 2)"),
            ("tf.reduce_mean(model(x) ** 2)", "tf.reduce_mean(model(x)) / strategy.num_replicas_in_sync"),
            ("strategy.run(step", "print(step"),
            ("with tf.GradientTape() as tape:", "if True:"),
        ),
        TWO,
        (ONE, SERVED, {**TWO, "restart_scope": "task"}),
    ),
    Row(
        "loss-per-replica",
        f"{GANG}loss_of = tf.keras.losses.MeanSquaredError()\ndef step(x):\n    with tf.GradientTape() as tape:\n"
        "        loss = loss_of(x, model(x))  # here\n\nstrategy.run(step, args=(batch,))\n",
        (("MeanSquaredError()", "MeanSquaredError(reduction='none')"), ("MeanSquaredError()", "MeanSquaredError(**a)")),
        {**TWO, "keras": 2},
        (TWO,),  # losses of Keras 3 divide by the number of replicas
    ),
    Row(
        "loss-per-replica",
        f"{GANG}class Net(tf.keras.Model):\n    def train_step(self, data):\n        with tf.GradientTape() as tape:\n"
        "            loss = tf.reduce_mean(self(data) ** 2)  # here\n        return {'loss': loss}\n",
        (
            ("tf.reduce_mean(self(data) ** 2)", "self.compute_loss(data)"),
            ("self(data) ** 2)", "self(data) ** 2) / self.distribute_strategy.num_replicas_in_sync"),
            *(("def train_step", "def test_step"), ("tf.keras.Model", "tf.Module")),
        ),
        {**TWO, "patches": False},
        (ONE, SERVED, TWO),  # with patches, a step of fit sees the whole batch
    ),
    Row(
        "batch-per-replica",
        f"{GANG}data = tf.data.Dataset.range(64).batch(per_replica_batch)  # here\nmodel.fit(data)\n",
        (
            ("per_replica_batch", "batch"),
            ("per_replica_batch", "per_replica_batch * strategy.num_replicas_in_sync"),
            ("model.fit(data)", "strategy.distribute_datasets_from_function(lambda context: data)"),
        ),
        TWO,
        (ONE, SERVED),
    ),
    Row(
        "uncalled-main",
        '"""A program."""\nimport tensorflow as tf\nSTEPS = 3\ndef main():  # here\n    tf.zeros(STEPS)\n',
        (
            ("STEPS = 3", "print(3)"),
            ("tf.zeros(STEPS)\n", "tf.zeros(STEPS)\nmain()\n"),
            ("tf.zeros(STEPS)\n", "tf.zeros(STEPS)\nRUN = main\n"),
            ("STEPS = 3", "STEPS = {'main': 3}"),
            ("def main", "def train"),
        ),
        ONE,
    ),
    Row(
        "shared-file",
        f"{GANG}kept = tf.keras.callbacks.BackupAndRestore('/tmp/backup')  # here\nmodel.fit(data)\n",
        (("'/tmp/backup'", "f'/tmp/backup-{training.task_index()}'"), ("tf.keras.callbacks", "theirs")),
        {**TWO, "patches": False},
        (ONE, TWO, {**TWO, "patches": False, "keras": 2}),
    ),
    Row(
        "shared-file",
        f"{GANG}path = '/tmp/best.keras'\nbest = tf.keras.callbacks.ModelCheckpoint(filepath=path)  # here\n",
        (("'/tmp/best.keras'", "'/tmp/%d.keras' % task_id"),),
        {**TWO, "patches": False},
        (ONE, TWO),
    ),
    Row(
        "shared-file",
        f"{GANG}model.save('/tmp/model.keras')  # here\n",
        (("model.save(", "if training.is_chief(): model.save("), (".keras'", ".keras' + s"), (".keras'", ".png'")),
        TWO,
        (ONE, SERVED),
    ),
]  # fmt: skip
