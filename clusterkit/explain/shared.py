"""Rows about what all workers share: files, directories and GPUs."""

from __future__ import annotations

from clusterkit.explain.frames import in_one_worker
from clusterkit.explain.row import Row, of_shape
from clusterkit.words.model import Shape

_TWO = ("--workers", "2")
_TASKS = of_shape(Shape.MULTI_WORKER, Shape.PARAMETER_SERVER, unknown=False)  # of a single process it is not true
EXISTS = r"^(?:FileExistsError: \[Errno 17\]|OSError: \[Errno 39\] Directory not empty)"

ROWS: tuple[Row, ...] = (
    Row(
        "prepared-by-each-worker",
        "FileExistsError: [Errno 17] File exists, in one of the workers alone",
        EXISTS,
        "{task} found at {line} what another worker had made before: each worker runs the whole program, and they have "
        "one directory.",
        "Prepare data in the chief alone, and let the others wait for it; or give each worker a directory of its own.",
        in_one_worker(EXISTS),
        ("tensorflow/datasets#1302",),
        _TWO,
        over=("peer-gone",),
    ),
    Row(
        "cache-of-all-workers",
        "AlreadyExistsError: There appears to be a concurrent caching iterator running - cache lockfile already exists",
        r"cache lockfile already exists \('(?P<file>[^'\n]{1,300})_\d+\.lockfile'\)",
        "The workers cache their data in the same file, {file}: another one is writing it, or was ended while it did.",
        "Give each worker a file, as .cache(f'{file}-{{index}}') with the strategy's cluster_resolver.task_id, or keep "
        "the cache in memory: .cache(). Remove {file}*.lockfile.",
        _TASKS,
        ("tensorflow/tensorflow#18266", "mozilla/DeepSpeech#3683"),
        _TWO,
    ),
    Row(
        "removed-by-each-worker",
        "FileNotFoundError: [Errno 2] No such file or directory, from shutil.rmtree or os.remove in one worker alone",
        r"^FileNotFoundError: \[Errno 2\]",
        "{task} wanted to remove at {line} what another worker had removed before: each worker runs the whole program, "
        "and they have one directory.",
        "Remove it in the chief alone, or give each worker a directory of its own.",
        in_one_worker(r"^ +(?:shutil\.rmtree|os\.(?:remove|unlink|rmdir|removedirs)|\S.{0,200}\.(?:unlink|rmdir))\("),
        example=_TWO,
        over=("peer-gone",),
    ),
    Row(
        "gpu-of-the-rank",
        "IndexError: list index out of range, at gpus[rank]",
        r"^ *\S.*?\b(?P<gpus>(?:physical_|visible_|all_)?gpus)\[(?P<index>[^\]\n]{1,80})\].*\n(?:[ ^~]+\n)?"
        r"IndexError: list index out of range",
        "{task} chooses one GPU of its machine by number at {line}, {gpus}[{index}], and {gpus} has fewer.",
        "Leave the line out: `clusterkit up --gpus-per-task 1` gives each task GPUs of its own; without any GPU, "
        "TensorFlow trains on CPUs.",
        _TASKS,
        example=_TWO,
    ),
)
