"""Rows about resources that workers share: files, directories, memory and GPUs."""

from __future__ import annotations

import re

from clusterkit.explain.frames import in_one_worker
from clusterkit.explain.row import HOLDS, Evidence, Row, Words, of_shape
from clusterkit.words.model import Shape, TaskType

_ONE = ("--workers", "1")
_TWO = ("--workers", "2")
_TASKS = of_shape(Shape.MULTI_WORKER, Shape.PARAMETER_SERVER, unknown=False)  # excludes single-process jobs
_MEMBER = re.compile(r"/job:(?:worker|chief|ps)/")  # a task in TensorFlow's device names
_REPLICAS = re.compile(  # signs of a strategy: its code, its operations' names, or its line in a log
    r"/tensorflow/python/distribute/|(?i:strat)\w*\.run\(|\breplica_\d+/|MirroredStrategy with devices \('[^')]*', '"
)
_SIZES = (
    r"Incompatible shapes: \[(?P<a>\d{1,9})(?P<rest>[,\d]*)\] vs\. \[(?P<b>\d{1,9})(?P=rest)\]",
    r"reshape is a tensor with (?P<a>\d{1,12}) values, but the requested shape has (?P<b>\d{1,12})",
    r"Cannot reshape a tensor with (?P<a>\d{1,12}) elements to shape \[[\d,]*\] \((?P<b>\d{1,12}) elements\)",
    r"Dimension 0 in both shapes must be equal, but are (?P<a>\d{1,9}) and (?P<b>\d{1,9})\b",
    r"Dimension must be (?P<a>\d{1,9}) but is (?P<b>\d{1,9}) for [^\n]*with input shapes: \[(?P=b)[,\]]",
    r"with input shapes: \[(?P<a>\d{1,9})(?P<rest>[,\d]*)\], \[(?P<b>\d{1,9})(?P=rest)\]",
)
MOST_REPLICAS = 8  # the maximum ratio of two sizes that may be the number of replicas in a process
SIGBUS = 7
REMOVES = r"^ +(?:shutil\.rmtree|os\.(?:remove|unlink|rmdir|removedirs)|tf\.io\.gfile\.(?:rmtree|remove))\("
REMOVES += r"|^ +\S.{0,200}\.(?:unlink|rmdir)\("
EXISTS = r"^(?:FileExistsError: \[Errno 17\]|OSError: \[Errno 39\] Directory not empty)"


def _bus_error(evidence: Evidence) -> Words | None:
    """Check whether SIGBUS killed the first task, and clusterkit had not asked that task to end."""
    exit_ = evidence.first.exit
    return HOLDS if exit_ is not None and exit_.signal == SIGBUS and exit_.asked is None else None


def _several(evidence: Evidence) -> Words | None:
    """Check whether the job has several tasks, or a log shows that its task is one of several."""
    logged = evidence.job is None and _MEMBER.search(evidence.first.text + evidence.first.before)
    return HOLDS if logged else _TASKS(evidence)


def _share_of_a_batch(evidence: Evidence) -> Words | None:
    """Check whether the ratio of two sizes that do not match is the number of workers, or may be that of replicas."""
    text, job = evidence.first.text, evidence.job
    found = next(filter(None, (re.search(sizes, text) for sizes in _SIZES)), None)
    if found is None:
        return None
    share, whole = sorted((int(found["a"]), int(found["b"])))
    if job is not None and job.shape is Shape.MULTI_WORKER:
        workers = sum(job.counts.get(kind, 0) for kind in (TaskType.CHIEF, TaskType.WORKER))
        divides = share * workers == whole
    else:
        several = share > 0 and whole % share == 0 and 2 <= whole // share <= MOST_REPLICAS
        divides = several and _REPLICAS.search(f"{evidence.first.before}\n{text}") is not None
    return {"share": str(share), "whole": str(whole)} if divides else None


ROWS: tuple[Row, ...] = (
    Row(
        "fixed-batch-size",
        "InvalidArgumentError: Incompatible shapes: [4,1] vs. [8,1], with a batch size of 8 and 2 workers",
        r"Incompatible shapes: \[\d|reshape (?:is )?a tensor with \d|Dimension 0 in both|with input shapes: \[\d",
        "The model, its loss or the step at {line} assumes the global batch size, but the strategy divides each batch "
        "among its replicas. The sizes {share} and {whole} do not match.",
        "Use the size of the replica's batch: tf.shape(x)[0], or GLOBAL_BATCH // strategy.num_replicas_in_sync, for "
        "example for tf.keras.Input(batch_size=…). Or leave the batch size out.",
        _share_of_a_batch,
        ("XifengGuo/CapsNet-Keras#14", "tyagi-iiitv/PointPillars#20"),
        _TWO,
    ),
    Row(
        "one-file-sharded-by-file",
        "InvalidArgumentError: Could not apply FILE based sharding: the dataset only has 1 file(s)",
        r"Could not apply FILE based sharding: the dataset only has \d+ file\(s\), which is not enough for "
        r"the required \d+ shards|There aren't enough elements in this dataset for each shard to have at least one"
        r"|Cannot shard the pipeline with given `input_context`",
        "The dataset is divided among the workers by file, but it has fewer files than there are workers.",
        "Divide the dataset by rows instead: options = tf.data.Options(); "
        "options.experimental_distribute.auto_shard_policy = tf.data.experimental.AutoShardPolicy.DATA; data = "
        "data.with_options(options). Leave input_context out of tfds.ReadConfig.",
        reported=("tensorflow/tensorflow#36846",),
        example=_TWO,
    ),
    Row(
        "prepared-by-each-worker",
        "FileExistsError: [Errno 17] File exists, in only one of the workers",
        EXISTS,
        "At {line}, {task} found a file or directory that another worker had already created. Each worker runs the "
        "whole program, and all workers share one directory.",
        "Create it only in the chief, if clusterkit.training.is_chief(): …, and let the other workers wait: "
        "strategy.reduce('SUM', tf.ones(1), axis=None). Or give each worker its own directory.",
        in_one_worker(EXISTS),
        ("tensorflow/datasets#1302",),
        _TWO,
        over=("peer-gone",),
    ),
    Row(
        "cache-of-all-workers",
        "AlreadyExistsError: There appears to be a concurrent caching iterator running - cache lockfile already exists",
        r"cache lockfile already exists \('(?P<file>[^'\n]{1,300})_\d+\.lockfile'\)",
        "{task} caches its data in {file}, but another worker is writing this cache, or was ended while writing it.",
        "Give each worker its own file, .cache(f'{file}-{{index}}') with index = strategy.cluster_resolver.task_id, "
        "or cache in memory: .cache(). Remove {file}*.lockfile.",
        _several,
        ("tensorflow/tensorflow#18266", "mozilla/DeepSpeech#3683"),
        _TWO,
    ),
    Row(
        "checkpoint-of-all-workers",
        "NotFoundError: … ckpt-1_temp/part-00000-of-00001.index; No such file or directory [Op:MergeV2Checkpoints]",
        r"^[\w.]*(?:NotFound|InvalidArgument)Error: [^\n]*?(?P<path>[^\s']{1,300})_temp/part-\d+-of-\d+"
        r"[^\n]*MergeV2Checkpoints",
        "The workers save a checkpoint or a SavedModel to the same path, {path}. Another worker has moved or removed "
        "the files that {task} had written.",
        "Let only the chief save to this path. Let every other worker save to a directory of its own and delete that "
        "directory afterwards. clusterkit.training.Checkpointer and clusterkit.training.export(model) do this.",
        _several,
        ("ray-project/ray#27938",),
        example=_TWO,
    ),
    Row(
        "removed-by-each-worker",
        "FileNotFoundError: [Errno 2] No such file or directory, from shutil.rmtree or os.remove in only one worker",
        r"^FileNotFoundError: \[Errno 2\]|errors_impl\.NotFoundError: .* not found$",
        "At {line}, {task} tried to remove a file or directory that another worker had already removed. Each worker "
        "runs the whole program, and all workers share one directory.",
        "Remove it only in the chief, if clusterkit.training.is_chief(): …, or write shutil.rmtree(path, "
        "ignore_errors=True). Or give each worker its own directory.",
        in_one_worker(REMOVES),
        example=_TWO,
        over=("peer-gone",),
    ),
    Row(
        "download-cut-off",
        "ValueError: Incomplete or corrupted file detected, or BadZipFile, from load_data or get_file",
        r"Incomplete or corrupted file detected\. The"
        r"|(?:/keras/src/datasets/|/keras/datasets/|/tensorflow_datasets/)[\s\S]{0,3000}?"
        r"^(?:zipfile\.BadZipFile|EOFError: Compressed file ended|zlib\.error"
        r"|ValueError: Cannot load file containing pickled data|\w*UnpicklingError)",
        "At {line}, {task} loads an incomplete file. Either another worker was still downloading the file to the same "
        "place, or a download was interrupted.",
        "Remove the file (in ~/.keras/datasets), and download it once before the job, so that the tasks only read it: "
        "python -c 'import tensorflow as tf; tf.keras.datasets.mnist.load_data()'",
        reported=("microsoft/nni#2216", "keras-team/keras#2572"),
        example=_TWO,
    ),
    Row(
        "download-fails",
        "Exception: URL fetch failure on https://storage.googleapis.com/tensorflow/tf-keras-datasets/mnist.npz",
        r"Exception: URL fetch failure on (?P<url>\S{1,300})",
        "{task} cannot download {url}. Either its machine cannot reach the server, or the file no longer exists.",
        "Download the file on a machine that can reach it, and put it into ~/.keras/datasets on each machine (or into "
        "the tasks' $KERAS_HOME/datasets), where load_data looks first. Or set https_proxy.",
        example=_ONE,
    ),
    Row(
        "gpu-of-the-rank",
        "IndexError: list index out of range, at gpus[rank]",
        r"^ *\S.*?\b(?P<gpus>(?:physical_|visible_|all_)?gpus|physical_devices)\[(?P<index>[^\]\n]{1,80})\].*\n"
        r"(?:[ ^~]+\n)?IndexError: list index out of range",
        "At {line}, {task} chooses one GPU of its machine by number, {gpus}[{index}], but {gpus} has fewer entries.",
        "Remove the line. `clusterkit up --gpus-per-task 1` gives each task its own GPU. Without any GPU, TensorFlow "
        "trains on CPUs.",
        _TASKS,
        example=_TWO,
    ),
    Row(
        "port-of-each-worker",
        "OSError: [Errno 98] Address already in use, in only one of the workers",
        r"^OSError: \[Errno 98\]",
        "At {line}, {task} opens a port that another worker has already opened. Each worker runs the whole program, "
        "and all of them run on one machine.",
        "Open the port only in the chief, or let the system choose a free port: port 0.",
        in_one_worker(r"^OSError: \[Errno 98\]"),
        example=_TWO,
        over=("peer-gone",),
    ),
    Row(
        "database-of-all-workers",
        "sqlite3.OperationalError: database is locked",
        r"sqlite3\.OperationalError: database is locked",
        "At {line}, {task} waited in vain for another task or process that writes to the same SQLite file. Each "
        "worker runs the whole program.",
        "Write only in the chief (if clusterkit.training.is_chief(): …), or give each task its own file.",
        _TASKS,
        example=_TWO,
        over=("peer-gone",),
    ),
    Row(
        "bus-error",
        "killed by SIGBUS (Bus error, exit code 135)",
        "",
        "{task} was killed by SIGBUS, because it used shared or file-mapped memory that has no storage behind it. "
        "Either /dev/shm or the disk is full, or another process has truncated the file.",
        "Check free space with df -h /dev/shm and df -h. NCCL and multiprocessing use /dev/shm, which has only 64 MB "
        "in a container. To give a container more, use docker run --shm-size=2g.",
        when=_bus_error,
        reported=("keras-team/keras#17397",),
        example=("--workers", "1"),
        facts_only=True,
    ),
    Row(
        "thread-at-the-end",
        "FATAL: exception not rethrown, Fatal Python error: Aborted, after the last line of a program",
        r"^FATAL: exception not rethrown",
        "{task} was aborted while Python shut down, after the end of the program: a thread was still in TensorFlow's "
        "code. It may be a thread of the program, or of TensorFlow's coordinator.",
        "Join the program's threads before its last line. If the thread is TensorFlow's, end the program with "
        "sys.stdout.flush() and os._exit(0).",
        example=("--workers", "1"),
    ),
)
