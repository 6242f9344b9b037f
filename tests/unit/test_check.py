"""Each finding of the check: a program that has it, at the line that has it, and one like it that has not."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import pytest

from clusterkit.words.findings import Severity, Versions
from tests.unit.checks import findings, line_of, told

TF = "import json, os\nimport tensorflow as tf\nfrom clusterkit import training\n"
RESOLVER = "tf.distribute.cluster_resolver.TFConfigClusterResolver()"
PS = f"{TF}training.serve()\nstrategy = tf.distribute.ParameterServerStrategy({RESOLVER})\n"
GANG = f"{TF}strategy = tf.distribute.MultiWorkerMirroredStrategy()\n"
MODEL = "model = tf.keras.Sequential([tf.keras.layers.Dense(1)])\nmodel.compile(loss='mse')\n"
FIXED = """{"cluster": {"worker": ["localhost:12345", "localhost:23456"]}, "task": {"type": "worker", "index": 0}}"""
COORDINATOR = "tf.distribute.coordinator.ClusterCoordinator(strategy)"
HOSTS = "{'worker': ['10.0.0.1:2222', '10.0.0.2:2222']}"
CREATOR = "tf.keras.utils.experimental.DatasetCreator(make)"
TWO: dict[str, Any] = {"workers": 2}
SERVED: dict[str, Any] = {"workers": 2, "ps": 1}


@dataclass(frozen=True)
class Row:
    """A finding, the program that has it, changes by which it has not, and the job."""

    finding: str
    text: str
    without: tuple[tuple[str, str], ...] = ()
    job: dict[str, Any] = field(default_factory=lambda: TWO)
    other_jobs: tuple[dict[str, Any], ...] = ()


ROWS = [
    Row(
        "error fit-with-parameter-servers",
        f"{PS}with strategy.scope():\n    {MODEL.splitlines()[0]}\nmodel.fit(data, epochs=2)  # here\n",
        (("model.fit(data, epochs=2)", "model(data)"), ("import json", "import tf_keras, json")),
        SERVED,
        ({**SERVED, "keras": 2},),
    ),
    Row(
        "warning fit-with-parameter-servers",
        f"{PS}{MODEL}def train():\n    model.fit(data, epochs=2)  # here\nregister(train)\n",
        (("fit(data", "predict(data"), ("register", f"{COORDINATOR}\nregister")),
        SERVED,
    ),
    Row(
        "error fit-without-steps",
        f"{PS}{MODEL}def make(context): ...\ndata = {CREATOR}\nmodel.fit(data, epochs=2)  # here\n",
        (("epochs=2", "epochs=2, steps_per_epoch=9"), ("epochs=2", "epochs=2, **more"), (CREATOR, "make(0)")),
        {**SERVED, "keras": 2},
    ),
    Row(
        "warning fit-unmended",
        f"{GANG}{MODEL}model.fit(data, epochs=2)  # here\n",
        (("model.fit(data, epochs=2)", "model(data)"),),
        {**TWO, "keras_fix": False},
        (TWO, {**TWO, "keras_fix": False, "keras": 2}),
    ),
    Row(
        "error tf-config-overwritten",
        f"{TF}config = {FIXED}\nos.environ['TF_CONFIG'] = json.dumps(config)  # here\n"
        "strategy = tf.distribute.MultiWorkerMirroredStrategy()\n",
        (
            ("os.environ['TF_CONFIG'] = json.dumps(config)", "os.environ.setdefault('TF_CONFIG', json.dumps(config))"),
            ("os.environ['TF_CONFIG'] =", "if 'TF_CONFIG' not in os.environ: os.environ['TF_CONFIG'] ="),
            ("os.environ['TF_CONFIG'] =", "if not training.in_cluster(): os.environ['TF_CONFIG'] ="),
            ("['TF_CONFIG']", "['TF_CONFIG_OF_OTHERS']"),
        ),
        TWO,
        ({"workers": 1},),
    ),
    Row(
        "warning tf-config-overwritten",
        f"{TF}os.environ.update(TF_CONFIG=make_config())  # here\n{GANG}",
        (("make_config()", "mended(os.environ['TF_CONFIG'])"), ("TF_CONFIG=", "OTHER=")),
    ),
    Row(
        "warning tf-config-overwritten",
        f"{TF}os.environ.pop('TF_CONFIG', None)  # here\n{GANG}",
        (("os.environ.pop('TF_CONFIG', None)", "os.environ.get('TF_CONFIG')"),),
    ),
    Row("warning tf-config-overwritten", f"{TF}del os.environ['TF_CONFIG']  # here\n{GANG}", (("TF_CONFIG", "OTHER"),)),
    Row(
        "error strategy-after-operations",
        f"{TF}seed = tf.constant(1)\nstrategy = tf.distribute.MultiWorkerMirroredStrategy()  # here\n",
        (("tf.constant(1)", "1"), ("tf.constant(1)", "tf.random.set_seed(1)"), ("tf.distribute.MultiW", "tf.MultiW")),
        TWO,
        ({"workers": 1},),
    ),
    Row(
        "warning strategy-after-operations",
        f"{TF}if ready():\n    seed = tf.zeros(3)\nstrategy = tf.distribute.MultiWorkerMirroredStrategy()  # here\n",
        (("if ready()", "if not training.is_chief()"), ("tf.zeros", "numpy.zeros"), ("if ready()", "def later()")),
    ),
    Row(
        "error configured-too-late",
        f"{GANG}tf.config.threading.set_intra_op_parallelism_threads(2)  # here\n",
        (("strategy = tf.distribute.MultiWorkerMirroredStrategy()", ""), ("threads(2)", "threads(0)")),
    ),
    Row(
        "error no-parameter-servers",
        f"{TF}strategy = tf.distribute.experimental.ParameterServerStrategy({RESOLVER})  # here\n",
        (("strategy =", "if training.has_ps(): strategy ="), ("strategy =", "if len(sys.argv) > 1: strategy =")),
    ),
    Row(
        "error no-parameter-servers",
        f"{TF}c = tf.distribute.coordinator.ClusterCoordinator(strategy)  # here\n",
        (("c = ", "if training.has_ps(): c ="),),
    ),
    Row(
        "error multi-worker-with-ps",
        f"{TF}strategy = tf.distribute.MultiWorkerMirroredStrategy()  # here\n",
        (("strategy =", "if not training.has_ps(): strategy ="),),
        SERVED,
        (TWO,),
    ),
    Row(
        "warning multi-worker-with-ps",
        f"{TF}def make():\n    return tf.distribute.MultiWorkerMirroredStrategy()  # here\n",
        (("    return", "    if training.in_cluster(): return training.strategy()\n    return"),),
        SERVED,
    ),
    Row(
        "warning trains-alone",
        f"{TF}strategy = tf.distribute.MirroredStrategy()  # here\n{MODEL}model.fit(data, epochs=2)\n",
        (
            ("Mirrored", "MultiWorkerMirrored"),
            ("strategy =", "training.strategy()\nstrategy ="),
            ("strategy =", "task = json.loads(os.environ['TF_CONFIG'])\nstrategy ="),
            ("strategy =", "import horovod\nstrategy ="),
            ("model.fit(data, epochs=2)", "model.summary()"),
        ),
        TWO,
        ({"workers": 1},),
    ),
    Row(
        "warning parameter-servers-unused",
        f"{TF}{MODEL}model.fit(data, epochs=2)  # here\n",
        (("model.fit(data, epochs=2)", "pass"), ("model.compile", "training.serve()\nmodel.compile")),
        SERVED,
    ),
    Row(
        "error nobody-serves",
        f"{TF}strategy = tf.distribute.ParameterServerStrategy({RESOLVER})  # here\n",
        (
            ("strategy =", "training.serve()\nstrategy ="),
            ("strategy =", "tf.distribute.Server(spec)\nstrategy ="),
            ("strategy =", "if training.is_coordinator(): strategy ="),
            ("strategy =", f"if {RESOLVER}.task_type != 'chief': serve()\nstrategy ="),
            ("strategy =", "import our_launcher\nstrategy ="),
        ),
        SERVED,
        ({**SERVED, "servers": "builtin"}, {**SERVED, "task": {"ps": {"args": ["s"]}, "worker": {"args": ["s"]}}}),
    ),
    Row(
        "warning evaluator-trains",
        f"{GANG}{MODEL}model.fit(data, epochs=2)  # here\n",
        (("model.fit", "training.is_evaluator()\nmodel.fit"), ("model.fit", "training.task_type()\nmodel.fit")),
        {**TWO, "evaluator": True},
        (TWO,),
    ),
    Row(
        "warning fixed-cluster",
        f"{TF}spec = tf.train.ClusterSpec({HOSTS})  # here\n",
        ((HOSTS, "told['cluster']"), ("spec =", "if not training.in_cluster(): spec =")),
        TWO,
        ({"workers": 1},),
    ),
    Row(
        "warning backup-shared",
        f"{GANG}{MODEL}kept = tf.keras.callbacks.BackupAndRestore('/tmp/backup')  # here\nmodel.fit(data)\n",
        (
            ("'/tmp/backup'", "f'/tmp/backup-{training.task_index()}'"),
            ("'/tmp/backup'", "tempfile.mkdtemp()"),
            ("tf.keras.callbacks.BackupAndRestore('/tmp/backup')", "training.Backup()"),
        ),
        TWO,
        ({"workers": 1}, {**TWO, "keras": 2}),
    ),
    Row(
        "warning save-shared",
        f"{GANG}num_workers = len(json.loads(os.environ['TF_CONFIG'])['cluster']['worker'])\n{MODEL}"
        "model.save('/tmp/model.keras')  # here\n",
        (("model.save(", "if training.is_chief(): model.save("), ("/tmp/model.keras'", "/tmp/%d' % task_id")),
        TWO,
        ({"workers": 1},),
    ),
    Row(
        "warning never-restored",
        f"{GANG}c = tf.train.CheckpointManager(x, path, 3)  # here\nwith tf.GradientTape() as tape: ...\n",
        (("c =", "tf.train.latest_checkpoint(path)\nc ="), ("tf.GradientTape()", "strategy.scope()")),
        {"workers": 1},
        ({"workers": 1, "restart": "never"},),
    ),
    Row("error removed", f"{TF}made = tf.keras.utils.experimental.DatasetCreator  # here\n", (("experimental.", ""),)),
    Row("error removed", f"{TF}from tensorflow import estimator  # here\n", (("import estimator", "import keras"),)),
    Row(
        "error removed",
        f"{TF}sgd = tf.keras.optimizers.legacy.SGD()  # here\n",
        (("legacy.SGD()", "SGD()"), ("sgd =", "try: sgd ="), ("sgd =", "legacy = 'TF_USE_LEGACY_KERAS'\nsgd =")),
        TWO,
        ({**TWO, "keras": 2},),
    ),
]  # fmt: skip


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.finding)
def test_a_program_that_has_it(row: Row) -> None:
    """The finding is there, and at the right line; nothing else is said of the program."""
    found = [each for each in findings(row.text, **row.job) if each.id != "no-checkpoint"]
    assert [f"{each.severity} {each.id}" for each in found] == [row.finding]
    assert (found[0].place.file, found[0].place.line) == ("main.py", line_of(row.text))
    assert found[0].what.endswith(".")
    assert found[0].advice.endswith(".")


@pytest.mark.parametrize(
    ("row", "change"), [(row, change) for row in ROWS for change in row.without], ids=lambda value: str(value)[:60]
)
def test_the_same_program_without_it(row: Row, change: tuple[str, str]) -> None:
    """A small change of the text, and it is not said."""
    assert change[0] in row.text
    text = row.text.replace(*change)
    if "try:" in change[1]:
        text += "except ImportError: pass\n"
    assert row.finding not in told(text, **row.job)


@pytest.mark.parametrize(
    ("row", "job"), [(row, job) for row in ROWS for job in row.other_jobs], ids=lambda value: str(value)[:60]
)
def test_the_same_program_in_another_job(row: Row, job: dict[str, Any]) -> None:
    """It is a matter of the job, too."""
    assert row.finding not in [f"{each.severity} {each.id}" for each in findings(row.text, **job)]


NO_CHECKPOINT = f"{GANG}{MODEL}model.fit(data, epochs=2)  # here\n"


def test_work_that_is_lost_by_a_restart() -> None:
    """No checkpoint at all is worth a word, unless nothing is restarted, or something is saved."""
    (found,) = findings(NO_CHECKPOINT, workers=2)
    assert (found.id, found.severity, found.place.line) == ("no-checkpoint", Severity.WARNING, line_of(NO_CHECKPOINT))
    assert findings(NO_CHECKPOINT, workers=2, restart="never") == []
    assert findings(NO_CHECKPOINT + "training.Checkpointer(model=model).restore()\n", workers=2) == []


def test_a_line_that_is_no_python() -> None:
    """It can't be started at all, with TensorFlow or without."""
    (found,) = findings("x = 1\ndef f(:\n    pass\n")
    assert (found.id, found.severity, found.place.line) == ("syntax-error", Severity.ERROR, 2)


@pytest.mark.parametrize(("tensorflow", "keras"), [((2, 15), 2), (None, None)])
def test_nothing_is_said_of_versions_that_have_it_or_are_not_known(
    tensorflow: tuple[int, int] | None, keras: int | None
) -> None:
    """What was removed is there in old ones, and Keras 2 can fit under ParameterServerStrategy."""
    text = f"{PS}{MODEL}model.fit(tf.estimator.x, epochs=2)\nx = tf.keras.optimizers.legacy.SGD()\n"
    assert told(text, versions=Versions(tensorflow, keras), **SERVED) == []
