"""Rules about clusters, servers and devices that a program specifies explicitly."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from clusterkit.check.case import MULTI_WORKER, OUR_STRATEGY, PARAMETER_SERVER, Case, Hit
from clusterkit.check.rules.replicas import MIRRORED, function_of, is_gang, reached
from clusterkit.check.source import Source, argument
from clusterkit.text.spelling import listed
from clusterkit.words.job import JobSpec, Network, TfConfig
from clusterkit.words.model import Shape, TaskType, number_of

SERVER = "tensorflow.distribute.Server"
# What reads TF_CONFIG when it is created.
_READERS = {MULTI_WORKER, OUR_STRATEGY, "tensorflow.distribute.cluster_resolver.TFConfigClusterResolver"}
_CLUSTER = "tensorflow.train.ClusterSpec"
_CLUSTER_1 = "tensorflow.compat.v1.train.ClusterSpec"
_ADDRESS = re.compile(r'(?:^|")([\w.-]{1,253}:\d{1,5})(?=$|")')  # an address: a whole string, or quoted in JSON
_LOCAL = re.compile(r"localhost|127\.[\d.]+")
_HERE = re.compile(rf"{_LOCAL.pattern}|0\.0\.0\.0|::1")
_DEVICE_OF_A_TASK = re.compile(r"/job:\w+(?:/replica:\d+)?/task:\d+.*")
_OTHERS = re.compile(r"['\"](?:ps|evaluator)['\"]")  # types of tasks that do not train, in an `if` condition
_GPU = re.compile("(?i)gpu:")
_CHIEF = re.compile(r"== ['\"](?:chief|master)['\"]")
_OR_A_WORKER = re.compile("worker|index|task_id|rank")
_RUNS_PYTHON = {"from_generator", "py_function", "numpy_function"}


def server_beside_strategy(case: Case) -> Iterator[Hit]:
    """Find servers that a worker starts at its own address, where the worker's strategy also starts a server."""
    for source, _, call in case.calls(SERVER) if is_gang(case) else ():
        of_others = any(_OTHERS.search(test) and "worker" not in test for test in _tests(source, call))
        if (
            not of_others
            and source.constant_texts(_cluster(source, argument(call, 0, "server_or_cluster_def"))) is None
        ):
            what = "This server occupies the port at which MultiWorkerMirroredStrategy starts its own server."
            yield Hit(source.location(call), what, "Remove this server, since the strategy starts the server it needs.")


def connected_by_hand(case: Case) -> Iterator[Hit]:
    """Find calls that connect a worker to the cluster, although the worker's strategy makes this connection itself."""
    connects = "tensorflow.config.experimental_connect_to_cluster"
    for source, _, call in case.calls(connects) if is_gang(case) else ():
        if not source.constructor(argument(call, 0, "cluster_spec_or_resolver") or call).endswith("TPUClusterResolver"):
            what = (
                "experimental_connect_to_cluster starts a server that does not work with MultiWorkerMirroredStrategy, "
                "so this call never returns."
            )
            advice = (
                "Remove this call. To use a resolver of your own, pass it to the strategy: "
                "MultiWorkerMirroredStrategy(cluster_resolver=resolver)."
            )
            yield Hit(source.location(call), what, advice)


def no_leader_of_collectives(case: Case) -> Iterator[Hit]:
    """Find collective operations in a program that does not configure a leader for collectives, to explain a hang."""
    leader = re.compile("collective_group_leader")
    if case.strict or case.job.shape is not Shape.MULTI_WORKER or any(each.mentions(leader) for each in case.sources):
        return
    for source in case.sources:
        for name, call in source.calls():
            if name.startswith("tensorflow.python.ops.collective_ops."):
                what = "The servers have no common leader for this collective operation, so they wait for each other."
                advice = (
                    "Create config = tf.compat.v1.ConfigProto(), set config.experimental.collective_group_leader = "
                    "'/job:worker/replica:0/task:0', and pass config to tf.distribute.Server and to the session."
                )
                yield Hit(source.location(call), what, advice)


def device_of_another_worker(case: Case) -> Iterator[Hit]:
    """Find code for a device of one worker, in programs in which the other workers can't use that device."""
    for source, _, call in case.calls("tensorflow.device") if is_gang(case) else ():
        device = argument(call, 0, "device_name")
        name = device.value if isinstance(device, ast.Constant) else None
        if isinstance(name, str) and _DEVICE_OF_A_TASK.fullmatch(name):
            what = f"With MultiWorkerMirroredStrategy, only the worker that owns the device {name} can use the device."
            advice = (
                "Remove tf.device, create variables inside `with strategy.scope():`, so that each worker has a copy, "
                "and combine values with strategy.reduce. To keep variables on one task, use ParameterServerStrategy "
                "and add --ps 1."
            )
            yield Hit(source.location(call), what, advice)


def gpus_by_name(case: Case) -> Iterator[Hit]:
    """Find strategies that request GPUs by name, to explain a hang on a machine without GPUs."""
    for source, _, call in case.calls(MIRRORED) if not case.strict else ():
        value = source.value(argument(call, 0, "devices"))
        if value is not None and _GPU.search(ast.unparse(value)):
            what = (
                "The strategy requests GPUs by name, but TensorFlow found no GPU on this machine, so the first step "
                "never ends."
            )
            advice = (
                "Create the strategy without devices: tf.distribute.MirroredStrategy() uses the devices that exist. If "
                "the machine has GPUs, check them with nvidia-smi, and install tensorflow[and-cuda]."
            )
            yield Hit(source.location(call), what, advice)


def cluster_without_chief(case: Case) -> Iterator[Hit]:
    """Find clusters without a chief, in programs in which Python code in the chief produces the workers' data."""
    served = case.job.shape is Shape.PARAMETER_SERVER and case.is_distributed and case.names({PARAMETER_SERVER})
    if not served or not _is_spread(case.job):  # on one machine, workers find the chief at localhost
        return
    called = {getattr(call.func, "attr", "") for source in case.sources for _, call in source.calls()}
    for source, _, call in case.calls(_CLUSTER) if (runs := sorted(called & _RUNS_PYTHON)) else ():
        types = _keys(_cluster(source, call))
        if types and types <= {"worker", "ps"}:
            what = (
                f"The chief runs the Python code of {runs[0]}, but this cluster has no chief, so the workers have no "
                "address from which to read the data."
            )
            advice = (
                "Add the chief to the cluster of the resolver and of the servers: ClusterSpec(tf_config['cluster']). "
                f"Or create the data without {runs[0]}."
            )
            yield Hit(source.location(call), what, advice)


def too_small_cluster(case: Case) -> Iterator[Hit]:
    """Find clusters with fewer addresses than the job has tasks, to explain why a server did not start."""
    counts = case.job.counts
    for source, _, call in case.calls(_CLUSTER, _CLUSTER_1) if not case.strict else ():
        cluster = _cluster(source, call)
        types = _keys(cluster)
        chiefs = 0 if "chief" in types else counts.get(TaskType.CHIEF, 0)  # the cluster may list the chief as a worker
        needed = {"worker": counts.get(TaskType.WORKER, 0) + chiefs, "ps": counts.get(TaskType.PS, 0)}
        for key, value in zip(cluster.keys, cluster.values, strict=True) if isinstance(cluster, ast.Dict) else ():
            kind = str(key.value) if isinstance(key, ast.Constant) else ""
            count = _length(source, value)
            if count is not None and count < needed.get(kind, 0):
                addresses = f"{count} address{'es' * (count != 1)}"
                what = f"This cluster has only {addresses} for tasks of type {kind}, but the job has {case.tasks}."
                advice = (
                    "Add an address for every task. Or read the cluster from TF_CONFIG with "
                    "tf.distribute.cluster_resolver.TFConfigClusterResolver().cluster_spec(), and the task's type and "
                    'index from json.loads(os.environ["TF_CONFIG"])["task"].'
                )
                yield Hit(source.location(call), what, advice, word=kind)


def _length(source: Source, node: ast.AST | None) -> int | None:
    """Return the length of a list or of a constant slice of a list; None if the length is unknown."""
    match source.value(node):
        case ast.List(elts=parts) | ast.Tuple(elts=parts):
            return None if any(isinstance(part, ast.Starred) for part in parts) else len(parts)
        case ast.Subscript(value=whole, slice=ast.Slice(lower=lower, upper=upper, step=None)):
            length, first, end = _length(source, whole), _number(source, lower), _number(source, upper)
            if length is None or (lower is not None and first is None) or (upper is not None and end is None):
                return None
            return len(range(length)[first:end])
    return None


def _number(source: Source, node: ast.AST | None) -> int | None:
    value = source.value(node)
    return value.value if isinstance(value, ast.Constant) and isinstance(value.value, int) else None


def tf_config_of_other_tasks(case: Case) -> Iterator[Hit]:
    """Find code that sets a TF_CONFIG with tasks that the job does not have, or with unreachable addresses."""
    if case.job.tf_config is TfConfig.OURS or not case.names({MULTI_WORKER, PARAMETER_SERVER}):
        return
    for source in case.sources:
        for node in source.nodes:
            if not isinstance(node, ast.Assign) or not writes_tf_config(source, node) or not case.applies(source, node):
                continue
            texts = (source.constant_texts(node.value) or []) if case.strict else _texts(source, node.value)
            addresses = [address for text in texts for address in _ADDRESS.findall(text)]
            if addresses and not any("TF_CONFIG" in test for test in _tests(source, node)):
                yield from (Hit(source.location(node), *said) for said in _unreachable(case.job, addresses))


def chief_without_a_chief(case: Case) -> Iterator[Hit]:
    """Find training code that only a chief runs, in a job without a chief."""
    if case.job.counts.get(TaskType.CHIEF) or not case.is_distributed:
        return
    for source in case.sources:
        for block in (node for node in source.nodes if isinstance(node, ast.If)):
            test = ast.unparse(block.test)
            alone = _CHIEF.search(test) and not _OR_A_WORKER.search(test) and case.applies(source, block)
            if alone and _trains(source, block.body) and not _trains(source, block.orelse):
                what = f"Only a chief runs this code, but the job has {case.tasks} and no chief, so no task trains."
                advice = "Remove the condition: with MultiWorkerMirroredStrategy, all workers have to train."
                if case.names({PARAMETER_SERVER}):
                    advice = "Add --ps 1, which starts a parameter server and a chief."
                yield Hit(source.location(block), what, advice)


def _trains(source: Source, statements: list[ast.stmt]) -> bool:
    """Return whether the statements, or functions of the file that they call, create a strategy or call `fit`."""
    for statement in statements:
        for node in ast.walk(statement):
            inner = function_of(source, node.func) if isinstance(node, ast.Call) else None
            calls = [
                node,
                *(each for function in (reached(source, inner) if inner else ()) for each in ast.walk(function)),
            ]
            for call in calls:
                if isinstance(call, ast.Call) and (
                    source.dotted(call.func) in (MULTI_WORKER, PARAMETER_SERVER)
                    or getattr(call.func, "attr", "") == "fit"
                ):
                    return True
    return False


def writes_tf_config(source: Source, node: ast.AST) -> bool:
    """Return whether the node sets the variable TF_CONFIG for a strategy that is created afterwards."""
    match node:
        case ast.Assign(targets=[ast.Subscript(value=owner, slice=ast.Constant(value="TF_CONFIG"))]):
            if source.dotted(owner) != "os.environ":
                return False
            before = source.nodes_before(node)
            is_late = any(source.dotted(call.func) in _READERS for call in before if isinstance(call, ast.Call))
            return not is_late and not any(map(_removes_tf_config, source.nodes))
    return False


def _removes_tf_config(node: ast.AST) -> bool:
    """Return whether the node removes the variable TF_CONFIG from the environment."""
    match node:
        case ast.Subscript(slice=ast.Constant(value="TF_CONFIG"), ctx=ast.Del()):
            return True
        case ast.Call(func=ast.Attribute(attr="pop") | ast.Attribute(attr="unsetenv"), args=[ast.Constant(value), *_]):
            return value == "TF_CONFIG"
    return False


def _unreachable(job: JobSpec, addresses: list[str]) -> Iterator[tuple[str, str]]:
    """If these addresses can't connect all tasks of the job, yield the problem and the advice."""
    own = "The TF_CONFIG that the program sets"
    remove = "Leave TF_CONFIG as clusterkit sets it, or run with --tf-config ours, which ignores the program's value."
    away = [address for address in addresses if not _is_spread(job) and not _HERE.fullmatch(address.rpartition(":")[0])]
    wrong = [address for address in addresses if int(address.rpartition(":")[2]) == 0]
    local = [address for address in addresses if _is_spread(job) and _LOCAL.fullmatch(address.rpartition(":")[0])]
    if wrong or local:
        why = [f"no task can connect to port 0 ({wrong[0]})"] if wrong else []
        why += [f"on each machine, {local[0]} is that machine itself"] if local else []
        advice = f"{remove} A TF_CONFIG of your own needs each machine's name or IP address, and ports other than 0."
        yield f"{own} has addresses at which the tasks do not find each other: {listed(why)}.", advice
    elif away:
        yield f"{own} has the address of another machine, but no task of this job listens at {away[0]}.", remove
    elif len({*addresses}) < len(addresses):
        yield f"{own} gives several tasks the same address, but only one task can listen there.", remove
    elif len(addresses) > len(job.cluster):
        missing = number_of("task", len(job.cluster))
        yield (
            f"{own} has {len(addresses)} tasks, but the job has {missing}, so the strategy waits for tasks that are "
            "never started.",
            "Leave TF_CONFIG as clusterkit sets it, and start the missing tasks, too: "
            f"--workers {len(addresses)}. For fewer tasks, run with --tf-config ours.",
        )


def _texts(source: Source, value: ast.expr) -> Iterator[str]:
    """Yield the constant strings in a value of TF_CONFIG. Other parts, such as the index, need not be constant."""
    todo: list[ast.AST | None] = [value] if isinstance(value, ast.Constant) else []
    if isinstance(value, ast.Call) and source.dotted(value.func) == "json.dumps":
        todo += value.args[:1]
    seen = set[str]()
    while todo:
        match todo.pop(0):
            case ast.Constant(value=str(text)):
                yield text
            case ast.Name(id=name) as use if name not in seen:
                seen.add(name)
                todo.append(source.value(use))
            case ast.Dict(values=parts) | ast.List(elts=parts) | ast.Tuple(elts=parts):
                todo += parts


def _tests(source: Source, node: ast.AST) -> list[str]:
    """Return the conditions of the `if` statements around a node."""
    return [ast.unparse(block.test) for block in source.enclosing(node) if isinstance(block, ast.If)]


def _is_spread(job: JobSpec) -> bool:
    """Return whether tasks have different localhosts: they run on several hosts, or in the virtual network."""
    return job.network is Network.VIRTUAL or job.hosts.count > 1


def _cluster(source: Source, node: ast.AST | None) -> ast.AST | None:
    """Return the value that specifies a cluster: for a call of ClusterSpec, this is the call's argument."""
    match made := source.value(node):
        case ast.Call(func=func) if source.dotted(func) in (_CLUSTER, _CLUSTER_1):
            return source.value(argument(made, 0, "cluster"))
    return made


def _keys(node: ast.AST | None) -> set[str]:
    """Return the keys of a dictionary; an empty set if some keys are unknown."""
    keys = node.keys if isinstance(node, ast.Dict) else []
    names = {key.value for key in keys if isinstance(key, ast.Constant) and isinstance(key.value, str)}
    return names if len(names) == len(keys) else set()
