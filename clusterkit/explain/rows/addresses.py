"""Rows about rejected TF_CONFIG values, and tasks or devices that do not exist."""

from __future__ import annotations

from clusterkit.explain.frames import calling, through
from clusterkit.explain.row import Row

_TWO = ("--workers", "2")
_LEAVE = "Leave TF_CONFIG as clusterkit sets it, or write "
_READS_TF_CONFIG = through("/tfconfig_cluster_resolver.py")


ROWS: tuple[Row, ...] = (
    Row(
        "tf-config-index-not-a-number",
        "ValueError: invalid literal for int() with base 10: 'train-worker-0', from TFConfigClusterResolver",
        r"(?:invalid literal for int\(\) with base 10: |int\(\) argument must be [^\n]*not )'(?P<index>[^'\n]*)'",
        "The program sets a TF_CONFIG whose index is {index}, and not a number.",
        f"{_LEAVE}the number at the end of the pod's or the host's name.",
        when=_READS_TF_CONFIG,
        example=_TWO,
    ),
    Row(
        "tf-config-without-lists",
        "TypeError: The tasks for job 'worker' must be a list or a dictionary from integers to strings.",
        r"TypeError: The tasks for job '(?P<type>\w+)' must be a list|`cluster` must be a dictionary mapping "
        r"one or more job names|TypeError: Task address .{1,200} must be bytes or unicode",
        "In the cluster that the program gives, each type of task needs a list of addresses.",
        f'{_LEAVE}{{{{"worker": ["host1:2222", "host2:2222"]}}}}.',
        example=_TWO,
    ),
    Row(
        "tf-config-quoted-twice",
        "TypeError: string indices must be integers, from TFConfigClusterResolver",
        r"TypeError: string indices must be integers",
        "The program sets a TF_CONFIG that is a text inside of JSON, and not an object.",
        f"{_LEAVE}it with a single json.dumps(…).",
        when=_READS_TF_CONFIG,
        example=_TWO,
    ),
    Row(
        "address-without-a-port",
        'InvalidArgumentError: Could not parse port for local server from "localhost".',
        r'Could not parse port for local server from "(?P<address>[^"\n]*)"',
        "The program gives {address} as the address of {task}, without a port.",
        f"{_LEAVE}host:port for each task, such as host1:2222.",
        example=_TWO,
    ),
    Row(
        "address-with-a-scheme",
        'InvalidArgumentError: Could not interpret "http://127.0.0.1:2222" as a host-port pair.',
        r'Could not interpret "(?P<address>[^"\n]*)" as a host-port pair',
        "The program gives {address} as the address of a task, which is not host:port.",
        f"{_LEAVE}host:port, such as host1:2222, without http:// or grpc:// and without a path.",
        example=_TWO,
    ),
    Row(
        "host-not-found",
        "UnavailableError: DNS resolution failed for worker-1:2222: C-ares status is not ARES_SUCCESS",
        r"(?:DNS resolution failed for (?:service: )?\"?|Address lookup failed for )(?P<host>[^\s:\"]{1,253})"
        r"|[Nn]ame resolution failure",
        "{task} gives another task's address as {host}, a name that its machine cannot look up.",
        "Try it there: getent hosts {host}. In Kubernetes, the service's name must fit the pods' "
        "(HOST.NAMESPACE.svc and the cluster's own domain); elsewhere, put IP addresses into TF_CONFIG, or the name "
        "into /etc/hosts.",
        reported=("kubeflow/trainer#770", "yahoo/TensorFlowOnSpark#33", "tensorflow/tensorflow#17852"),
        example=_TWO,
        over=("peer-gone",),
    ),
    Row(
        "proxy-between-tasks",
        "UnavailableError: Trying to connect an http1.x server (Received http2 header with status: 403)",
        r"Trying to connect an http1\.x server|[Rr]eceived http2 header with status: \d+"
        r"|HTTP proxy returned response code|Failed to connect to HTTP proxy",
        "{task} reaches the other tasks through a proxy, as http_proxy or https_proxy in its environment says, and the "
        "proxy does not pass on the connections of tasks.",
        "Take the variables away: unset http_proxy https_proxy HTTP_PROXY HTTPS_PROXY, or clusterkit up "
        "--env http_proxy= --env https_proxy= --env grpc_proxy=.",
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
        "{line} uses a device of another task, to which the program is not connected.",
        "Start as many tasks as it names (--workers, --ps), give a session its server's target (tf.compat.v1.Session("
        "server.target)), or leave out tf.device: a strategy places variables.",
        example=("--workers", "1", "--ps", "1", "--servers", "builtin"),
    ),
    Row(
        "device-not-there",
        "InvalidArgumentError: Could not satisfy device specification '…/device:GPU:0'",
        r"Could not satisfy device specification '[^'\n]+'|assigned to /device:\w+:\d+ but available devices are"
        r"|/job:localhost/replica:0/task:0/device:\w+:\d+ unknown device",
        "{line} uses a device, such as a GPU, that TensorFlow does not have in {task}.",
        "Look at tf.config.list_physical_devices() in a task and at --gpus-per-task of clusterkit up, or leave out "
        "tf.device.",
        example=_TWO,
    ),
    Row(
        "cluster-as-a-dictionary",
        "TypeError: cluster_spec must be a `tf.train.ClusterSpec`.",
        r"TypeError: cluster_spec must be a `tf\.train\.ClusterSpec`",
        "The resolver that {line} makes got the cluster as a dictionary, or as something else that is no ClusterSpec.",
        "Leave the strategy's argument out, or pass tf.distribute.cluster_resolver.TFConfigClusterResolver(), which "
        "reads TF_CONFIG.",
        example=_TWO,
    ),
    Row(
        "strategy-arguments",
        "TypeError: CollectiveAllReduceStrategy.__init__() got an unexpected keyword argument 'num_gpus_per_worker'",
        r"Strategy\w*\.__init__\(\) got an unexpected keyword argument "
        r"'(?P<argument>num_gpus\w*|num_workers|worker_device|devices|cross_device_ops|num_replicas\w*)'",
        "{line} passes the argument {argument}, which this strategy does not have in the installed TensorFlow.",
        "Leave it out: the cluster comes from TF_CONFIG, and a task uses the devices it sees (--gpus-per-task).",
        example=_TWO,
    ),
    Row(
        "memory-growth-of-a-cpu",
        "ValueError: Cannot set memory growth on non-GPU and non-Pluggable devices",
        r"Cannot set memory growth on non-GPU and non-Pluggable devices",
        "{line} sets memory growth for a device that is no GPU: its list of devices has the CPU in it.",
        "for gpu in tf.config.list_physical_devices('GPU'): tf.config.experimental.set_memory_growth(gpu, True)",
        example=_TWO,
    ),
    Row(
        "task-not-defined",
        'InternalError: Task 5 was not defined in job "worker"',
        r'Task (?P<index>\d+) was not defined in job "(?P<type>\w+)"',
        "{line} starts a server as {type}:{index}, which is not in its cluster: indexes begin with 0.",
        'Take type and index as they are: json.loads(os.environ["TF_CONFIG"])["task"].',
        example=_TWO,
    ),
    Row(
        "type-of-task-not-in-the-job",
        "KeyError: 'chief' (KeyError: 'ps'), at TF_CONFIG's cluster",
        r"^KeyError: '(?P<type>chief|ps|evaluator|master)'",
        "{line} looks for the tasks of type {type} in the cluster, which has none.",
        "Add them, as in clusterkit up --chief or --ps 1; a job without a chief has worker:0 in its place, and no task "
        "sees an evaluator in its cluster. master is the old name of chief.",
        when=calling(r"(?i)cluster|tf_config"),
        example=_TWO,
    ),
    Row(
        "tf-config-of-a-dictionary",
        'TypeError: str expected, not dict, at os.environ["TF_CONFIG"] = …',
        r"^TypeError: str expected, not dict",
        "{line} puts a dictionary into the environment, which holds only text.",
        f"{_LEAVE}json.dumps(…) of it.",
        when=calling(r"TF_CONFIG"),
        example=_TWO,
    ),
    Row(
        "tf-config-not-parsed",
        'TypeError: string indices must be integers, at os.environ["TF_CONFIG"]["task"]',
        r"^TypeError: string indices must be integers",
        "{line} takes TF_CONFIG for a dictionary, but it is a text of JSON.",
        'config = json.loads(os.environ["TF_CONFIG"]), then config["task"]["index"]',
        when=calling(r"TF_CONFIG"),
        example=_TWO,
    ),
    Row(
        "tf-config-of-an-estimator",
        'ValueError: If "cluster" is set in TF_CONFIG, it must have one "chief" node.',
        r'If "cluster" is (?:not )?set in TF_CONFIG|is not a valid task_type in the cluster_spec',
        "The TF_CONFIG of {task} does not have what an estimator of TensorFlow 1 wants: a cluster of chief, worker and "
        "ps, with one chief, and a task of one of these types.",
        f'{_LEAVE}{{{{"cluster": {{{{"chief": ["host0:2222"], "worker": ["host1:2222"], "ps": ["host2:2222"]}}}}, '
        '"task": {{"type": "worker", "index": 0}}}}; clusterkit up --chief --workers 1 --ps 1 has a chief.',
        reported=("tensorflow/tensorflow#17854", "yahoo/TensorFlowOnSpark#386", "kubeflow/trainer#1763"),
        example=_TWO,
    ),
)
