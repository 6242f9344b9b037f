"""What names of TensorFlow and Keras mean: one name for each thing, and which of them do what."""

from __future__ import annotations

import re
from functools import cache

MULTI_WORKER = "tensorflow.distribute.MultiWorkerMirroredStrategy"
PARAMETER_SERVER = "tensorflow.distribute.ParameterServerStrategy"
COORDINATOR = "tensorflow.distribute.coordinator.ClusterCoordinator"
SERVER = "tensorflow.distribute.Server"
SERVE = "clusterkit.training.serve"
OURS = "clusterkit.training.strategy"  # makes one that fits the job, or the one that is named
NAMED = {"multi-worker": MULTI_WORKER, "parameter-server": PARAMETER_SERVER}
ALONE = {  # strategies of a single process
    "tensorflow.distribute.MirroredStrategy",
    "tensorflow.distribute.OneDeviceStrategy",
    "tensorflow.distribute.CentralStorageStrategy",
}
WRITES_TF_CONFIG, REMOVES_TF_CONFIG = "TF_CONFIG is written", "TF_CONFIG is removed"  # no calls, but marked as if

_PREFIXES = (
    (re.compile(r"^tensorflow\.(?:compat|_api)\.v2\."), "tensorflow."),
    (re.compile(r"^tensorflow\.keras\b"), "keras"),
    (re.compile(r"^keras\.api\."), "keras."),
    (re.compile(r"^tensorflow\.distribute\.experimental\."), "tensorflow.distribute."),
    (re.compile(r"^(clusterkit\.training)\.(?!strategy\.)[a-z_]+\.(?=\w)"), r"\1."),
)


@cache
def canonical(dotted: str) -> str:
    """The one name of what has several: without `compat.v2`, without `experimental` in tf.distribute."""
    for pattern, instead in _PREFIXES:
        dotted = pattern.sub(instead, dotted)
    return dotted


# Calls after which TensorFlow's context is initialised, each tried on TensorFlow 2.21 (and Keras 3.15 for the last).
_CONTEXT = frozenset((
    "constant", "Variable", "zeros", "ones", "fill", "eye", "range", "linspace", "cast", "convert_to_tensor",
    "identity", "reshape", "stack", "concat", "expand_dims", "squeeze", "transpose", "matmul", "one_hot", "print",
    "device", "random.normal", "random.uniform", "random.truncated_normal", "random.shuffle",
    "random.get_global_generator", "data.Dataset.range", "data.Dataset.list_files", "data.Dataset.zip",
    "data.Dataset.counter", "data.Dataset.random", "data.TFRecordDataset", "data.TextLineDataset", "math.add",
    "math.subtract", "math.multiply", "math.divide", "math.argmax", "math.ceil", "math.floor", "nn.relu",
    "nn.softmax", "io.read_file", "io.decode_raw", "strings.join", "image.resize", "sparse.SparseTensor",
    "ragged.constant", "summary.create_file_writer", "config.list_logical_devices",
    "config.experimental.list_logical_devices", "distribute.MirroredStrategy", "distribute.OneDeviceStrategy",
    "distribute.MultiWorkerMirroredStrategy",
))  # fmt: skip
_CONTEXT_BEGINS = ("reduce_", "math.reduce_", "random.stateless_", "random.Generator.", "data.Dataset.from_")
_CONTEXT_OF_KERAS_3 = re.compile(
    r"keras\.(?:optimizers\.(?!schedules)[A-Z]\w+|metrics\.(?!Metric\b)[A-Z]\w+|ops\.(?:zeros|ones))"
)


def initialises(name: str, keras: int | None) -> bool:
    """Whether the call initialises TensorFlow's context, after which no cluster of workers can be joined."""
    package, _, rest = name.partition(".")
    if package == "tensorflow":
        return rest in _CONTEXT or rest.startswith(_CONTEXT_BEGINS)
    return keras == 3 and bool(_CONTEXT_OF_KERAS_3.fullmatch(name))


# What was in TensorFlow and tf.keras once, and is named in tutorials still.
_GONE_FROM_KERAS = re.compile(
    r"keras\.(?:utils\.experimental|optimizers\.experimental|layers\.experimental|callbacks\.experimental|experimental"
    r"|estimator|mixed_precision\.experimental|utils\.multi_gpu_model|backend\.get_session)\b"
)
_GONE_FROM_TENSORFLOW = re.compile(r"tensorflow\.(?:estimator|contrib|Session|placeholder|app|train\.Saver)\b")
_LEGACY = re.compile(r"keras\.optimizers\.legacy\.[A-Z]\w+")


def gone(name: str, tensorflow: tuple[int, int] | None, keras: int | None) -> str | None:
    """The part of the name that these versions do not have any more; what is called `=name` is only named."""
    found = None
    if tensorflow is not None and tensorflow >= (2, 16):
        found = _GONE_FROM_TENSORFLOW.match(name, 1)
    if found is None and keras == 3:
        found = _GONE_FROM_KERAS.match(name, 1) or _LEGACY.fullmatch(name)
    return found[0] if found else None


# What a program that finds out which task it is has in its text: as a name, an attribute or a text.
_ROLE = re.compile(
    r"(?i)_*(?:get_|my_|this_)?(?:task|(?:task|job|role|worker|rank|node|process)_?(?:type|name|index|idx|id|rank))"
    r"|_*(?:is|am)_(?:the_)?(?:chief|coordinator|evaluator|leader|master|primary|worker|ps|server)"
)
_ROLE_TEXT = re.compile(r"(?i)-{0,2}(?:task|(?:task|job|role|rank|worker)[-_](?:type|name|index|id|rank))")
_CLUSTER = re.compile(r"in_cluster|has_ps|num_ps|num_workers|cluster_spec|cluster_resolver|is_\w*distributed|serve")
_CLUSTER_TEXT = re.compile(r"TF_CONFIG|CLUSTERKIT_\w+|SLURM_\w+")


def says_role(word: str, *, is_text: bool) -> bool:
    """Whether the word has to do with which task this is."""
    return bool((_ROLE_TEXT if is_text else _ROLE).fullmatch(word)) or word == "CLUSTERKIT_TASK"


def says_cluster(word: str, *, is_text: bool) -> bool:
    """Whether the word has to do with the cluster, or with which task of it this is."""
    if is_text:
        return bool(_CLUSTER_TEXT.fullmatch(word))
    return bool(_ROLE.fullmatch(word) or _CLUSTER.fullmatch(word))


# Packages whose code has nothing to do with who serves, saves or trains.
HARMLESS = frozenset((
    "tensorflow", "keras", "tf_keras", "numpy", "scipy", "sklearn", "pandas", "matplotlib", "seaborn", "PIL", "cv2",
    "absl", "clusterkit", "tqdm", "yaml", "click", "h5py", "requests", "psutil", "portpicker", "packaging", "six",
    "typing_extensions", "attr", "attrs", "rich", "termcolor", "google", "pyarrow", "joblib", "tensorboard",
    "tensorflow_datasets", "tensorflow_hub", "tensorflow_text", "tensorflow_probability", "tensorflow_addons",
))  # fmt: skip
