"""Programs with clusters, servers and devices of their own, each with the finding that it has."""

from __future__ import annotations

from tests.check.programs import CLUSTER, COORDINATOR, GANG, MADE, ONE, SERVED, TF, TWO, Row

READ = f"{TF}config = json.loads(os.environ['TF_CONFIG'])\n"
SET = f"{TF}os.environ['TF_CONFIG'] = json.dumps({CLUSTER})  # here\nstrategy = {MADE}\n"
CLUSTERS = [
    Row(
        "tf-config-of-other-tasks",
        SET,
        (
            (", 'localhost:23456'", ""),
            ("os.environ['TF_CONFIG'] =", "if 'TF_CONFIG' not in os.environ: os.environ['TF_CONFIG'] ="),
            ("json.dumps(", "make("),
            (f"strategy = {MADE}", ""),
        ),
        ONE,
        (TWO, {**ONE, "tf_config": "ours"}),
    ),
    Row(
        "tf-config-of-other-tasks",
        SET.replace("12345", "0").replace(", 'localhost:23456'", ""),
        (("localhost:0", "localhost:1"),),
        ONE,
        ({**ONE, "tf_config": "ours"},),
    ),
    Row(
        "tf-config-of-other-tasks",
        SET.replace("localhost:12345", "worker-1.net:2222").replace(", 'localhost:23456'", ""),
        (("worker-1.net:2222", "127.0.0.1:2222"),),
        ONE,
        ({**ONE, "tf_config": "ours"},),
    ),
    Row(
        "chief-without-a-chief",
        f"{READ}def train():\n    strategy = {MADE}\nif config['task']['type'] == 'chief':  # here\n    train()\n",
        (
            ("== 'chief'", "in ('chief', 'worker')"),
            ("== 'chief'", "== 'chief' or config['task']['index'] == 0"),
            ("    train()\n", "    save()\n"),
            ("    train()\n", "    train()\nelse:\n    train()\n"),
        ),
        TWO,
        ({**TWO, "chief": True}, SERVED, ONE),
    ),
    Row(
        "server-beside-the-strategy",
        f"{READ}server = tf.distribute.Server(config['cluster'], job_name='worker')  # here\nstrategy = {MADE}\n",
        (
            ("server = tf", "if config['task']['type'] == 'ps': server = tf"),
            ("config['cluster'],", "{'worker': ['localhost:1234']},"),
            (f"strategy = {MADE}", ""),
        ),
        TWO,
        (ONE, SERVED),
    ),
    Row(
        "connected-by-hand",
        f"{TF}resolver = make()\ntf.config.experimental_connect_to_cluster(resolver)  # here\nstrategy = {MADE}\n",
        (
            ("make()", "tf.distribute.cluster_resolver.TPUClusterResolver()"),
            ("tf.config", "if resolver: tf.config"),
            (f"strategy = {MADE}", ""),
        ),
        TWO,
        (ONE, SERVED),
    ),
    Row(
        "sync-replicas-without-the-hook",
        "import tensorflow.compat.v1 as tf\nsgd = make()\noptimizer = tf.train.SyncReplicasOptimizer(sgd, 2)  # here\n",
        (
            ("sgd = make()", "sgd = make()\nhook = make_session_run_hook"),
            ("sgd = make()", "make(sync_optimizer=1)"),
            ("optimizer =", "if sgd: optimizer ="),
            ("compat.v1", "mine"),
        ),
        SERVED,
        (ONE, TWO),
    ),
    Row(
        "device-of-another-worker",
        f"{TF}strategy = {MADE}\nwith tf.device('/job:worker/task:0'):  # here\n    make()\n",
        (("/job:worker/task:0", "/device:CPU:0"), ("'/job:worker/task:0'", "mine"), (f"strategy = {MADE}", "")),
        TWO,
        (ONE, SERVED),
    ),
    Row(
        "division-by-no-rows",
        f"{TF}strategy = tf.distribute.MirroredStrategy()\ndef loss(error, mask):\n"
        "    return tf.reduce_sum(error) / tf.reduce_sum(mask)  # here\n"
        "data = tf.data.Dataset.from_tensor_slices(rows).batch(64)\n",
        (
            ("batch(64)", "batch(64, drop_remainder=True)"),
            (".batch(64)", ".repeat().batch(64)"),
            (".batch(64)", ""),
            ("/ tf.reduce_sum(mask)", "/ 64"),
            ("strategy = tf.distribute.MirroredStrategy()", ""),
        ),
        ONE,
    ),
    Row(
        "division-by-no-rows",
        f"{GANG}class Net(tf.keras.Model):\n    def train_step(self, data):\n"
        "        return {'loss': tf.reduce_sum(self(data)) / tf.reduce_sum(data)}  # here\n"
        "Net().fit(tf.data.Dataset.from_tensor_slices(rows).batch(64))\n",
        (("batch(64)", "batch(64, drop_remainder=True)"),),
        {**TWO, "patches": False},
        (TWO,),  # with patches, a step of fit sees the whole batch
    ),
    Row(
        "division-by-no-rows",
        f"{GANG}def step(x):\n    return tf.reduce_sum(model(x)) / tf.reduce_sum(x)  # here\n"
        "data = tf.data.Dataset.from_tensor_slices(rows).batch(64)\nstrategy.run(step, args=(x,))\n",
        (("strategy.run(step", "print(step"),),
        TWO,
        (),
    ),
    Row(
        "cluster-without-the-chief",
        f"{COORDINATOR}cluster = tf.train.ClusterSpec({{'worker': hosts, 'ps': others}})  # here\n"
        "data = tf.data.Dataset.from_generator(rows)\n",
        (("from_generator", "from_tensor_slices"), ("'ps'", "'chief': first, 'ps'"), ("'ps': others", "**others")),
        {**SERVED, "network": "virtual", "servers": "builtin"},
        (TWO, SERVED),
    ),
]
