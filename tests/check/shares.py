"""Programs that divide data, losses or work among replicas in a wrong way, each with the finding that it has."""

from __future__ import annotations

from tests.check.programs import BUILTIN, COORDINATOR, GANG, ONE, SERVED, TF, TWO, Row

PAIR = f"{TF}strategy = tf.distribute.MirroredStrategy(['CPU:0', 'CPU:1'])\n"
FROM = f"{GANG}GLOBAL = 8 * strategy.num_replicas_in_sync\n"
FIT = "model.compile('sgd')\nmodel.fit("
SHARES = [
    Row(
        "undivided-function",
        f"{GANG}def rows(context):\n    data = tf.data.Dataset.from_tensor_slices(x)\n    return data.batch(8)\n"
        "shares = strategy.distribute_datasets_from_function(rows)  # here\n",
        (
            ("    return data", "    data = data.shard(2, context.input_pipeline_id)\n    return data"),
            ("    return data", "    data = data.skip(context.input_pipeline_id)\n    return data"),
            ("from_tensor_slices(x)", "from_generator(endless)"),
            ("from_tensor_slices(x)", "from_tensor_slices(parts[task_index])"),
            ("strategy.distribute_datasets_from_function(rows)", "rows(None)"),
        ),
        TWO,
        (ONE, SERVED),
    ),
    Row(
        "undivided-function",
        f"{GANG}class Input:\n    def files(self):\n        return tf.data.Dataset.list_files('*.tfrecord')\n"
        "    def rows(self, context):\n        return self.files().interleave(tf.data.TFRecordDataset)\n"
        "    def shares(self):\n"
        "        return strategy.experimental_distribute_datasets_from_function(self.rows)  # here\n",
        (
            ("list_files('*.tfrecord')", "list_files('*.tfrecord').shard(n, k)"),
            ("(self.rows)", "(others.rows)"),
            ("(self.rows)", "(lambda context: others.rows(context))"),
            ("(self.rows)", "(lambda context: self.rows(context).shard(n, k))"),
        ),
    ),
    Row(
        "undivided-function",
        f"{GANG}data = tf.data.Dataset.from_tensor_slices(x).shuffle(64).batch(8)\noptions = tf.data.Options()\n"
        "options.experimental_distribute.auto_shard_policy = tf.data.experimental.AutoShardPolicy.OFF  # here\n"
        "model.fit(data.with_options(options))\n",
        (
            ("AutoShardPolicy.OFF", "AutoShardPolicy.DATA"),
            (".shuffle(64)", ".shard(2, training.task_index())"),
            ("from_tensor_slices(x)", "from_generator(rows)"),
            ("from_tensor_slices(x)", "from_tensor_slices(parts[task_id])"),
        ),
        TWO,
        (ONE, SERVED),
    ),
    Row(
        "undivided-batch",
        f"{FROM}def rows(context):\n    data = tf.data.Dataset.range(64).shard(2, context.input_pipeline_id)\n"
        "    return data.batch(GLOBAL)  # here\nstrategy.distribute_datasets_from_function(rows)\n",
        (
            ("batch(GLOBAL)", "batch(context.get_per_replica_batch_size(GLOBAL))"),
            ("batch(GLOBAL)", "batch(8)"),
            ("8 * strategy.num_replicas_in_sync", "16"),
            ("_datasets_from_function(rows)", "_dataset(rows(None))"),
        ),
        TWO,
        (ONE, SERVED),
    ),
    Row(
        "steps-of-one-replica",
        f"{GANG}per_worker = 64\nbatch = per_worker * strategy.num_replicas_in_sync\n"
        "model.fit(data.repeat().batch(batch), steps_per_epoch=len(x) // per_worker)  # here\n",
        (
            ("// per_worker", "// batch"),
            ("steps_per_epoch=", "epochs="),
            ("per_worker * strategy.num_replicas_in_sync", "128"),
            ("len(x) // per_worker", "70"),
        ),
        TWO,
        (ONE, SERVED),
    ),
    Row(
        "steps-of-one-replica",
        f"{PAIR}n = 320\nsize = strategy.num_replicas_in_sync * 8\nsteps = int(n / 8)\n"
        "model.fit(data.batch(size), steps_per_epoch=steps)  # here\n",
        (("n / 8", "n / size"), (", 'CPU:1'", ""), ("model.fit", "if n > 99:\n    steps = 1\nmodel.fit")),
        ONE,
    ),
    Row(
        "steps-of-one-replica",
        f"{GANG}size = 64\nrows = 4480\nbatch = size * num_workers\nmodel.fit(data, steps_per_epoch=70)  # here\n",
        (("rows = 4480", "rows = 60000"), ("rows = 4480", "rows = read()"), ("size = 64", "size = args.size")),
    ),
    Row(
        "one-device-alone",
        f"{PAIR}{FIT}data)  # here\n",
        (
            (FIT, f"with strategy.scope(): build()\n{FIT}"),
            (FIT, f"strategy.run(step)\n{FIT}"),
            (", 'CPU:1'", ""),
            ("model.compile", "scaler.compile"),
        ),
        ONE,
    ),
    Row(
        "one-step-at-a-time",
        f"{COORDINATOR}for step in range(9):\n    coordinator.schedule(train)\n    coordinator.join()  # here\n",
        (
            ("    coordinator.join()", "coordinator.join()"),
            ("    coordinator.schedule(train)", "    for part in parts:\n        coordinator.schedule(train)"),
            ("    coordinator.join()", "    if step % 5 == 0: coordinator.join()"),
            ("schedule(train)", "schedule(train)\n    coordinator.schedule(train)"),
            ("coordinator.schedule(train)", "losses = [coordinator.schedule(train) for _ in range(10)]"),
            ("coordinator.schedule(train)", "losses = list(map(lambda _: coordinator.schedule(train), range(10)))"),
        ),
        BUILTIN,
        ({**BUILTIN, "workers": 1}, TWO),
    ),
    Row(
        "one-step-at-a-time",
        f"{COORDINATOR}while step < 9:\n    loss = coordinator.schedule(train, args=(batches,)).fetch()  # here\n",
        ((".fetch()", ""),),
        BUILTIN,
    ),
    # Other rules, in programs with several devices of one machine, with classes, and with a batch that grows.
    Row(
        "loss-per-replica",
        f"{PAIR}SIZE = 8 * strategy.num_replicas_in_sync\ndata.batch(SIZE)\nsteps = len(x) / SIZE\n"
        "class Trainer:\n    def loss(self, y, p):\n        error = tf.square(y - p)\n        return error\n"
        "    def step(self, x):\n        with tf.GradientTape() as tape:\n"
        "            loss = tf.reduce_mean(self.loss(x, self.model(x)))  # here\n"
        "    def train(self, x):\n        strategy.run(self.step, args=(x,))\n",
        (
            ("        return error", "        return error / strategy.num_replicas_in_sync"),
            ("self.loss(x, self.model(x))", "self.loss(x, self.model(x)), axis=1"),
            ("steps = len(x) / SIZE", "rate = 0.1 / strategy.num_replicas_in_sync"),
            ("steps = len(x) / SIZE", "import losses; losses.compute_average_loss / world_size"),
            ("strategy.run(self.step", "print(self.step"),
            (", 'CPU:1'", ""),
        ),
        ONE,
    ),
    Row(
        "loss-per-replica",
        f"{GANG}def loss_of(y, p):\n    loss = tf.reduce_mean(tf.square(y - p))  # here\n    return loss\n"
        "def step(x):\n    with tf.GradientTape() as tape:\n        loss = loss_of(x, model(x))\n"
        "strategy.run(step, args=(x,))\n",
        (("    return loss", "    return loss / num_workers"), ("= loss_of(x, model(x))", "= other(x)")),
    ),
    Row(
        "loss-per-replica",
        f"{GANG}GLOBAL_BATCH = 16\ndef step(x):\n    with tf.GradientTape() as tape:\n"
        "        loss = tf.nn.compute_average_loss(model(x), global_batch_size=GLOBAL_BATCH)\n"
        "        loss += tf.add_n(model.losses)  # here\nstrategy.run(step, args=(x,))\n",
        (
            ("tf.add_n(model.losses)", "tf.nn.scale_regularization_loss(tf.add_n(model.losses))"),
            ("tf.add_n(model.losses)", "tf.add_n(model.losses) / strategy.num_replicas_in_sync"),
            ("tf.add_n(model.losses)", "tf.add_n(others)"),
        ),
        TWO,
        (ONE, SERVED),
    ),
    Row(
        "batch-per-replica",
        f"{PAIR}BATCH_SIZE_PER_REPLICA = 8\nmodel.fit(x, y, "
        "batch_size=BATCH_SIZE_PER_REPLICA)  # here\n",
        (("= 8", "= 8 * strategy.num_replicas_in_sync"), ("size=BATCH_SIZE_PER_REPLICA", "size=SIZE")),
        ONE,
    ),
    Row(
        "mean-of-parts",
        f"{PAIR}seen = tf.keras.metrics.Mean()\ndef step(x):\n    with tf.GradientTape() as tape:\n"
        "        loss = tf.nn.compute_average_loss(model(x), global_batch_size=16)\n"
        "    seen.update_state(loss)  # here\nstrategy.run(step, args=(x,))\n",
        (
            ("update_state(loss)", "update_state(loss * strategy.num_replicas_in_sync)"),
            ("metrics.Mean()", "metrics.Sum()"),
            ("update_state(loss)", "update_state(model(x))"),
            (", 'CPU:1'", ""),
        ),
        ONE,
    ),
    Row(
        "undistributed-batches",
        f"{PAIR}data = tf.data.Dataset.range(64).shuffle(64).batch(8)\n@tf.function\ndef train(batch):\n"
        "    return strategy.run(step, args=(batch,))\nfor i, x in enumerate(data.take(5)):  # here\n    train(x)\n",
        (
            ("for i", "data = strategy.experimental_distribute_dataset(data)\nfor i"),
            ("enumerate(data.take(5))", "enumerate(strategy.experimental_distribute_dataset(data))"),
            ("tf.data.Dataset.range(64)", "read()"),
            ("shuffle(64)", "shard(2, index)"),
            ("    train(x)", "    print(x)"),
        ),
        ONE,
    ),
    Row(
        "assigned-metric",
        f"{PAIR}class Rate(tf.keras.metrics.Metric):\n    def update_state(self, y, p, sample_weight=None):\n"
        "        self.rate.assign(tf.reduce_mean(y))  # here\n",
        (
            ("assign(tf.reduce_mean(y))", "assign_add(tf.reduce_sum(y))"),
            ("assign(tf.reduce_mean(y))", "assign(self.rate + tf.reduce_sum(y))"),
            ("update_state", "reset_state"),
            ("tf.keras.metrics.Metric", "tf.Module"),
            (", 'CPU:1'", ""),
        ),
        ONE,
    ),
    Row(
        "assigned-metric",
        f"{GANG}class Rate(tf.keras.metrics.Metric):\n    def update_state(self, y, p, sample_weight=None):\n"
        "        self.rate.assign(tf.reduce_mean(y))  # here\nmodel.fit(x, y)\n",
        (("update_state", "reset_state"),),
        {**TWO, "patches": False},
        (TWO,),  # with patches, fit updates a metric of the program's own with the whole batch, once
    ),
    Row(
        "forks",
        f"{TF}from multiprocessing import Process\ndef work(rows):\n    return model.predict(rows)\n"
        "Process(target=work, args=(x,)).start()  # here\n",
        (
            ("model.predict(rows)", "rows.sum()"),
            ("target=work", "target=other"),
            ("def work", "import multiprocessing\nmultiprocessing.set_start_method('spawn')\ndef work"),
        ),
        ONE,
    ),
    Row(
        "forks",
        f"{TF}from concurrent.futures import ProcessPoolExecutor as Pool\n"
        "def load(path):\n    return tf.io.read_file(path)\nwith Pool(4) as pool:  # here\n    pool.map(load, paths)\n",
        (
            ("tf.io.read_file(path)", "open(path).read()"),
            ("Pool(4)", "Pool(4, mp_context=spawned)"),
            ("pool.map(load", "map(load"),
        ),
        ONE,
    ),
    Row(
        "results-of-one-worker",
        f"{GANG}for x in strategy.experimental_distribute_dataset(data):\n    seen = strategy.run(predict, args=(x,))\n"
        "    rows.append(tf.concat(strategy.experimental_local_results(seen), axis=0))  # here\n",
        (
            ("tf.concat(strategy.experimental_local_results(seen)", "tf.concat(strategy.gather(seen, 0)"),
            ("rows.append(tf.concat(", "print(dict(s="),
        ),
        TWO,
        (ONE, SERVED),
    ),
]  # fmt: skip
