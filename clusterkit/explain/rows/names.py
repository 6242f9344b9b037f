"""Rows about names that the installed TensorFlow or Keras no longer has."""

from __future__ import annotations

from clusterkit.explain.former import former, replaced
from clusterkit.explain.row import Row

_ONE = ("--workers", "1")
_TWO = ("--workers", "2")

ROWS: tuple[Row, ...] = (
    Row(
        "tensorflow-1-names",
        "AttributeError: module 'tensorflow' has no attribute 'Session' ('placeholder', 'train.Server')",
        r"module 'tensorflow[\w.]*' has no attribute|cannot import name '\w+' from 'tensorflow",
        "{full} is a name of TensorFlow 1, for which the program was written.",
        "As a stopgap, write tf.compat.v1 instead of tf (layers then need --keras 2, and estimators are gone). For "
        "several tasks, use tf.distribute: tf.distribute.Server instead of tf.train.Server, and a strategy.",
        replaced("tensorflow", "For the rest of the program, write tf.compat.v1 instead of tf as a stopgap."),
        ("tensorflow/models#7767",),
        _TWO,
    ),
    Row(
        "keras-2-names",
        "AttributeError: module 'keras._tf_keras.keras.metrics' has no attribute 'mean_squared_error' ('MeanTensor')",
        r"module '(?:tensorflow\.)?keras[\w.]*' has no attribute|cannot import name '\w+' from '(?:tensorflow\.)?keras"
        r"|No module named '(?:tensorflow\.)?keras\.",
        "{full} is a name of Keras 2 or earlier, which Keras 3 does not have.",
        "Run the job with --keras 2, or look up at keras.io/api what replaces {name}. In Keras 3, losses and metrics "
        "are classes, such as tf.keras.losses.MeanSquaredError().",
        replaced("keras", "Or run the job with --keras 2."),
        example=_ONE,
        general=True,
    ),
    Row(
        "layers-of-tensorflow-1",
        "AttributeError: `dense` is not available with Keras 3.",
        r"AttributeError: `(?P<name>\w+)` is not available with Keras 3",
        "{line} uses {name} of tf.compat.v1, which needs Keras 2, but the installed tf.keras is Keras 3.",
        "Run the job with --keras 2, or use the layer of tf.keras.layers, such as Dense instead of dense.",
        example=_ONE,
    ),
    Row(
        "inner-modules",
        "ModuleNotFoundError: No module named 'tensorflow.python.estimator' (ImportError: cannot import name …)",
        r"No module named '(?P<module>tensorflow(?:_core)?\.(?:python|core)[\w.]*)'"
        r"|cannot import name '\w+' from 'tensorflow(?:_core)?\.python"
        r"|AttributeError: module 'tensorflow(?:_core)?\.python[\w.]*' has no attribute '\w+'",
        "{line} imports from tensorflow.python, the internal modules of TensorFlow, which change with each version.",
        "Use the public names: tf.keras instead of tensorflow.python.keras, and tf.distribute instead of "
        "tensorflow.python.distribute. If a package imports these modules, install its release for the installed "
        "TensorFlow.",
        example=_ONE,
        general=True,
    ),
    Row(
        "dataset-options",
        "AttributeError: Cannot set the property auto_shard on DistributeOptions.",
        r"AttributeError: Cannot set the property (?P<name>\w+) on (?P<options>\w*Options)\."
        r"|AttributeError: '(?:Optimization|Distribute|Threading)?Options' object has no attribute '\w+'"
        r"|TypeError: Property \"\w+\" must be of type <",
        "{line} sets a dataset option that the installed TensorFlow does not have, or that does not accept this value.",
        "Leave the option out. To control sharding, write options.experimental_distribute.auto_shard_policy = "
        "tf.data.experimental.AutoShardPolicy.DATA, or .OFF instead of auto_shard=False.",
        example=_TWO,
    ),
    Row(
        "keras-distribution",
        "AttributeError: module 'keras.src.backend.tensorflow.distribution_lib' has no attribute 'initialize'",
        r"module 'keras[\w.]*\.tensorflow\.distribution_lib' has no attribute '(?P<name>\w+)'",
        "{line} uses keras.distribution, but its {name} works only with JAX, not with TensorFlow.",
        "Use a strategy instead: build and compile the model in `with "
        "tf.distribute.MultiWorkerMirroredStrategy().scope():`.",
        example=_TWO,
    ),
    Row(
        "estimators",
        "AttributeError: module 'tensorflow' has no attribute 'estimator'",
        r"module '(?:tensorflow|keras)[\w.]*' has no attribute 'estimator'"
        r"|cannot import name 'estimator' from 'tensorflow|No module named 'tensorflow(?:_|\.python\."
        r"|\.keras\.)estimator",
        "TensorFlow 2.16 and later have no estimators.",
        "Use fit of Keras, with callbacks instead of hooks, or a loop with a strategy. With parameter servers, use a "
        "ClusterCoordinator. As a stopgap, install TensorFlow 2.15.",
        reported=("tensorflow/tensorflow#76349", "tensorflow/gan#55", "alibaba/EasyRec#484"),
        example=_TWO,
    ),
    Row(
        "contrib",
        "AttributeError: module 'tensorflow' has no attribute 'contrib' (No module named 'tensorflow.examples')",
        r"module 'tensorflow' has no attribute '(?:contrib|examples)'"
        r"|No module named 'tensorflow\.(?:contrib|examples|models)\b",
        "tensorflow.contrib and tensorflow.examples were parts of TensorFlow 1, for which the program was written.",
        "Write tf.distribute.MultiWorkerMirroredStrategy instead of CollectiveAllReduceStrategy, tf.keras instead of "
        "tf.contrib, and tf.keras.datasets.mnist.load_data() instead of input_data.",
        reported=("tensorflow/models#7036", "tensorflow/tensorflow#62531"),
        example=_TWO,
    ),
    Row(
        "numpy-1-names",
        "AttributeError: module 'numpy' has no attribute 'float' ('int', 'object', 'float_', 'Inf')",
        r"module 'numpy' has no attribute|cannot import name '\w+' from 'numpy'",
        "{full} is a name of older NumPy versions, for which the program, or a package that it imports, was written.",
        "Write float, int and object instead of np.float, np.int and np.object, and np.inf and np.nan instead of "
        "np.Inf and np.NaN. Or upgrade the package.",
        former("numpy"),
        example=_ONE,
    ),
)
