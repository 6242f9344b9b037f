"""Rows about rejected TF_CONFIG values, and tasks or devices that do not exist."""

from __future__ import annotations

from clusterkit.explain.frames import calling, through
from clusterkit.explain.row import Row

_TWO = ("--workers", "2")
_LEAVE = "Leave TF_CONFIG as clusterkit sets it, or "
_READS_TF_CONFIG = through("/tfconfig_cluster_resolver.py")


ROWS: tuple[Row, ...] = (
    Row(
        "tf-config-index-not-a-number",
        "ValueError: invalid literal for int() with base 10: 'train-worker-0', from TFConfigClusterResolver",
        r"(?:invalid literal for int\(\) with base 10: |int\(\) argument must be [^\n]*not )'(?P<index>[^'\n]*)'",
        "The program sets a TF_CONFIG whose task index is {index}, which is not a number.",
        f"{_LEAVE}use the number at the end of the pod's or the host's name as the index.",
        when=_READS_TF_CONFIG,
        example=_TWO,
    ),
    Row(
        "tf-config-without-lists",
        "TypeError: The tasks for job 'worker' must be a list or a dictionary from integers to strings.",
        r"TypeError: The tasks for job '(?P<type>\w+)' must be a list|`cluster` must be a dictionary mapping "
        r"one or more job names|TypeError: Task address .{1,200} must be bytes or unicode",
        "The program defines a cluster in which a task type does not have a list of addresses.",
        f'{_LEAVE}write the cluster as {{{{"worker": ["host1:2222", "host2:2222"]}}}}.',
        example=_TWO,
    ),
    Row(
        "tf-config-quoted-twice",
        "TypeError: string indices must be integers, from TFConfigClusterResolver",
        r"TypeError: string indices must be integers",
        "The program sets a TF_CONFIG that was converted to JSON twice, so its content is a string instead of an "
        "object.",
        f"{_LEAVE}call json.dumps(…) only once.",
        when=_READS_TF_CONFIG,
        example=_TWO,
    ),
    Row(
        "address-without-a-port",
        'InvalidArgumentError: Could not parse port for local server from "localhost".',
        r'Could not parse port for local server from "(?P<address>[^"\n]*)"',
        "The program gives {address} as the address of {task}, without a port.",
        f"{_LEAVE}write each address as host:port, such as host1:2222.",
        example=_TWO,
    ),
    Row(
        "address-with-a-scheme",
        'InvalidArgumentError: Could not interpret "http://127.0.0.1:2222" as a host-port pair.',
        r'Could not interpret "(?P<address>[^"\n]*)" as a host-port pair',
        "The program gives {address} as the address of a task, but an address must be of the form host:port.",
        f"{_LEAVE}write each address as host:port, such as host1:2222, without http:// or grpc:// and without a path.",
        example=_TWO,
    ),
    Row(
        "host-not-found",
        "UnavailableError: DNS resolution failed for worker-1:2222: C-ares status is not ARES_SUCCESS",
        r"(?:DNS resolution failed for (?:service: )?\"?|Address lookup failed for )(?P<host>[^\s:\"]{1,253})"
        r"|[Nn]ame resolution failure",
        "{task} tries to connect to another task at {host}, but its machine cannot resolve this host name.",
        "Run getent hosts {host} on that machine. In Kubernetes, the name of the service must match the names of the "
        "pods (HOST.NAMESPACE.svc, followed by the cluster's own domain). Elsewhere, put IP addresses into TF_CONFIG, "
        "or add the name to /etc/hosts.",
        reported=("kubeflow/trainer#770", "yahoo/TensorFlowOnSpark#33", "tensorflow/tensorflow#17852"),
        example=_TWO,
        over=("peer-gone",),
    ),
    Row(
        "proxy-between-tasks",
        "UnavailableError: Trying to connect an http1.x server (Received http2 header with status: 403)",
        r"Trying to connect an http1\.x server|[Rr]eceived http2 header with status: \d+"
        r"|HTTP proxy returned response code|Failed to connect to HTTP proxy",
        "{task} connects to the other tasks through the proxy that http_proxy or https_proxy names in its "
        "environment, but the proxy does not forward these connections.",
        "Unset the variables (unset http_proxy https_proxy HTTP_PROXY HTTPS_PROXY), or empty them in the tasks "
        "(clusterkit up --env http_proxy= --env https_proxy= --env grpc_proxy=).",
        reported=("tensorflow/tensorflow#15274", "tensorflow/tensorflow#50626"),
        example=_TWO,
        over=("peer-gone",),
    ),
    Row(
        "task-not-in-the-cluster",
        "InvalidArgumentError: /job:ps/replica:0/task:1/device:CPU:0 unknown device.",
        r"InvalidArgumentError: .*/job:(?!localhost)\w+/replica:\d+/task:\d+/device:\w+:\d+ unknown device"
        r"|assigned to '?/job:(?!localhost)\w+\S*,? but available devices are"
        r"|explicit device specification '/job:\w+/task:\d+' because",
        "{line} uses a device of another task, but the program is not connected to that task.",
        "Start as many tasks as the program names (--workers, --ps), or connect the session to its server: "
        "tf.compat.v1.Session(server.target). With a strategy, leave out tf.device, since the strategy places the "
        "variables.",
        example=("--workers", "1", "--ps", "1", "--servers", "builtin"),
    ),
    Row(
        "device-not-there",
        "InvalidArgumentError: Could not satisfy device specification '…/device:GPU:0'",
        r"Could not satisfy device specification '[^'\n]+'|assigned to /device:\w+:\d+ but available devices are"
        r"|/job:localhost/replica:0/task:0/device:\w+:\d+ unknown device",
        "{line} uses a device, such as a GPU, that TensorFlow does not find in {task}.",
        "Print tf.config.list_physical_devices() in the task, and give each task GPUs with clusterkit up "
        "--gpus-per-task 1, or leave out tf.device.",
        example=_TWO,
    ),
    Row(
        "cluster-as-a-dictionary",
        "TypeError: cluster_spec must be a `tf.train.ClusterSpec`.",
        r"TypeError: cluster_spec must be a `tf\.train\.ClusterSpec`",
        "{line} creates a resolver from a dictionary, or from another value that is not a ClusterSpec.",
        "Create the strategy without this argument, or pass tf.distribute.cluster_resolver.TFConfigClusterResolver(), "
        "which reads TF_CONFIG.",
        example=_TWO,
    ),
    Row(
        "strategy-arguments",
        "TypeError: CollectiveAllReduceStrategy.__init__() got an unexpected keyword argument 'num_gpus_per_worker'",
        r"Strategy\w*\.__init__\(\) got an unexpected keyword argument "
        r"'(?P<argument>num_gpus\w*|num_workers|worker_device|devices|cross_device_ops|num_replicas\w*)'",
        "{line} passes the argument {argument}, which this strategy does not accept in the installed TensorFlow.",
        "Leave {argument} out. The cluster comes from TF_CONFIG, and a task uses all devices that it sees (clusterkit "
        "up --gpus-per-task 1).",
        example=_TWO,
    ),
    Row(
        "memory-growth-of-a-cpu",
        "ValueError: Cannot set memory growth on non-GPU and non-Pluggable devices",
        r"Cannot set memory growth on non-GPU and non-Pluggable devices",
        "{line} sets memory growth for a device that is not a GPU, because its list of devices includes the CPU.",
        "Set memory growth only for GPUs: for gpu in tf.config.list_physical_devices('GPU'): "
        "tf.config.experimental.set_memory_growth(gpu, True)",
        example=_TWO,
    ),
    Row(
        "task-not-defined",
        'InternalError: Task 5 was not defined in job "worker"',
        r'Task (?P<index>\d+) was not defined in job "(?P<type>\w+)"',
        "{line} starts a server as {type}:{index}, but its cluster has no such task. Indexes begin with 0.",
        'Use the type and index from TF_CONFIG unchanged: json.loads(os.environ["TF_CONFIG"])["task"].',
        example=_TWO,
    ),
    Row(
        "type-of-task-not-in-the-job",
        "KeyError: 'chief' (KeyError: 'ps'), at TF_CONFIG's cluster",
        r"^KeyError: '(?P<type>chief|ps|evaluator|master)'",
        "{line} looks up the tasks of type {type}, but the cluster has no task of this type.",
        "Add such a task, as with clusterkit up --chief or --ps 1. In a job without a chief, worker:0 takes its "
        "place. The cluster in TF_CONFIG never includes an evaluator. master is the old name of chief.",
        when=calling(r"(?i)cluster|tf_config"),
        example=_TWO,
    ),
    Row(
        "tf-config-of-a-dictionary",
        'TypeError: str expected, not dict, at os.environ["TF_CONFIG"] = …',
        r"^TypeError: str expected, not dict",
        "{line} assigns a dictionary to an environment variable, but environment variables hold only strings.",
        f'{_LEAVE}write os.environ["TF_CONFIG"] = json.dumps(…).',
        when=calling(r"TF_CONFIG"),
        example=_TWO,
    ),
    Row(
        "tf-config-not-parsed",
        'TypeError: string indices must be integers, at os.environ["TF_CONFIG"]["task"]',
        r"^TypeError: string indices must be integers",
        "{line} uses TF_CONFIG as a dictionary, but TF_CONFIG is a JSON string.",
        'Parse the string: config = json.loads(os.environ["TF_CONFIG"]), then config["task"]["index"]',
        when=calling(r"TF_CONFIG"),
        example=_TWO,
    ),
    Row(
        "tf-config-of-an-estimator",
        'ValueError: If "cluster" is set in TF_CONFIG, it must have one "chief" node.',
        r'If "cluster" is (?:not )?set in TF_CONFIG|is not a valid task_type in the cluster_spec',
        "The TF_CONFIG of {task} lacks what a TensorFlow 1 estimator needs: a cluster of chief, worker and ps, with "
        "exactly one chief, and a task of one of these types.",
        f'{_LEAVE}write {{{{"cluster": {{{{"chief": ["host0:2222"], "worker": ["host1:2222"], "ps": '
        f'["host2:2222"]}}}}, "task": {{{{"type": "worker", "index": 0}}}}}}}}. To start a job with a chief, run '
        f"clusterkit up --chief --workers 1 --ps 1.",
        reported=("tensorflow/tensorflow#17854", "yahoo/TensorFlowOnSpark#386", "kubeflow/trainer#1763"),
        example=_TWO,
    ),
)
