"""Rows about tasks that do not find each other, because of resolvers, flags, TF_CONFIG, addresses or strategies."""

from __future__ import annotations

from clusterkit.explain.row import HOLDS, Condition, Evidence, Row, StuckTask, Words, of_shape
from clusterkit.text.spelling import listed
from clusterkit.words.distribution import WhyAlone
from clusterkit.words.model import Shape
from clusterkit.words.outcome import RunState

GANG = ("--workers", "2")
CONNECTS = ("waits in MultiWorkerMirroredStrategy()", "waits in ParameterServerStrategy()")
HANGS = (*GANG, "--startup-timeout", "30s")
RESOLVER = "Create the strategy with tf.distribute.cluster_resolver.TFConfigClusterResolver()"
FLAGS = r"job_?name|task_?(?:index|id|type)|(?:worker|ps|chief)_?hosts|rank|world_?size|node_?rank"
WANTS = (
    "The program expects {flag} on its command line. clusterkit starts every task with the same arguments, and names "
    "the task in TF_CONFIG instead."
)
READ = 'Read TF_CONFIG: task = json.loads(os.environ["TF_CONFIG"])["task"], then task["type"] and task["index"].'
RANKS = (
    "RANK|LOCAL_RANK|WORLD_SIZE|LOCAL_WORLD_SIZE|NODE_RANK|MASTER_ADDR|MASTER_PORT|SLURM_[A-Z_]+|OMPI_COMM_WORLD_[A-Z_]+"
    "|PMI_(?:RANK|SIZE)|DMLC_[A-Z_]+|HOROVOD_[A-Z_]+"
)


def stuck(holds: Condition) -> Condition:
    """Return a condition that holds if the run hung before its first step, and the condition `holds` also holds."""

    def hangs(evidence: Evidence) -> Words | None:
        begun = any(task.step is not None for task in evidence.tasks)
        return holds(evidence) if evidence.stuck and evidence.job is not None and not begun else None

    return hangs


def _same_task(evidence: Evidence) -> Words | None:
    """Check whether several tasks listen on the same endpoint or port, which can't belong to all of them."""
    places: dict[str, list[StuckTask]] = {}
    for task in evidence.stuck:
        for place in task.listens:
            places.setdefault(place, []).append(task)
    for place, tasks in places.items():
        if len(tasks) > 1:
            names = listed([str(task.task) for task in tasks])
            where = next((f" in {task.where}" for task in tasks if task.where), "")
            return {
                "means": f"{names} share {place}: the program's own cluster gives them the same task or the same port.",
                "advice": f"{RESOLVER}{where}, or without a cluster_resolver argument. If the program sets TF_CONFIG "
                "itself, remove that code, or run the job with --tf-config ours.",
            }
    return None


def _same_task_twice(evidence: Evidence) -> Words | None:
    """Check whether the run hung and `_same_task` holds, or TensorFlow reports a second leader (task 0).

    Two leaders can connect to each other if both have opened the same port.
    """
    if evidence.job is not None and "task:0 unexpectedly tried to connect with a different inc" in evidence.first.text:
        return HOLDS
    return stuck(_same_task)(evidence)


def _elsewhere(evidence: Evidence) -> Words | None:
    """Check whether a task listens only on endpoints that clusterkit did not assign, and no endpoint is shared."""
    away = [task for task in evidence.stuck if task.listens and not task.listening]
    if evidence.state is RunState.TIMED_OUT:  # a task that is not connecting may listen for another purpose
        away = [task for task in away if task.doing.startswith(CONNECTS)]
    if not away or _same_task(evidence) is not None:
        return None
    one = away[0]
    means = (
        f"{one.task} listens at {listed([*one.listens])}, but the other tasks expect it at its endpoint {one.endpoint}."
    )
    return {"means": means}


def _alone_with(*names: str) -> Condition:
    """Return a condition that holds if each worker trained alone, and the program created one of these strategies."""

    def holds(evidence: Evidence) -> Words | None:
        seen = evidence.undistributed
        if seen is None or seen.has_ps or seen.why is not WhyAlone.NEVER_CONNECTED:
            return None
        made = next((name for name in seen.strategies if name in names), None)
        return None if made is None else {"tasks": listed([str(task) for task in seen.tasks]), "made": made}

    return holds


ROWS: tuple[Row, ...] = (
    Row(
        "own-resolver-same-task",
        "MultiWorkerMirroredStrategy() hangs, and two tasks claim to be task 0",
        "",
        "The program gives every process the same task of its own cluster, so each process waits for the others.",
        f"{RESOLVER}, or without a cluster_resolver argument. clusterkit sets TF_CONFIG for each task.",
        _same_task_twice,
        ("tensorflow/tensorflow#39922", "tensorflow/tensorflow#57372"),
        HANGS,
        facts_only=True,
        over=("two-tasks-are-the-same",),
    ),
    Row(
        "hosts-of-another-cluster",
        "MultiWorkerMirroredStrategy() hangs: the program uses addresses of its own",
        "",
        "The program uses its own addresses, so a task does not listen where the other tasks expect it.",
        "Remove the program's addresses from TF_CONFIG and the resolver, or run the job with --tf-config ours.",
        stuck(_elsewhere),
        ("tensorflow/tensorflow#46931",),
        HANGS,
        facts_only=True,
    ),
    Row(
        "port-in-use",
        "UnknownError: Could not start gRPC server",
        "Could not start gRPC server",
        "The port of {task} is already in use by another program, by another task, or by a server that the program "
        "started earlier.",
        "Leave TF_CONFIG as clusterkit sets it, with a free port for each task. Start only one server per process.",
        reported=("kubeflow/kubeflow#1931", "tensorflow/tensorflow#23434"),
        example=GANG,
        general=True,
    ),
    Row(
        "two-tasks-are-the-same",
        "AbortedError: … unexpectedly tried to connect with a different incarnation. It has likely restarted.",
        r"/job:(?P<job>\w+)/replica:\d+/task:(?P<index>\d+)(?: unexpectedly tried to connect with a different "
        r"incarnation|/\S+ current incarnation doesn't match with one in the group)",
        "Two processes connected as {job}:{index}. Either the program gives both the same index, or one of them was "
        "restarted while the other tasks kept running.",
        "Use the task's type and index from TF_CONFIG unchanged, and restart all workers together.",
        reported=("tensorflow/tensorflow#28096",),
        example=("--workers", "3"),
    ),
    Row(
        "resolver-without-task",
        "ValueError: When `cluster_spec` is given, you must also specify `task_type` and `task_id`.",
        "When `cluster_spec` is given, you must also specify `task_type` and `task_id`",
        "The strategy at {line} knows the cluster, but not which task this process is. Either its resolver does not "
        "name the task, or the program sets a TF_CONFIG without a task.",
        f"{RESOLVER}, or without a cluster_resolver argument, and leave TF_CONFIG as clusterkit sets it.",
        example=GANG,
    ),
    Row(
        "wrong-resolver-argument",
        "ValueError: cluster_resolver must be an instance of tf.distribute.cluster_resolver.ClusterResolver",
        r"cluster_resolver must be an instance of tf\.distribute\.cluster_resolver\.ClusterResolver",
        "The strategy at {line} needs a resolver, but got something else, such as a ClusterSpec.",
        f"{RESOLVER}, or without a cluster_resolver argument.",
        example=GANG,
    ),
    Row(
        "slurm-resolver",
        "RuntimeError: SLURM_PROCID not found in environment. Not running inside a SLURM step?",
        r"SLURM_\w+ not found in environment\. Not running inside a SLURM step|number of GPUs from nvidia-smi"
        r"|RuntimeError: Requested (?:\S+ tasks but only \S+ were assigned|more GPUs per node than available)",
        "The program reads its cluster from Slurm, but its tasks were not started by srun.",
        f"{RESOLVER}. clusterkit sets TF_CONFIG, also with --engine slurm.",
        reported=("tensorflow/tensorflow#36094",),
        example=GANG,
        over=("rank-of-another-launcher",),
    ),
    Row(
        "resolver-of-another-platform",
        "ValueError: Please provide a TPU Name to connect to.",
        "Please provide a TPU Name to connect to|The Kubernetes Python client must be installed before using the "
        "Kubernetes Cluster Resolver|googleapiclient must be installed before using the GCE cluster resolver"
        "|TPUs not found in the cluster|No TPUs with the specified names exist|ConfigureDistributedTPU",
        "The resolver at {line} is for a platform, such as TPUs or Kubernetes, on which this program does not run.",
        "Create a MultiWorkerMirroredStrategy or ParameterServerStrategy with "
        "tf.distribute.cluster_resolver.TFConfigClusterResolver().",
        reported=("googlecolab/colabtools#4637",),
        example=GANG,
    ),
    Row(
        "task-flags-argparse",
        "error: the following arguments are required: --job_name, --task_index",
        rf"(?i)error: the following arguments are required: [^\n]*(?P<flag>--(?:{FLAGS.replace('_?', '[-_]?')}))\b",
        WANTS,
        READ,
        reported=("tensorflow/tensorflow#31070",),
        example=GANG,
    ),
    Row(
        "task-flags-absl",
        "FATAL Flags parsing error: flag --task_index=None: Flag --task_index must have a value other than None.",
        rf"(?P<flag>--(?:{FLAGS})\b)[^\n]{{0,80}}(?:must have a value other than None|[Uu]nknown command line flag)",
        WANTS,
        READ,
        example=GANG,
    ),
    Row(
        "task-index-from-argv",
        "IndexError: list index out of range … index = int(sys.argv[1])",
        r"(?i)(?:index|task|rank|worker|job|role)[^\n]{0,60}sys\.argv\[\d+\][^\n]{0,60}\n(?:[ ^~]+\n)?"
        "IndexError: list index out of range",
        "{line} reads the task of this process from the command line. clusterkit starts every task with the same "
        "arguments, and names the task in TF_CONFIG instead.",
        READ,
        of_shape(*Shape, unknown=False),
        example=GANG,
    ),
    Row(
        "server-without-a-job-name",
        "ValueError: Must specify an explicit `job_name`.",
        r"ValueError: Must specify an explicit `(?P<name>job_name|task_index)`",
        "{line} starts a server without a {name}, because the program was not given one. clusterkit starts every task "
        "with the same arguments, and names the task in TF_CONFIG instead.",
        READ,
        reported=("tensorflow/tensorflow#4499",),
        example=GANG,
    ),
    Row(
        "rank-of-another-launcher",
        "KeyError: 'RANK'",
        rf"KeyError: ['\"](?P<variable>{RANKS})['\"]",
        "{line} reads {variable}, which another launcher sets. clusterkit names each process's task in TF_CONFIG.",
        READ,
        of_shape(*Shape, unknown=False),
        example=GANG,
    ),
    Row(
        "tf-config-missing",
        "KeyError: 'TF_CONFIG'",
        r"KeyError: ['\"]TF_CONFIG['\"]",
        "{line} reads TF_CONFIG, which is not set in this process. clusterkit sets it in each task of a job with "
        "several training tasks; a process that a task starts has it if the environment is passed on.",
        "Start the program with clusterkit up, and pass os.environ to every process that the program starts.",
        of_shape(Shape.MULTI_WORKER, Shape.PARAMETER_SERVER),
        example=GANG,
    ),
    Row(
        "tf-config-of-one-worker",
        "KeyError: 'TF_CONFIG', with --workers 1",
        r"KeyError: ['\"]TF_CONFIG['\"]",
        "{line} reads TF_CONFIG, which clusterkit by default does not set for a job with one training task.",
        "Add --tf-config always, so that the one worker has a TF_CONFIG that lists it alone. Or read TF_CONFIG only if "
        'it is set: os.environ.get("TF_CONFIG").',
        of_shape(Shape.SINGLE, unknown=False),
        example=("--workers", "1"),
    ),
    Row(
        "tf-config-not-json",
        "json.decoder.JSONDecodeError … in TFConfigClusterResolver: TF_CONFIG is not JSON",
        r"tfconfig_cluster_resolver\.py\"[^\n]*(?:\n[^\n]*){1,24}JSONDecodeError",
        "The program sets a TF_CONFIG that is not JSON.",
        'Leave TF_CONFIG as clusterkit sets it, or write os.environ["TF_CONFIG"] = json.dumps(…) instead of str(…).',
        example=GANG,
    ),
    Row(
        "tf-config-unknown-type",
        "ValueError: Disallowed task type found in cluster spec.",
        r"Disallowed task type found in cluster spec|Unrecognized task_type: (?P<type>\w+)",
        "The cluster has a task type that TensorFlow does not know. TensorFlow knows chief, worker, ps and evaluator. "
        "TensorFlow 1 called the chief master.",
        "Leave TF_CONFIG as clusterkit sets it, or rename the type before the strategy is created: "
        'config["cluster"]["chief"] = config["cluster"].pop("master"). Rename the type in config["task"], too.',
        reported=("tensorflow/tensorflow#27058",),
        example=GANG,
    ),
    Row(
        "tf-config-index-too-large",
        "ValueError: The `task_id` 2 exceeds the maximum id of worker.",
        r"The `task_id` (?P<index>\d+) exceeds the maximum id of (?P<type>\w+)",
        "The program says that it is {type}:{index}, but the cluster has fewer such tasks. Indexes begin with 0.",
        'Use the index from TF_CONFIG unchanged: json.loads(os.environ["TF_CONFIG"])["task"]["index"].',
        example=GANG,
    ),
    Row(
        "tf-config-type-not-in-cluster",
        "ValueError: `task_type` 'chief' not found in cluster_spec.",
        r"`task_type` ['\"](?P<type>\w+)['\"] not found in cluster_spec",
        "The program says that its task type is {type}, but the cluster has no task of this type.",
        "Leave TF_CONFIG as clusterkit sets it. To have a chief, add --chief. Without a chief, worker:0 does its work.",
        reported=("alibaba/EasyRec#207",),
        example=GANG,
    ),
    Row(
        "mirrored-strategy-alone",
        "MirroredStrategy (OneDeviceStrategy, CentralStorageStrategy) with several workers: each worker trains alone",
        "",
        "{tasks} each trained a model of its own, because {made} only uses the devices of one process.",
        "Use tf.distribute.MultiWorkerMirroredStrategy() instead, which trains one model on all workers.",
        _alone_with("MirroredStrategy", "OneDeviceStrategy", "CentralStorageStrategy"),
        reported=("tensorflow/tensorflow#59799",),
        example=GANG,
        facts_only=True,
        over=("no-strategy",),
    ),
    Row(
        "devices-set-too-late",
        "RuntimeError: Virtual devices cannot be modified after being initialized",
        "(?:Virtual|Visible|Physical) devices cannot be modified after being initialized"
        "|(?:Intra|Inter) op parallelism cannot be modified after initialization|Virtual CPUs already set",
        "{line} configures devices or threads after TensorFlow was initialized. MultiWorkerMirroredStrategy "
        "initializes TensorFlow when it is created.",
        "Configure devices and threads at the beginning of the program, before the strategy is created.",
        example=GANG,
    ),
    Row(
        "two-chiefs",
        "ValueError: There must be at most one 'chief' job.",
        r"There must be at most one '(?P<type>chief|evaluator)' job",
        "The program's cluster has several tasks of type {type}, but TensorFlow allows only one.",
        "Leave TF_CONFIG as clusterkit sets it, or make the other tasks workers.",
        example=GANG,
    ),
)
