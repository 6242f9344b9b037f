"""Rows about a program's environment: installed versions, memory, threads, devices and standard input."""

from __future__ import annotations

from clusterkit.explain.row import HOLDS, Evidence, Row, Words

_ONE = ("--workers", "1")
_TWO = ("--workers", "2")


def _spawned_again(evidence: Evidence) -> Words | None:
    """Check whether a process that the program spawned runs the whole program again."""
    first = evidence.first
    return HOLDS if "finished its bootstrapping phase" in f"{first.before}\n{first.text}" else None


ROWS: tuple[Row, ...] = (
    Row(
        "protobuf-without-versions",
        "ImportError: cannot import name 'runtime_version' from 'google.protobuf'",
        r"ImportError: cannot import name 'runtime_version' from 'google\.protobuf'"
        r"|Descriptors cannot (?:not )?be created directly|'MessageFactory' object has no attribute 'GetPrototype'",
        "The protobuf package that {task} imports does not match the version for which TensorFlow or another package "
        "was built.",
        "Run pip install --upgrade protobuf in the tasks' environment, then pip check.",
        reported=("tensorflow/models#11192", "onnx/tensorflow-onnx#2418"),
        example=(*_ONE, "--start", "cold"),
    ),
    Row(
        "protobuf-older-than-its-code",
        "VersionError: Detected incompatible Protobuf Gencode/Runtime versions",
        r"VersionError: Detected (?:incompatible|mismatched) Protobuf Gencode/Runtime",
        "The protobuf package that {task} imports does not match the version for which TensorFlow or another package "
        "was built.",
        "Run pip install --upgrade protobuf in the tasks' environment, then pip check.",
        reported=("tensorflow/tensorflow#98980",),
        example=(*_ONE, "--start", "cold"),
    ),
    Row(
        "numpy-of-another-version",
        "A module that was compiled using NumPy 1.x cannot be run in NumPy 2",
        r"A module that was compiled using NumPy 1\.x cannot be run in",
        "A package that the program imports was built for NumPy 1, but NumPy 2 is installed.",
        "Upgrade that package, or run pip install 'numpy<2' if your TensorFlow version allows it. Then run pip check.",
        reported=("tensorflow/tensorflow#102743", "CameronBodine/PINGMapper#123"),
        example=_ONE,
    ),
    Row(
        "tf-keras-of-another-version",
        "AttributeError: module 'tensorflow….__internal__' has no attribute 'register_load_context_function'",
        r"AttributeError: module 'tensorflow[\w.]*__internal__[\w.]*' has no attribute '(?P<name>\w+)'",
        "tf_keras, or another package, was made for another version of TensorFlow. The installed TensorFlow has no "
        "{name}.",
        "Run pip install 'tf_keras==X.Y.*', with the X.Y of your TensorFlow version, then pip check.",
        reported=("katanemo/plano#231", "unslothai/unsloth#2043", "keras-team/tf-keras#257"),
        example=_ONE,
    ),
    Row(
        "no-tf-keras",
        "ImportError: Keras cannot be imported. Check that it is installed.",
        r"ImportError: Keras cannot be imported\. Check that it is installed"
        r"|Your currently installed version of Keras is Keras 3, but this is not yet supported in",
        "Keras 2 is required, by --keras 2, TF_USE_LEGACY_KERAS or a package such as transformers, but its package "
        "tf_keras is not installed.",
        "Run pip install 'tf_keras==X.Y.*', with the X.Y of your TensorFlow version, or leave TF_USE_LEGACY_KERAS "
        "unset.",
        example=_TWO,
    ),
    Row(
        "library-too-old",
        "/lib64/libstdc++.so.6: version `GLIBCXX_3.4.29' not found (required by …)",
        r"(?P<library>[^\s/]{1,200}\.so[.\d]*): version `(?P<version>[A-Z][\w.]{1,60})' not found \(required by "
        r"(?P<by>[^)\n]{1,300})\)",
        "{by} was built for a newer {library}. The {library} that {task} loads has no {version}.",
        "Reinstall the package of {by} for this machine. For libstdc++, let the tasks find a newer one, such as "
        "conda's: clusterkit up --env LD_LIBRARY_PATH=$CONDA_PREFIX/lib.",
        reported=("horovod/horovod#97", "horovod/horovod#406"),
        example=_ONE,
    ),
    Row(
        "tensor-too-large",
        "ResourceExhaustedError: OOM when allocating tensor with shape[…]",
        r"OOM when allocating tensor with shape|Dst tensor is not initialized|CUDA_ERROR_OUT_OF_MEMORY"
        r"|(?:CUDNN|CUBLAS)_STATUS_(?:ALLOC_FAILED|NOT_INITIALIZED)|cuDNN failed to initialize"
        r"|failed to create cublas handle",
        "A tensor does not fit into the remaining memory of {task}, on its GPU or its machine.",
        "Make batches smaller or start fewer tasks. clusterkit doctor --workers N estimates how much memory N workers "
        "need. Give each task its own GPU (--gpus-per-task 1), and let TensorFlow allocate memory only as needed: "
        "tf.config.experimental.set_memory_growth(gpu, True).",
        example=_TWO,
    ),
    Row(
        "reads-standard-input",
        "EOFError: EOF when reading a line",
        r"^EOFError: EOF when reading a line",
        "{line} reads from standard input, but tasks have no standard input.",
        "Pass the answer as an argument of the program, or in an environment variable: clusterkit up --env NAME=VALUE.",
        example=_ONE,
    ),
    Row(
        "file-system-of-a-package",
        "UnimplementedError: File system scheme 's3' not implemented (file: 's3://bucket/path')",
        r"File system scheme '(?P<scheme>[\w+.-]{1,30})' not implemented(?: \(file: '(?P<file>[^'\n]{1,300})'\))?",
        "TensorFlow itself cannot read or write {scheme}:// paths, so {line} needs a package that can.",
        "Run pip install tensorflow-io, in the release for your TensorFlow version, and import tensorflow_io at the "
        "top of the program. Or copy the files (aws s3 sync, hdfs dfs -get) or mount them, and use a local path.",
        reported=("yahoo/TensorFlowOnSpark#115",),
        example=_ONE,
    ),
    Row(
        "no-space-left",
        "OSError: [Errno 28] No space left on device",
        r"No space left on device|Disk quota exceeded",
        "The disk that {line} writes to is full, or its quota is used up.",
        "Check with df -h PATH and df -i PATH. Keep fewer checkpoints (max_to_keep=2), and write them to a larger "
        "disk. clusterkit prune removes old runs. In a container, /tmp and /dev/shm have their own limits.",
        example=_ONE,
    ),
    Row(
        "too-many-open-files",
        "ResourceExhaustedError: …; Too many open files",
        r"\bToo many open files\b",
        "{task} has reached its limit of open files, pipes and connections.",
        "Run ulimit -n 65536 before clusterkit up, or read fewer files at the same time (cycle_length).",
        example=_ONE,
    ),
    Row(
        "no-more-threads",
        "RuntimeError: can't start new thread",
        r"RuntimeError: can't start new thread|'std::system_error'\s+what\(\): +Resource temporarily unavailable",
        "{task} cannot start another thread, because a limit on processes (ulimit -u, or its container's limit) or on "
        "memory is reached.",
        "Raise the limit (ulimit -u 65536), start fewer tasks, or use fewer threads: clusterkit up --env "
        "TF_NUM_INTEROP_THREADS=2 --env TF_NUM_INTRAOP_THREADS=2. Leave out jit_compile=True, which starts its own "
        "threads.",
        example=_ONE,
    ),
    Row(
        "not-for-xla",
        "InvalidArgumentError: Detected unsupported operations when trying to compile graph",
        r"Detected unsupported operations when trying to compile graph|known_issues#tfvariable_on_a_different_device",
        "A function that XLA compiles (jit_compile=True) uses an operation, or a variable of another device, that XLA "
        "cannot compile here.",
        "Leave out jit_compile=True, in compile() or in tf.function, or call that operation outside of the function.",
        reported=("keras-team/keras#19005",),
        example=_TWO,
    ),
    Row(
        "spawn-without-main",
        "RuntimeError: An attempt has been made to start a new process before … its bootstrapping phase",
        r"finished its bootstrapping phase|BrokenProcessPool: A process in the process pool was terminated",
        "Each process that the program spawns runs the program's file from the beginning, and so spawns further "
        "processes.",
        "Put the main part of the program below `if __name__ == '__main__':`.",
        when=_spawned_again,
        reported=("brucechou1983/CheXNet-Keras#56", "argilla-io/distilabel#685"),
        example=_ONE,
    ),
    Row(
        "collectives-in-xla",
        "UnimplementedError: Collectives are not yet implemented for CPU devices when compiling with XLA",
        r"Collectives are not yet implemented for CPU devices when compiling with XLA",
        "A function that XLA compiles (jit_compile=True) reduces values over the workers, which XLA cannot do on CPUs.",
        "Compile only the computation of each replica. Leave jit_compile=True out of functions that call strategy.run "
        "and strategy.reduce.",
        example=_TWO,
    ),
    Row(
        "uses-addons",
        "ModuleNotFoundError: No module named 'tensorflow_addons'",
        r"No module named 'tensorflow_addons'",
        "The program uses TensorFlow Addons, which is not installed. TensorFlow Addons is no longer developed, and "
        "does not work with Keras 3.",
        "Use tf.keras instead, which now has most of it: tf.keras.optimizers.AdamW and Lamb, tf.keras.losses, "
        "tf.keras.layers.",
        example=_TWO,
    ),
    Row(
        "older-python",
        "ModuleNotFoundError: No module named 'distutils' (NameError: name 'xrange' is not defined)",
        r"NameError: name '(?:xrange|raw_input|unicode|basestring|unichr|execfile|long|reduce)' is not defined"
        r"|Missing parentheses in call to 'print'|module '(?:collections|inspect|time)' has no attribute "
        r"'(?:Iterable|Iterator|Mapping|MutableMapping|Sequence|Callable|Hashable|getargspec|clock)'"
        r"|'dict' object has no attribute '(?:has_key|iteritems|itervalues|iterkeys)'"
        r"|No module named '(?:distutils|imp|ConfigParser|cPickle|Queue|urllib2|StringIO)'",
        "{line} was written for an older version of Python, or belongs to a package that was.",
        "Upgrade that package. In your program, replace old names, for example xrange with range and "
        "collections.Iterable with collections.abc.Iterable.",
        example=_ONE,
    ),
    Row(
        "library-missing",
        "ImportError: libcudart.so.12: cannot open shared object file: No such file or directory",
        r"^[\w.]*Error: [^\n]{0,200}?(?P<library>\blib[\w.+-]{1,100}?\.so[.\d]*): cannot open shared object file",
        "A package that {task} loads needs {library}, which is not installed, or is not in a directory that the "
        "loader searches.",
        "Install the library (for CUDA: pip install 'tensorflow[and-cuda]'), or add its directory: clusterkit up "
        "--env LD_LIBRARY_PATH=….",
        example=_ONE,
    ),
    Row(
        "built-for-another-tensorflow",
        "NotFoundError: …/_ops.so: undefined symbol: _ZN10tensorflow…",
        r"(?P<by>[^\s/]{1,200}\.so[.\d]*): undefined symbol: \w{0,80}(?:tensorflow|tsl|absl|protobuf)\w*",
        "{by} was built for another version of TensorFlow than the installed one.",
        "Reinstall its package for the installed TensorFlow: pip install --force-reinstall --no-cache-dir NAME.",
        example=_ONE,
    ),
)
