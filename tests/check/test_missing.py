"""Modules that are not installed, and names that TensorFlow, Keras and NumPy do not have."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest

from clusterkit.check import installed
from clusterkit.check.findings import Finding, Severity
from clusterkit.check.reading import findings_of
from clusterkit.words.model import ProgramKind
from tests.check.checks import HERE, findings, line_of
from tests.histories import build_job

SERVED = (
    "resolver = tf.distribute.cluster_resolver.TFConfigClusterResolver()\n"
    "if resolver.task_type in ('worker', 'ps'):\n    tf.distribute.Server(resolver.cluster_spec()).join()\n"
    "strategy = tf.distribute.ParameterServerStrategy(resolver)\n"
)
NAMES, MODULES = ["missing-name"], ["missing-module"]
TF = "import tensorflow as tf\n"
V1 = "import tensorflow.compat.v1 as tf\n"
NP = "import numpy as np\n"


def names(text: str, **more: Any) -> list[Finding]:
    """The findings about names."""
    return findings(text, rules=NAMES, **more)


def modules(text: str, **more: Any) -> list[Finding]:
    """The findings about modules."""
    return findings(text, rules=MODULES, **more)


@pytest.mark.parametrize(
    ("text", "keras", "said"),
    [
        (f"{TF}tf.estimator.Estimator(f)  {HERE}\n", 3, "has no tf.estimator, so every run fails"),
        (f"{TF}x = tf.contrib.slim.conv2d  {HERE}\n", 3, "has no tf.contrib, so"),
        (f"from tensorflow.contrib import slim  {HERE}\n", 3, "has no tf.contrib, so"),
        (f"import tensorflow.contrib.slim as slim  {HERE}\n", 3, "has no tf.contrib, so"),
        (f"from tensorflow import placeholder  {HERE}\n", 3, "tf.compat.v1.placeholder still has"),
        (f"{TF}tf.set_random_seed(1)  {HERE}\n", 3, "tf.compat.v1.set_random_seed still has"),
        (f"{V1}tf.estimator.RunConfig()  {HERE}\n", 3, "has no tf.compat.v1.estimator"),
        (f"from tensorflow.keras.utils import np_utils  {HERE}\n", 3, "has no tf.keras.utils.np_utils"),
        (f"from keras.utils import np_utils  {HERE}\n", 3, "Keras 3"),
        (f"{TF}tf.keras.layers.Dens(1)  {HERE}\n", 3, "has no tf.keras.layers.Dens,"),
        (f"from tensorflow.keras.wrappers import scikit_learn  {HERE}\n", 2, "has no tf.keras.wrappers,"),
        (f"{TF}x = tf.keras.utils.PyDataset  {HERE}\n", 2, "Use what this version has instead"),
        (f"{NP}x = np.float(1)  {HERE}\n", 3, "has no np.float, so every run fails at this line"),
        (f"{NP}x = np.float_(1)  {HERE}\n", 3, "has no np.float_,"),
        (f"{TF}def f(x):\n    return tf.contrib.foo  {HERE}\n", 3, "a run that gets to this line fails"),
        (f"{TF}def f():\n    return tf.contrib\nx = tf.contrib  {HERE}\n", 3, "every run fails"),
    ],
)
def test_a_name_that_is_not_there(text: str, keras: int, said: str) -> None:
    """With the version that does not have it; an error where every run comes to the line."""
    (found,) = names(text, keras=keras)
    assert said in f"{found.what} {found.advice}"
    assert found.location.line == line_of(text)
    assert (found.severity is Severity.ERROR) == ("every run" in found.what)


@pytest.mark.parametrize(
    "text",
    [
        f"{TF}tf.keras.layers.Dense(1)\ntf.data.Dataset.range(3).what\ntf.optimizers.Adam().anything\n",
        f"{TF}tf.distribute.experimental.ParameterServerStrategy\ntf.distribute.experimental.coordinator.ClusterCoordinator\n",
        f"{V1}tf.placeholder(tf.float32)\ntf.train.MonitoredTrainingSession()\n",
        f"{TF}tf.__version__\ntf.__internal__.tracking.Trackable\ntf.python.whatever\ntf.lite.whatever\n",
        "from tensorflow.python.keras import backend\nfrom tensorflow.python.framework import ops\n",
        "try:\n    from tensorflow.contrib import slim\nexcept ImportError:\n    slim = None\n",
        "try:\n    import tensorflow.contrib as c\nexcept:\n    pass\n",
        f"{TF}if hasattr(tf, 'contrib'):\n    tf.contrib.foo()\n",
        f"{TF}if tf.__version__.startswith('1'):\n    tf.set_random_seed(1)\n",
        f"{TF}tf.contrib = object()\ntf.contrib.foo\n",
        f"{TF}import sys\nsys.modules['tensorflow.contrib'] = sys\ntf.contrib\n",
        f"{TF}from contextlib import suppress\nwith suppress(AttributeError):\n    tf.contrib\n",
        f"{NP}np.float32(1)\nnp.bool\nnp.random.rand(1)\nnp.whatever_comes\n",
        "from keras import *\nfrom keras.src import layers\n",
        "import keras_tuner, tensorflow_probability\nkeras_tuner.whatever\n",
        "tf = object()\ntf.contrib\n",
    ],
)
def test_names_that_are_there_or_may_be(text: str) -> None:
    """Nothing is said of what the program expects to be missing, or defines itself."""
    assert names(text) == []


def test_other_environments_are_not_looked_at() -> None:
    """Another interpreter, or other hosts, may have another version."""
    text = f"{TF}tf.contrib\nimport nothing_of_this_name\n"
    assert len(findings(text, rules=[*NAMES, *MODULES])) == 2
    for options in ({"python": "/opt/python/bin/python"}, {"env": {"PYTHONPATH": "/opt/lib"}}):
        assert findings(text, rules=[*NAMES, *MODULES], **options) == []


@pytest.mark.parametrize(
    "text",
    [
        f"import nothing_of_this_name  {HERE}\n",
        f"import os\nfrom nothing_of_this_name.part import x  {HERE}\n",
        f"def main():\n    import nothing_of_this_name  {HERE}\nmain()\n",
    ],
)
def test_a_module_that_is_not_there(text: str) -> None:
    """An error, with the interpreter."""
    (found,) = modules(text)
    assert (found.word, found.severity) == ("nothing_of_this_name", Severity.ERROR)
    assert "interpreter, /" in found.what
    assert found.location.line == line_of(text)


@pytest.mark.parametrize(
    "text",
    [
        "import os, sys, json, numpy, yaml_of_no_name if 0 else os\n".replace(", yaml_of_no_name if 0 else os", ""),
        "try:\n    import nothing_of_this_name\nexcept ImportError:\n    nothing_of_this_name = None\n",
        "if __name__ == '__main__' and 0:\n    import nothing_of_this_name\n",
        "import sys\nsys.path.append('lib')\nimport nothing_of_this_name\n",
        "import sys as s\ns.path.insert(0, 'lib')\nimport nothing_of_this_name\n",
        "import site\nsite.addsitedir('lib')\nimport nothing_of_this_name\n",
        "import subprocess\nsubprocess.run(['protoc'])\nimport nothing_of_this_name\n",
        "import os\nos.system('pip install x')\nimport nothing_of_this_name\n",
        "open('nothing_of_this_name.py', 'w').close()\nimport nothing_of_this_name\n",
        "raise SystemExit\nimport nothing_of_this_name\n",
        "while True:\n    print(1)\nimport nothing_of_this_name\n",
        "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    import nothing_of_this_name\n",
        "from . import nothing_of_this_name\n",
    ],
)
def test_modules_that_are_there_or_may_be(text: str) -> None:
    """Also what the program may find elsewhere, create or install."""
    assert modules(text) == []


def test_what_the_environment_has_is_found(tmp_path: Path) -> None:
    """Packages, modules of the standard library, the program's own, and namespace packages."""
    (tmp_path / "own.py").touch()
    (tmp_path / "space").mkdir()
    assert [installed.is_in(name, [tmp_path]) for name in ("own", "space", "other")] == [True, True, False]
    assert all(map(installed.is_installed, ("sys", "json", "tensorflow", "clusterkit")))
    assert not installed.is_installed("nothing_of_this_name")


HOSTILE = (
    "",
    ".",
    "..",
    "a..b",
    "tensorflow.",
    "tensorflow..x",
    "\0",
    "numpy.\0",
    "é",
    "tensorflow.*",
    "keras.[",
    "/etc",
)


def test_any_name_has_an_answer() -> None:
    """Also those that no program can import."""
    chance = random.Random(seed := random.randrange(2**32))
    print("seed", seed)
    parts = [*HOSTILE, "tensorflow", "keras", "numpy", "compat", "v1", "layers", "data", "__internal__"]
    for name in (*HOSTILE, *(".".join(chance.choices(parts, k=chance.randint(1, 6))) for _ in range(300))):
        found = installed.missing_part(name)
        assert found == "" or name.startswith(found)
        installed.is_installed(name.partition(".")[0])


@pytest.mark.tensorflow
def test_what_tensorflow_has_is_not_missing() -> None:
    """Each attribute of its modules, and of those of Keras and NumPy."""
    import keras
    import numpy as np
    import tensorflow as tf

    places = {"tensorflow": tf, "keras": keras, "numpy": np, "tensorflow.keras": tf.keras}
    places |= {f"tensorflow.{name}": getattr(tf, name) for name in ("data", "distribute", "train", "math", "io")}
    places |= {"tensorflow.compat.v1": tf.compat.v1, "tensorflow.distribute.experimental": tf.distribute.experimental}
    version = 3 if tf.keras.__version__.startswith("3") else 2
    for module, place in places.items():
        assert [name for name in dir(place) if installed.missing_part(f"{module}.{name}", version)] == []


@pytest.mark.parametrize(
    ("text", "version"),
    [
        ("import tf_keras as keras\n", 2),
        ("from tf_keras import layers\n", 2),
        ("import os\nos.environ['TF_USE_LEGACY_KERAS'] = '1'\n", 2),
        ("from tensorflow import keras\n", 3),
    ],
)
def test_a_program_may_choose_its_keras(text: str, version: int, tmp_path: Path) -> None:
    """fit on parameter servers fails in Keras 3 alone."""
    (tmp_path / "train.py").write_text(
        f"{text}import tensorflow as tf\n{SERVED}"
        "with strategy.scope():\n    model = keras.Sequential([keras.layers.Dense(1)])\n    model.compile('sgd')\n"
        "model.fit(rows, steps_per_epoch=4)\n"
    )
    options = {"program": str(tmp_path / "train.py"), "workers": 2, "ps": 1}
    found = findings_of(build_job(options, ProgramKind.SCRIPT))
    assert ("keras-3-fit" in [one.id for one in found]) == (version == 3)
