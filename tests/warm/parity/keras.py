"""Every way to import Keras, for both versions: one program, which tries each way in a separate fork.

What TensorFlow remembers of its import decides; so one import serves all the ways, and the same is done to a fork of
the fork server.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

LEGACY = "TF_USE_LEGACY_KERAS"

# Arguments: a statement before TensorFlow is imported, the first import, and whether to try all the ways.
PROGRAM = r"""
import os, sys, warnings
warnings.simplefilter('ignore', DeprecationWarning)
WAYS = '''
from tensorflow.keras import layers; print(layers, layers.Dense)
from tensorflow.keras.layers import Dense; print(Dense)
import tensorflow.keras as k; import tensorflow as tf; print(k, k.layers.Dense, tf.keras is k)
import tensorflow as tf; print(tf.keras.layers.Dense, tf.keras.__name__, tf.keras)
import tensorflow as tf; tf.keras.layers; from tensorflow.keras import layers; print(layers.Dense, tf.keras.layers)
import tensorflow as tf; print(tf.__path__, tf.keras, tf.optimizers.SGD, tf.losses.MeanSquaredError, tf.compat.v1.keras)
-
from tensorflow import keras; print(keras, keras.layers.Dense)
from tensorflow.python import keras; print(keras, keras.layers.Dense)
import importlib; k = importlib.import_module('tensorflow.keras'); print(k, k.layers.Dense)
import importlib.util; print(importlib.util.find_spec('tensorflow.keras').origin)
import tensorflow as tf; print(tf.compat.v1.keras.layers.Dense)
import keras; from keras import ops; from tensorflow.keras import layers; print(keras, keras.layers.Dense, ops, layers)
print([sum(name.startswith(package) for name in sys.modules) for package in ('keras.', 'tf_keras.', 'tensorflow.')])
from tensorflow.python.saved_model import revived_types; print(sorted(revived_types._REVIVED_TYPE_REGISTRY))
import tf_keras, tensorflow as tf; LATER = '1'; from tensorflow.keras import layers; print(tf.keras.layers, layers)
import tensorflow as tf; LATER = '0'; from tensorflow.keras import layers; print(tf.keras.layers, layers)
'''.replace('LATER', 'os.environ["TF_USE_LEGACY_KERAS"]')
exec(sys.argv[1])
exec(sys.argv[2])
few, rest = WAYS.split('-')
for way in (few + rest * (sys.argv[3] == 'all')).split('\n'):
    sys.stdout.flush()
    if os.fork() == 0:
        try:
            exec(way)
        except (ImportError, AttributeError) as error:
            print(way, error)
        sys.stdout.flush()
        os._exit(0)
    os.wait()
"""


@dataclass(frozen=True)
class Start:
    """How the program is started: the task's environment, and what the program does before it tries the ways."""

    env: Mapping[str, str] = field(default_factory=dict)
    before: str = ""
    first: str = "import tensorflow"


@dataclass(frozen=True)
class Choice:
    """A choice of Keras: the fork server's environment, and starts with the same result."""

    about: str
    server: Mapping[str, str]
    plain: Start
    warm: tuple[Start, ...] = ()
    package: bool = True  # whether tf_keras is installed


SET = f"os.environ['{LEGACY}'] = "
CHOICES = [
    Choice(
        "Keras 3",
        {},
        Start(),
        (
            Start({LEGACY: "0"}, first="import keras"),
            Start({LEGACY: ""}, f"{SET}'false'", "from keras import ops"),
            Start(before=f"os.putenv('{LEGACY}', '1')"),
        ),
    ),
    Choice(
        "Keras 2",
        {LEGACY: "1"},
        Start({LEGACY: "1"}),
        (
            Start({LEGACY: "True"}, first="import tf_keras"),
            Start(before=f"{SET}'true'"),
            Start(before=f"os.environ.setdefault('{LEGACY}', '1')", first="import keras"),
        ),
    ),
    Choice("Keras 2, which is not installed", {LEGACY: "1"}, Start({LEGACY: "1"}), package=False),
]
