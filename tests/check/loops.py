"""Programs whose loops have no end, or train on one device or with one rate, each with the finding that it has."""

from __future__ import annotations

from tests.check.programs import GANG, ONE, SERVED, TF, TWO, Row
from tests.check.shares import PAIR

LOOPS = [
    Row(
        "endless-epoch",
        f"{GANG}def read(path):\n    rows = tf.data.TFRecordDataset(path).repeat().batch(8)\n    return rows\n"
        "data = read(p).prefetch(2)\nmodel.fit(data, epochs=3)  # here\n",
        (
            ("repeat()", "repeat(3)"),
            ("epochs=3", "epochs=3, steps_per_epoch=9"),
            ("epochs=3", "**options"),
            ("prefetch(2)", "take(9)"),
            ("    return rows", "    if not path:\n        return none\n    return rows"),
            ("read(p)", "others.read(p)"),
        ),
        TWO,
    ),
    Row(
        "endless-epoch",
        f"{GANG}data = strategy.experimental_distribute_dataset(tf.data.Dataset.range(64).batch(8).repeat())\n"
        "for number, x in enumerate(data):  # here\n    train(x)\n",
        (("    train(x)", "    if number > 9: break\n    train(x)"), ("enumerate(data)", "zip(range(9), data)")),
        TWO,
    ),
    Row(
        "endless-epoch",
        f"{GANG}def rows():\n    while True:\n        yield read()\n"
        "data = tf.data.Dataset.from_generator(rows, output_signature=x).batch(8)\nmodel.fit(data)  # here\n",
        (
            ("while True", "for part in parts"),
            ("        yield read()", "        if over(): return\n        yield read()"),
            ("model.fit(data)", "model.fit(data, steps_per_epoch=9)"),
            ("batch(8)", "batch(8).take(9)"),
        ),
        TWO,
    ),
    Row(
        "endless-epoch",
        f"{GANG}def rows():\n    while True:\n        yield read()\nmodel.fit(rows(), epochs=3)  # here\n",
        (("fit(rows()", "fit(rows"),),
        TWO,
    ),
    Row(
        "one-device-alone",
        f"{PAIR}with strategy.scope():\n    model = build()\ndef step(x):\n    with tf.GradientTape() as tape:\n"
        "        loss = loss_of(model(x))\n    optimizer.apply_gradients(zip(tape.gradient(loss, w), w))  # here\n"
        "for x in data:\n    step(x)\n",
        (
            ("    step(x)", "    strategy.run(step, args=(x,))"),
            ("    step(x)", "    model.fit(x)"),
            ("optimizer.apply_gradients", "print"),
            (", 'CPU:1'", ""),
        ),
        ONE,
    ),
    Row(
        "metric-of-one-worker",
        f"{GANG}seen = tf.keras.metrics.SparseCategoricalAccuracy()  # here\ndef step(x, y):\n"
        "    seen.update_state(y, model(x))\nstrategy.run(step, args=(x, y))\n",
        (
            ("seen = tf", "with strategy.scope(): seen = tf"),
            ("keras.metrics", "mine"),
            ("strategy.run(step", "print(step"),
        ),
        TWO,
        (ONE, SERVED),
    ),
    Row(
        "counting-schedule",
        f"{TF}class Halved(tf.keras.optimizers.schedules.LearningRateSchedule):\n    def __call__(self, step):\n"
        "        self.calls += 1  # here\n        return 0.1 / self.calls\n"
        "def step(x):\n    optimizer.apply_gradients(x)\n@tf.function\ndef train(x):\n    strategy.run(step, (x,))\n",
        (
            ("0.1 / self.calls", "0.1 / step"),
            ("self.calls += 1", "self.calls.assign_add(1)"),
            ("self.calls += 1", "self.last = 1"),
            ("@tf.function", "@timed"),
            ("schedules.LearningRateSchedule", "Optimizer"),
            ("optimizer.apply_gradients(x)", "print(x)"),
            ("@tf.function", "model.compile(optimizer, run_eagerly=True)\n@tf.function"),
            ("@tf.function", "tf.config.run_functions_eagerly(True)\n@tf.function"),
        ),
        ONE,
    ),
]  # fmt: skip
