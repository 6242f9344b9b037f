"""Rows about clusters, servers and devices that a program names itself.

A row's id is that of a rule of `check`. If the rule has a finding, the finding is shown instead of the row's sentences.
"""

from __future__ import annotations

import re

from clusterkit.explain.row import HOLDS, Condition, Evidence, Row, Words, found
from clusterkit.explain.rows.resolvers import CONNECTS, GANG
from clusterkit.words.job import Network

_CHIEF_NOT_REACHED = re.compile(
    r"failed to connect to all addresses[^\n]*\n[^\n]*remote target /job:chief/[^\n]*\n"
    r"(?:[^\n]*\n){0,3}?[^\n]*\{\{node (?:MultiDevice)?IteratorGetNext"
)

_NOT_DEFINED = r'Task (?P<index>\d{1,6}) was not defined in job "(?P<type>\w+)"'
_TAKEN = re.compile(r"No address added out of total \d+ resolved for '[^'\n]*:(?P<port>\d+)'")


def _hangs(id_: str, error: str = "", doing: str | tuple[str, ...] = CONNECTS) -> Condition:
    """Return a condition: `check` has this finding, and the run ended with `error` or while a task hung in `doing`."""

    def holds(evidence: Evidence) -> Words | None:
        waits = any(task.doing.startswith(doing) for task in evidence.stuck)
        return found(id_)(evidence) if waits or (error and error in evidence.first.text) else None

    return holds


def _is_too_small(evidence: Evidence) -> Words | None:
    """Check whether the job has the task whose server did not start, so the program's own cluster lacks the task."""
    missing = re.search(_NOT_DEFINED, evidence.first.text)
    if missing is None or evidence.job is None:
        return None
    counts = {kind.value: count for kind, count in evidence.job.counts.items()}
    if int(missing["index"]) < counts.get(missing["type"], 0):
        return HOLDS
    named = (finding.word for finding in evidence.findings if finding.id == "cluster-too-small")
    return HOLDS if missing["type"] in named else None


def _takes_port(is_held: bool) -> Condition:
    """Return a condition: a server did not start because its port is taken, and clusterkit holds that port or not."""

    def holds(evidence: Evidence) -> Words | None:
        taken = [*_TAKEN.finditer(f"{evidence.first.before}\n{evidence.first.text}")]
        assigned = {endpoint.rpartition(":")[2] for endpoint in evidence.endpoints}
        if not taken or not assigned or "Could not start gRPC server" not in evidence.first.text:
            return None
        port, virtual = taken[-1]["port"], evidence.job is not None and evidence.job.network is Network.VIRTUAL
        if port in assigned and virtual:  # no ports are held there
            return None
        return {"port": port} if (port in assigned) is is_held else None

    return holds


def _is_nan(evidence: Evidence) -> Words | None:
    """Check whether the last loss is not a number, and the program divides by a sum that may be 0."""
    return found("division-by-no-rows")(evidence) if evidence.diverged else None


def _chief_not_reached(evidence: Evidence) -> Words | None:
    """Check whether a worker can't read data from the chief, or the coordinator waits and its cluster has no chief."""
    if _CHIEF_NOT_REACHED.search(evidence.first.text):
        return HOLDS
    waits = any(task.doing.startswith("waits in ClusterCoordinator") for task in evidence.stuck)
    return found("cluster-without-the-chief")(evidence) if waits else None


ROWS: tuple[Row, ...] = (
    Row(
        "tf-config-of-other-tasks",
        "MultiWorkerMirroredStrategy() hangs with the TF_CONFIG of a tutorial",
        "",
        "The program sets a TF_CONFIG that lists tasks that were never started, or addresses at which the tasks "
        "cannot reach each other, so the strategy waits forever.",
        "Remove the code that sets TF_CONFIG, and start as many tasks as it lists (--workers). Or run the job with "
        "--tf-config ours, which ignores the program's TF_CONFIG.",
        _hangs("tf-config-of-other-tasks"),
        ("tensorflow/tensorflow#39922", "tensorflow/tensorflow#57372"),
        ("--workers", "1", "--timeout", "1m"),
        facts_only=True,
    ),
    Row(
        "cluster-too-small",
        'InternalError: Task 2 was not defined in job "worker", with a ClusterSpec of the program',
        _NOT_DEFINED,
        "{line} starts a server as {type}:{index}, but the cluster that the program itself defines has too few "
        "addresses of type {type}: it has none for this task.",
        "Add an address for every task, or take the cluster from TF_CONFIG: "
        "tf.distribute.cluster_resolver.TFConfigClusterResolver().cluster_spec()",
        _is_too_small,
        ("deepsense-ai/Distributed-BA3C#2",),
        ("--workers", "2", "--ps", "1"),
        over=("task-not-defined",),
    ),
    Row(
        "server-beside-the-strategy",
        "UnknownError: Could not start gRPC server, after tf.distribute.Server in a worker",
        "",
        "The program starts a tf.distribute.Server on the port that MultiWorkerMirroredStrategy needs for its own "
        "server.",
        "Remove the tf.distribute.Server. The strategy needs only its own server.",
        _hangs("server-beside-the-strategy", "Could not start gRPC server"),
        ("kubeflow/kubeflow#1931",),
        (*GANG, "--network", "virtual"),
        facts_only=True,
    ),
    Row(
        "connected-by-hand",
        "tf.config.experimental_connect_to_cluster hangs before MultiWorkerMirroredStrategy",
        "",
        "The program calls experimental_connect_to_cluster, which does not work with MultiWorkerMirroredStrategy, so "
        "the call never returns.",
        "Remove this call. The strategy connects to the cluster itself.",
        _hangs("connected-by-hand", doing="waits in tf.config.experimental_connect"),
        ("tensorflow/tensorflow#39336",),
        (*GANG, "--timeout", "40s"),
        facts_only=True,
    ),
    Row(
        "own-port-in-use",
        "Failed to add port to server: No address added out of total 1 resolved for '0.0.0.0:2222'",
        r"Could not start gRPC server",
        "The server at {line} uses port {port}, which the program chooses itself. Another process on this machine, "
        "such as one of an earlier run, already uses this port.",
        "Find that process with `lsof -i :{port}` (`ss -ltnp` also shows it) and end it. Or take the cluster from "
        "TF_CONFIG, with a free port for each task: "
        "tf.distribute.cluster_resolver.TFConfigClusterResolver().cluster_spec()",
        _takes_port(is_held=False),
        ("openai/universe-starter-agent#95",),
        ("--workers", "1", "--ps", "1"),
        over=("port-in-use",),
    ),
    Row(
        "reuse-port-lost",
        "Could not start gRPC server, in a process that the program starts with an environment of its own",
        r"Could not start gRPC server",
        "Port {port} of {task} is held by clusterkit during the whole run. TensorFlow can use such a port only if "
        "TF_GRPC_REUSE_PORT is true, as clusterkit sets it. The process that failed did not have this variable.",
        "Pass the task's variables on to the processes that the program starts: "
        "subprocess.run(command, env={{**os.environ, 'NAME': 'value'}})",
        _takes_port(is_held=True),
        example=GANG,
        over=("port-in-use",),
    ),
    Row(
        "device-of-another-worker",
        "Fatal Python error: Segmentation fault, within tf.device('/job:worker/task:0')",
        r"Fatal Python error: Segmentation fault|/job:\w+/replica:\d+/task:\d+/device:\w+:\d+ unknown device",
        "{line} uses a device of another worker, which MultiWorkerMirroredStrategy does not support.",
        "Leave tf.device out, and create variables within strategy.scope(), so that each worker has a copy.",
        found("device-of-another-worker"),
        ("tensorflow/tensorflow#43983",),
        GANG,
    ),
    Row(
        "division-by-no-rows",
        "NaN loss with MirroredStrategy or MultiWorkerMirroredStrategy, but not with one device",
        "",
        "The program divides by a sum over the rows of a replica. This sum is 0 if the replica gets no rows of a "
        "batch.",
        "Write dataset.batch(size, drop_remainder=True), or divide with tf.math.divide_no_nan.",
        _is_nan,
        ("tensorflow/tensorflow#41657", "tensorflow/tensorflow#36224"),
        ("--workers", "1"),
        facts_only=True,
    ),
    Row(
        "cluster-without-the-chief",
        "failed to connect to all addresses … from remote target /job:chief … MultiDeviceIteratorGetNextFromShard",
        "",
        "The Python code of a dataset, such as that of from_generator, runs in the chief, but the workers cannot "
        "reach the chief: the cluster of their servers lacks the chief, or has a wrong address for it.",
        "Add the chief with its address, host:port, to the cluster of the resolver and of the servers, or create the "
        "dataset without from_generator, py_function and numpy_function.",
        _chief_not_reached,
        ("tensorflow/tensorflow#48957",),
        ("--workers", "1", "--ps", "1", "--network", "virtual"),
        facts_only=True,
        over=("peer-gone",),
    ),
)
