"""Names that TensorFlow, Keras and NumPy no longer have: the list, and the errors that speak of them."""

from __future__ import annotations

import subprocess
import sys

import pytest

from clusterkit.explain.former import former, names, replaced, replacements
from clusterkit.explain.row import Evidence, TaskEvidence

GONE = {
    "module 'tensorflow' has no attribute 'Session'": ("tensorflow", "tf.Session"),
    "module 'tensorflow._api.v2.train' has no attribute 'Saver'": ("tensorflow", "tf.train.Saver"),
    "module 'tensorflow_core._api.v2.train' has no attribute 'Saver'": ("tensorflow", "tf.train.Saver"),
    "module 'keras._tf_keras.keras.metrics' has no attribute 'MeanTensor'": ("keras", "tf.keras.metrics.MeanTensor"),
    "module 'tensorflow.keras.metrics' has no attribute 'MeanTensor'": ("keras", "tf.keras.metrics.MeanTensor"),
    "module 'keras.api._v2.keras.metrics' has no attribute 'MeanTensor'": ("keras", "tf.keras.metrics.MeanTensor"),
    "module 'keras' has no attribute 'experimental'": ("keras", "tf.keras.experimental"),
    "module 'numpy' has no attribute 'float'": ("numpy", "np.float"),
}
NOT_GONE = (
    "module 'tensorflow' has no attribute 'Sesion'",
    "module 'tensorflow._api.v2.train' has no attribute 'Session'",
    "module 'my_tensorflow' has no attribute 'Session'",
    "module 'tensorflow.keras.layers' has no attribute 'Densee'",
    "module 'keras_tuner' has no attribute 'experimental'",
    "",
)


def words(text: str, root: str) -> object:
    """The condition's values for an error of this text."""
    return former(root)(Evidence((TaskEvidence(text=f"AttributeError: {text}"),)))


@pytest.mark.parametrize("text", GONE)
def test_a_name_that_is_gone(text: str) -> None:
    """However the module was imported, and whoever made it."""
    root, full = GONE[text]
    assert words(text, root) == {"name": full.rpartition(".")[2], "full": full}
    for other in {"tensorflow", "keras", "numpy"} - {root}:
        assert words(text, other) is None


@pytest.mark.parametrize("text", NOT_GONE)
def test_a_name_that_never_was(text: str) -> None:
    """It may be misspelled, or of another module."""
    assert all(words(text, root) is None for root in ("tensorflow", "keras", "numpy"))


def test_the_list_is_in_order() -> None:
    """A line for each module, and each name once."""
    assert len(names()) > 30
    assert sum(map(len, names().values())) > 500


def test_what_replaces_a_name() -> None:
    """With another way; a name without a single successor has none."""
    told = replaced("tensorflow", "Or so.")
    log, session, other = (
        told(Evidence((TaskEvidence(text=f"AttributeError: module 'tensorflow' has no attribute '{name}'"),)))
        for name in ("log", "Session", "sesion")
    )
    assert log == {"name": "log", "full": "tf.log", "advice": "Write tf.math.log. Or so."}
    assert session is not None
    assert "advice" not in session
    assert other is None


def test_each_replaced_name_is_in_the_list() -> None:
    """Otherwise nothing looks it up."""
    full = {
        name.replace("tensorflow", "tf", 1) if name.startswith("tensorflow") else f"tf.{name}"
        for name in (f"{module}.{name}" for module, listed in names().items() for name in listed)
    }
    assert set(replacements()) - full == set()


PROGRAM = """
import functools, importlib, sys
import numpy
import tensorflow as tf
from clusterkit.explain.former import names
for module, listed in names().items():
    root, _, rest = module.partition(".")
    real = {"tensorflow": tf, "keras": tf.keras, "numpy": numpy}[root]
    real = functools.reduce(getattr, rest.split(".") if rest else [], real)
    print(*(f"{module}.{name}" for name in listed if hasattr(real, name)))
"""


@pytest.mark.tensorflow
def test_the_installed_packages_have_none_of_the_listed_names() -> None:
    """A name that exists has another reason why it was not found."""
    ran = subprocess.run([sys.executable, "-W", "ignore", "-c", PROGRAM], capture_output=True, text=True, timeout=120)
    assert ran.returncode == 0, ran.stderr[-2000:]
    assert ran.stdout.split() == []
