"""Programs for gangs whose rows are shuffled without a seed, each with the changes that remove the finding."""

from __future__ import annotations

from tests.check.programs import GANG, ONE, SERVED, TWO, Row

NUMPY = "import random\nimport numpy as np\nfrom sklearn.model_selection import train_test_split\n"
MODEL = "with strategy.scope():\n    model = tf.keras.Sequential()\n    model.compile('sgd', 'mse')\n"

SHUFFLED = [
    Row(
        "unseeded-rows",
        f"{NUMPY}{GANG}{MODEL}class Batches(tf.keras.utils.PyDataset):\n    def on_epoch_end(self):\n"
        "        np.random.shuffle(self.order)  # here\nmodel.fit(Batches(), epochs=2)\n",
        (
            ("strategy = ", "tf.keras.utils.set_random_seed(1)\nstrategy = "),
            ("strategy = ", "np.random.seed(1)\nstrategy = "),
            ("np.random.shuffle", "self.random.shuffle"),
            ("keras.utils.PyDataset", "Module"),
            ("model.fit(Batches()", "model.fit(data"),
            ("model.fit", "if training.has_ps(): model.fit"),
            ("strategy = ", "data = data.shard(2, me)\nstrategy = "),
        ),
        TWO,
        (ONE, SERVED, {**TWO, "restart_scope": "task"}),
    ),
    Row(
        "unseeded-rows",
        f"{NUMPY}{GANG}tf.random.set_seed(1)\n{MODEL}def rows():\n"
        "    for number in np.random.permutation(9):  # here\n        yield x[number]\n"
        "data = tf.data.Dataset.from_generator(rows, output_signature=t)\ndata = data.batch(3)\nmodel.fit(x=data)\n",
        (
            ("permutation(9)", "uniform(9)"),
            ("np.random.permutation(9)", "np.random.default_rng(1).permutation(9)"),
            ("from_generator(rows", "from_generator(other_rows"),
        ),
    ),
    Row(
        "unseeded-rows",
        f"{NUMPY}{GANG}rng = np.random.default_rng()\nnp.random.seed(1)\norder = rng.permutation(9)  # here\n"
        "x = x[order]\ndata = strategy.experimental_distribute_dataset(tf.data.Dataset.from_tensor_slices(x))\n",
        (("default_rng()", "default_rng(1)"), ("x = x[order]", "n = len(order)"), ("experimental_", "")),
    ),
    Row(
        "unseeded-rows",
        f"{NUMPY}{GANG}{MODEL}def load():\n    files = list_of(x)\n    random.shuffle(files)  # here\n"
        "    return files\nmodel.fit(tf.data.TFRecordDataset(load()))\n",
        (
            ("random.shuffle(files)", "random.shuffle(names)"),
            ("TFRecordDataset(load())", "TFRecordDataset(found)"),
            ("    return files\n", "    return 0\nfiles = list_of(x)\ndef load():\n    return files\n"),  # another name
        ),
    ),
    Row(
        "unseeded-rows",
        f"{NUMPY}{GANG}{MODEL}a, b = train_test_split(x)  # here\nmodel.fit(a, epochs=2)\n",
        (
            ("split(x)", "split(x, random_state=3)"),
            ("split(x)", "split(x, shuffle=False)"),
            ("fit(a", "fit(a.shape"),
        ),
    ),
    Row(
        "unseeded-rows",
        f"{NUMPY}{GANG}{MODEL}order = random.sample(range(n), n)  # here\nmodel.fit(x[order])\n",
        (
            ("order =", "if x: order ="),
            ("range(n), n", "range(n), 8"),
            ("random.sample(range(n), n)", "random.Random(3).sample(range(n), n)"),
        ),
    ),
]  # fmt: skip
