"""Each finding of the check: a program that has it, at the line that has it, and ones like it that have not."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import pytest

from clusterkit.check.findings import Severity
from clusterkit.check.rules import RULES, HidingFile
from tests.check.checks import findings, line_of, told

TF = "import json, os\nimport tensorflow as tf\nfrom clusterkit import training\n"
RESOLVER = "tf.distribute.cluster_resolver.TFConfigClusterResolver()"
MADE = "tf.distribute.MultiWorkerMirroredStrategy()"
PLAIN = "import tensorflow as tf\nmodel = tf.keras.Sequential([tf.keras.layers.Dense(1)])\nmodel.compile('sgd')\n"
GANG = f"{TF}strategy = {MADE}\n"
CLUSTER = "{'cluster': {'worker': ['localhost:12345', 'localhost:23456']}, 'task': {'type': 'worker', 'index': 0}}"
TWO: dict[str, Any] = {"workers": 2}
SERVED: dict[str, Any] = {"workers": 2, "ps": 1}
ONE: dict[str, Any] = {"workers": 1}


@dataclass(frozen=True)
class Row:
    """A finding, a program that has it, changes that remove it, and the job."""

    finding: str
    text: str
    without: tuple[tuple[str, str], ...] = ()
    job: dict[str, Any] = field(default_factory=lambda: TWO)
    other_jobs: tuple[dict[str, Any], ...] = ()


ROWS = [
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
    ),
    Row(
        "strategy-too-late",
        f"{TF}def main(argv):\n    optimizer = tf.keras.optimizers.Adam()\n    strategy = training.strategy()  # here\n"
        "import absl.app\nabsl.app.run(main)\n",
        (("tf.keras.optimizers.Adam()", "tf.keras.optimizers.schedules.X()"), ("y()  #", "y('mirrored')  #")),
        TWO,
        ({**TWO, "keras": 2},),
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
    ),
    Row(
        "wrong-strategy",
        f"{TF}strategy = {MADE}  # here\n",
        (("strategy =", "if not training.has_ps(): strategy ="), ("strategy =", "def make(): strategy =")),
        SERVED,
        (TWO,),
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
        f"{GANG}data = tf.data.Dataset.range(9).shuffle(9)  # here\n",
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


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.finding)
def test_each_rule_finds_its_program(row: Row) -> None:
    """There is exactly one finding: a warning at the right line."""
    (found,) = findings(row.text, **row.job)
    assert (found.id, found.severity) == (row.finding, Severity.WARNING)
    assert (found.location.file, found.location.line) == ("main.py", line_of(row.text))
    assert found.what.endswith(".")
    assert found.advice.endswith(".")


@pytest.mark.parametrize(
    ("row", "change"), [(row, change) for row in ROWS for change in row.without], ids=lambda value: str(value)[:60]
)
def test_a_small_change_removes_the_finding(row: Row, change: tuple[str, str]) -> None:
    """The changed program has no finding."""
    assert change[0] in row.text
    assert row.finding not in told(row.text.replace(*change), **row.job)


@pytest.mark.parametrize(
    ("row", "job"), [(row, job) for row in ROWS for job in row.other_jobs], ids=lambda value: str(value)[:60]
)
def test_another_job_has_no_finding(row: Row, job: dict[str, Any]) -> None:
    """The finding depends on the job too."""
    assert row.finding not in told(row.text, **job)


def test_a_file_that_hides_a_module_is_a_finding() -> None:
    """It does not depend on the program's text."""
    hides = (HidingFile("lib/random.py", "random", "Python's own module"),)
    (found,) = findings(TF, hides=hides)
    assert (found.id, str(found.location)) == ("hides-module", "lib/random.py:1")
    assert "This file hides Python's own module random from everything" in found.what
    assert findings(TF) == []


def test_each_rule_has_a_row() -> None:
    """A new rule needs a row in the table above."""
    assert set(RULES) == {row.finding for row in ROWS} | {"hides-module"}


ALIASES = {
    "as people write it": "import tensorflow as tf\ntf.zeros(1)\ns = tf.distribute.MultiWorkerMirroredStrategy()",
    "its whole name": "import tensorflow\ntensorflow.zeros(1)\ntensorflow.distribute.MultiWorkerMirroredStrategy()",
    "from": "from tensorflow import distribute as d, zeros\nzeros(1)\nd.MultiWorkerMirroredStrategy()",
    "the name alone": (
        "import tensorflow as tf\nfrom tensorflow.distribute import MultiWorkerMirroredStrategy as M\ntf.zeros(1)\nM()"
    ),
    "experimental": "import tensorflow as tf\ntf.zeros(1)\ntf.distribute.experimental.MultiWorkerMirroredStrategy()",
    "compat": "import tensorflow.compat.v2 as tf\ntf.zeros(1)\ntf.distribute.MultiWorkerMirroredStrategy()",
    "a variable": "import tensorflow as tf\nd = tf.distribute\nm = d.MultiWorkerMirroredStrategy\ntf.zeros(1)\nm()",
    "Keras of its own": f"import tensorflow as tf\nfrom tensorflow import keras\nkeras.optimizers.Adam()\n{MADE}",
    "Keras alone": f"import keras\nimport tensorflow as tf\nkeras.metrics.Mean()\n{MADE}",
    "clusterkit's": "import tensorflow as tf\nfrom clusterkit import training\ntf.zeros(1)\ntraining.strategy()",
    "imported twice": f"import tensorflow as tf\ndef f():\n    import tensorflow as tf\ntf.zeros(1)\n{MADE}",
}


@pytest.mark.parametrize("text", ALIASES.values(), ids=ALIASES)
def test_all_import_styles_are_known(text: str) -> None:
    """A function is recognized however it was imported."""
    assert told(text, **TWO) == ["strategy-too-late"]


MODULES = {
    "an import": ("import model\n", ["strategy-too-late"]),
    "from": ("from model import x\n", ["strategy-too-late"]),
    "in a branch": ("import sys\nif len(sys.argv) > 1:\n    import model\n", []),
    "in a try": ("try:\n    import model\nexcept ImportError: pass\n", []),
    "behind an exit": ("import sys\nif len(sys.argv) > 1: sys.exit()\nimport model\n", []),
}


@pytest.mark.parametrize(("text", "expected"), MODULES.values(), ids=MODULES)
def test_the_programs_own_modules_are_read(text: str, expected: list[str]) -> None:
    """Only modules that the program always imports are checked."""
    late = f"import tensorflow as tf\ntf.zeros(1)\n{MADE}\n"
    assert told(text, files={"model.py": late}, **TWO) == expected


def test_unreached_code_is_checked_after_a_failure() -> None:
    """It includes branches, methods, and an initialization that the check can't see."""
    branch = f"import tensorflow as tf, sys, data\nif sys.argv:\n    x = tf.zeros(1)\n    s = {MADE}\n"
    method = (
        f"import tensorflow as tf, data\nclass T:\n    def run(self):\n        return {MADE}\ndata.load()\nT().run()\n"
    )
    for text in (branch, method):
        assert told(text, **TWO) == []
        assert told(text, strict=False, **TWO) == ["strategy-too-late"]


@pytest.mark.parametrize("text", ["x = " + "(" * 90 + "1" + ")" * 90, "f" + ".a" * 900, "f(" * 90 + ")" * 90])
def test_a_text_that_nests_deeply_is_read(text: str) -> None:
    """It has no finding."""
    assert told(f"import tensorflow as tf\n{text}\n", **TWO) == []


def test_circular_names_end() -> None:
    """Circular names end the search, and a function with very many callers is evaluated once."""
    calls = "".join(f"def f{n}():\n    f{n + 1}()\n    f{n + 1}()\n" for n in range(60))
    assert told(f"import tensorflow as tf\na = b\nb = a\na.zeros(1)\n{calls}def f60():\n    {MADE}\n", **TWO) == []


def test_recursive_functions_end() -> None:
    """Functions that only call each other count as not called."""
    text = f"import tensorflow as tf\ndef a():\n    tf.zeros(1)\n    {MADE}\n    b()\ndef b():\n    a()\n"
    assert told(text, **TWO) == []
    assert told(text + "b()\n", **TWO) == ["strategy-too-late"]
