"""The rules of `clusterkit check`. Each rule finds one kind of mistake."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator

from clusterkit.check.case import MULTI_WORKER, OUR_STRATEGY, PARAMETER_SERVER, Case, Hit
from clusterkit.check.findings import Finding, Location, Severity
from clusterkit.check.rules.alone import one_device_alone
from clusterkit.check.rules.averages import batch_per_replica, division_by_no_rows, loss_per_replica
from clusterkit.check.rules.backups import shared_backup
from clusterkit.check.rules.endless import endless_epoch
from clusterkit.check.rules.forks import forks
from clusterkit.check.rules.handlers import replaced_handler
from clusterkit.check.rules.metrics import assigned_metric, metric_of_one_worker
from clusterkit.check.rules.missing import missing_module, missing_name
from clusterkit.check.rules.own_clusters import (
    SERVER,
    chief_without_a_chief,
    cluster_without_chief,
    connected_by_hand,
    device_of_another_worker,
    gpus_by_name,
    no_leader_of_collectives,
    server_beside_strategy,
    tf_config_of_other_tasks,
    too_small_cluster,
    writes_tf_config,
)
from clusterkit.check.rules.replica_ids import replica_id_as_index
from clusterkit.check.rules.schedules import counting_schedule
from clusterkit.check.rules.servers import (
    coordinator_everywhere,
    finite_data,
    fit_of_keras_3,
    one_step_at_a_time,
    shard_of_one_pipeline,
    unscoped_layer,
)
from clusterkit.check.rules.shares import (
    shard_twice,
    steps_of_one_replica,
    undistributed_batches,
    undivided_batch,
    undivided_function,
)
from clusterkit.check.rules.shuffles import unseeded_rows, unseeded_shuffle
from clusterkit.check.rules.steps import loss_divided_twice, mean_of_parts, results_of_one_worker
from clusterkit.check.rules.sync_replicas import no_hook_of_the_optimizer
from clusterkit.check.rules.undefined import undefined_name
from clusterkit.check.source import Source
from clusterkit.words.job import Servers, TfConfig
from clusterkit.words.model import Shape

SINGLE = {f"tensorflow.distribute.{name}Strategy" for name in ("Mirrored", "OneDevice", "CentralStorage")}
_STRATEGIES = {MULTI_WORKER, PARAMETER_SERVER, OUR_STRATEGY, "tensorflow.distribute.TPUStrategy", *SINGLE}
_CREATOR = "keras.utils.experimental.DatasetCreator"
_RESOLVER = "tensorflow.distribute.cluster_resolver.TFConfigClusterResolver"
# Words in cluster-aware code. `multitask`, `linear_rank` of a matrix and `prank` are none.
_CLUSTER_WORDS = re.compile(
    r"(?i)TF_CONFIG|CLUSTERKIT|SLURM|horovod|(?<![a-z])(?:task|role|(?:local|global|node|world)?_?rank)s?(?![a-rt-z])"
)
_SAVED = re.compile(r".*\.(?:keras|h5)")
# Maps each callback that writes files to the name of its path argument. In Keras 2, these callbacks support several
# workers.
_WRITES = {"keras.callbacks.ModelCheckpoint": "filepath", "keras.callbacks.BackupAndRestore": "backup_dir"}

# Calls that initialize TensorFlow's context (tested with TensorFlow 2.21). The Keras functions among them do so only in
# Keras 3.
_INITIALIZES = re.compile(
    r"tensorflow\.(?:constant|Variable|zeros|ones|fill|eye|range|linspace|cast|convert_to_tensor|identity|reshape|stack"
    r"|concat|expand_dims|squeeze|transpose|matmul|one_hot|print|(?:math\.)?reduce_\w+|random\.(?:normal|uniform"
    r"|truncated_normal|shuffle|get_global_generator|stateless_\w+|Generator\.\w+)|data\.(?:TFRecord|TextLine)Dataset"
    r"|data\.Dataset\.(?:range|list_files|zip|counter|random|from_\w+)|config\.(?:experimental\.)?list_logical_devices"
    r"|distribute\.(?:MultiWorker)?MirroredStrategy|distribute\.OneDeviceStrategy|summary\.create_file_writer)"
    r"|keras\.(?:optimizers\.(?!schedules)[A-Z]\w+|metrics\.(?!Metric\b)[A-Z]\w+)"
)


def hides_module(case: Case) -> Iterator[Hit]:
    """Find files that hide a module or package."""
    for file, module, kind in case.hiding_files:
        what = f"This file hides {kind} {module} from everything that the tasks import, including TensorFlow."
        yield Hit(Location(file, 1), what, "Rename the file.", module)


def tf_config(case: Case) -> Iterator[Hit]:
    """Find code that overwrites TF_CONFIG with the same cluster in every task."""
    if case.job.tf_config is TfConfig.OURS:
        return
    writes = [(source, node) for source in case.sources for node in source.nodes if writes_tf_config(source, node)]
    texts = [source.constant_texts(getattr(node, "value", None)) for source, node in writes]
    if len(case.job.cluster) > 1 and all(found and any("cluster" in text for text in found) for found in texts):
        for source, node in writes:
            if case.applies(source, node):
                what = f"TF_CONFIG is overwritten with the same value in each of the {len(case.job.cluster)} tasks."
                advice = (
                    "Remove the assignment, since clusterkit sets TF_CONFIG in every task, or run with --tf-config "
                    "ours, which makes tasks ignore the assignment."
                )
                yield Hit(source.location(node), what, advice)


def no_cluster(case: Case) -> Iterator[Hit]:
    """Find code that sets a TF_CONFIG without the key `cluster`, so that strategies find no other task."""
    if case.job.tf_config is TfConfig.OURS or not case.is_distributed:
        return
    for source in case.sources:
        writes = [node for node in source.nodes if isinstance(node, ast.Assign) and writes_tf_config(source, node)]
        keys = [_keys_in_json(source, source.value(node.value)) for node in writes]
        for node in writes if all(each and "cluster" not in each for each in keys) else ():
            if case.applies(source, node):
                what = 'This TF_CONFIG has no "cluster", so the strategy does not find the other tasks.'
                advice = (
                    'Leave TF_CONFIG as clusterkit sets it, or give it a "cluster" with the addresses of all tasks. '
                    "Or run with --tf-config ours, which makes tasks ignore the assignment."
                )
                yield Hit(source.location(node), what, advice)


def strategy_too_late(case: Case) -> Iterator[Hit]:
    """Find calls that create a MultiWorkerMirroredStrategy after TensorFlow was initialized."""
    for source, name, call in case.calls(MULTI_WORKER, OUR_STRATEGY) if case.job.shape is Shape.MULTI_WORKER else ():
        lines = [
            source.location(node).line
            for node in source.nodes_before(call)
            if isinstance(node, ast.Call)
            and _INITIALIZES.fullmatch(called := source.dotted(node.func))
            and (case.keras == 3 or not called.startswith("keras."))
        ]
        if (lines or not case.strict) and not (name == OUR_STRATEGY and call.args):
            when = f"after line {min(lines)} has initialized TensorFlow" if lines else "when TensorFlow is initialized"
            what = f"The strategy is created {when}, but with {case.tasks} the strategy must be created first."
            advice = "Create the strategy before all tensors, variables, datasets, optimizers and other strategies."
            yield Hit(source.location(call), what, advice, severity=case.severity(bool(lines) and case.joins))


def wrong_strategy(case: Case) -> Iterator[Hit]:
    """Find calls that create a strategy, if the program's only kind of strategy does not fit the job."""
    kinds, is_ps = case.names(_STRATEGIES), case.job.shape is Shape.PARAMETER_SERVER
    for source, name, call in case.calls(*kinds) if len(kinds) == 1 else ():
        short = name.rpartition(".")[2]
        # Servers that the program starts may form another cluster, so the rule ignores programs with such servers.
        if name == PARAMETER_SERVER and not is_ps and not case.names({SERVER}):
            what = f"{short} needs parameter servers, but the job has only {case.tasks}."
            advice = "Add --ps 1."
            resolver = source.constructor(call.args[0]) if call.args else ""
            severity = case.severity(resolver == _RESOLVER and case.joins)
        elif name == MULTI_WORKER and is_ps:
            what = f"{short} does not support parameter servers, but the job has {case.tasks}."
            advice = "Remove --ps, or use ParameterServerStrategy."
            severity = case.severity(case.job.servers is Servers.PROGRAM and case.joins)
        elif name in SINGLE and len(case.job.cluster) > 1 and not any(s.mentions(_CLUSTER_WORDS) for s in case.sources):
            what = f"{short} uses the devices of one process, so each of the tasks ({case.tasks}) trains alone."
            advice, severity = "Use MultiWorkerMirroredStrategy, or start only one worker.", Severity.WARNING
        else:
            continue
        yield Hit(source.location(call), what, advice, severity=severity)


def shared_file(case: Case) -> Iterator[Hit]:
    """Find calls in which every worker writes to the same path."""
    is_shared = case.job.shape is Shape.MULTI_WORKER and not case.names({"os.chdir"})
    for source in case.sources if is_shared and case.names({MULTI_WORKER, OUR_STRATEGY}) else ():
        for name, call in source.calls():
            named = (keyword.value for keyword in call.keywords if keyword.arg == _WRITES.get(name, "filepath"))
            path = next((texts[0] for value in (*call.args[:1], *named) if (texts := source.constant_texts(value))), "")
            saves = getattr(call.func, "attr", "") in ("save", "save_weights") and _SAVED.fullmatch(path)
            unpatched = name in _WRITES and case.keras == 3 and not case.job.patches
            if path and (saves or unpatched) and case.applies(source, call):
                what = f"All tasks ({case.tasks}) write to {path} at the same time."
                advice = "Give each task its own path, or use clusterkit.training.Checkpointer or Backup."
                yield Hit(source.location(call), what, advice, path)


def no_strategy(case: Case) -> Iterator[Hit]:
    """Find the call that trains a model in a program that does not mention strategies or other tasks."""
    others = r"(?<![a-z])(?:dtensor|jax|torch|byteps|mpi4py)"
    words = re.compile(rf"{_CLUSTER_WORDS.pattern}|strateg|{others}")
    if case.is_distributed and not any(source.mentions(words) for source in case.sources):
        for source, fit in case.fits():
            what = f"The program creates no tf.distribute strategy, so each of the tasks ({case.tasks}) trains alone."
            kind = "ParameterServer" if case.job.shape is Shape.PARAMETER_SERVER else "MultiWorkerMirrored"
            yield Hit(source.location(fit), what, f"Create the model in the scope of a {kind}Strategy.")
            return


def no_scope(case: Case) -> Iterator[Hit]:
    """Find the call that trains a model outside the scope of the program's strategy."""
    strategies = [(source, call) for source, _, call in case.calls(MULTI_WORKER, PARAMETER_SERVER, OUR_STRATEGY)]
    used = any(getattr(node, "attr", "") == "scope" for source in case.sources for node in source.nodes)
    if not case.is_distributed or not strategies or used or any(source.may_escape(call) for source, call in strategies):
        return
    for source, fit in case.fits():
        what = f"The model is created outside the strategy's scope, so each of the tasks ({case.tasks}) trains alone."
        yield Hit(source.location(fit), what, "Create and compile the model inside `with strategy.scope():`.")
        return


def uncalled_main(case: Case) -> Iterator[Hit]:
    """Find a main() that nothing calls, in a program that consists only of definitions and imports."""
    main = case.sources[0]
    if (function := main.uncalled_function("main")) is not None:
        what, advice = "Nothing calls main(), so the program does nothing.", "Call main() at the end of the file."
        yield Hit(main.location(function), what, advice)


def dataset_creator(case: Case) -> Iterator[Hit]:
    """Find uses of DatasetCreator, which Keras 3 does not have."""
    for source in case.sources if case.keras == 3 else ():
        for name, call in source.calls():
            if name == _CREATOR and case.applies(source, call):
                what, advice = "Keras 3 has no DatasetCreator, so this line fails.", "Run with --keras 2."
                yield Hit(source.location(call), what, advice, severity=case.severity())


RULES = {
    "hides-module": hides_module,
    "tf-config-overwritten": tf_config,
    "tf-config-without-cluster": no_cluster,
    "tf-config-of-other-tasks": tf_config_of_other_tasks,
    "server-beside-the-strategy": server_beside_strategy,
    "connected-by-hand": connected_by_hand,
    "device-of-another-worker": device_of_another_worker,
    "cluster-without-the-chief": cluster_without_chief,
    "cluster-too-small": too_small_cluster,
    "collectives-without-a-leader": no_leader_of_collectives,
    "chief-without-a-chief": chief_without_a_chief,
    "devices-not-there": gpus_by_name,
    "strategy-too-late": strategy_too_late,
    "wrong-strategy": wrong_strategy,
    "no-strategy": no_strategy,
    "no-scope": no_scope,
    "unseeded-shuffle": unseeded_shuffle,
    "unseeded-rows": unseeded_rows,
    "loss-per-replica": loss_per_replica,
    "batch-per-replica": batch_per_replica,
    "division-by-no-rows": division_by_no_rows,
    "mean-of-parts": mean_of_parts,
    "loss-divided-twice": loss_divided_twice,
    "undistributed-batches": undistributed_batches,
    "shard-twice": shard_twice,
    "undivided-function": undivided_function,
    "undivided-batch": undivided_batch,
    "steps-of-one-replica": steps_of_one_replica,
    "one-device-alone": one_device_alone,
    "assigned-metric": assigned_metric,
    "metric-of-one-worker": metric_of_one_worker,
    "results-of-one-worker": results_of_one_worker,
    "endless-epoch": endless_epoch,
    "forks": forks,
    "replica-id-as-an-index": replica_id_as_index,
    "uncalled-main": uncalled_main,
    "shared-file": shared_file,
    "dataset-creator": dataset_creator,
    "coordinator-everywhere": coordinator_everywhere,
    "keras-3-fit": fit_of_keras_3,
    "unscoped-layer": unscoped_layer,
    "finite-data": finite_data,
    "sync-replicas-without-the-hook": no_hook_of_the_optimizer,
    "shard-of-one-pipeline": shard_of_one_pipeline,
    "one-step-at-a-time": one_step_at_a_time,
    "undefined-name": undefined_name,
    "missing-module": missing_module,
    "missing-name": missing_name,
    "counting-schedule": counting_schedule,
    "handler-before-the-strategy": replaced_handler,
    "shared-backup": shared_backup,
}

# The rules about mistakes that let a run succeed, but not train as intended. After such a run, the rows with the same
# ids in explain/rows/silent.py explain the mistakes.
SILENT = (
    *("unseeded-shuffle", "unseeded-rows", "loss-per-replica", "batch-per-replica", "mean-of-parts"),
    *("loss-divided-twice", "undistributed-batches", "shard-twice", "shard-of-one-pipeline", "undivided-function"),
    *("undivided-batch", "steps-of-one-replica", "one-device-alone", "one-step-at-a-time", "assigned-metric"),
    *("chief-without-a-chief", "results-of-one-worker", "metric-of-one-worker", "counting-schedule"),
)


# The rules that may find a line at which every run of the job fails. `up` does not start a program with such a line.
FAILING = (
    *("strategy-too-late", "wrong-strategy", "dataset-creator", "coordinator-everywhere", "keras-3-fit"),
    *("unscoped-layer", "undefined-name", "missing-module", "missing-name"),
)
# The rules that also apply to programs without TensorFlow.
GENERAL = ("undefined-name", "missing-module")


def check(case: Case, rules: Iterable[str] = RULES) -> list[Finding]:
    """Return the findings of the rules with these ids, by default of all rules."""
    found = [
        Finding(id_, hit.location, hit.what, hit.advice, hit.word, hit.severity)
        for id_ in rules
        for hit in RULES[id_](case)
    ]
    # A rule that knows a name says more about its absence than that it is missing.
    known = {one.location for one in found if one.id != "missing-name"}
    return [one for one in found if one.id != "missing-name" or one.location not in known]


def _keys_in_json(source: Source, value: ast.AST | None) -> set[str]:
    """Return the keys of the dictionary that an expression converts to JSON; an empty set if the keys are unknown."""
    match value:
        case ast.Call(func=func, args=[argument, *_]) if source.dotted(func) == "json.dumps":
            changes = isinstance(argument, ast.Name) and source.other_uses(argument)
            dictionary = None if changes else source.value(argument)
            keys = dictionary.keys if isinstance(dictionary, ast.Dict) else []
            names = {key.value for key in keys if isinstance(key, ast.Constant) and isinstance(key.value, str)}
            return names if len(names) == len(keys) else set()
    return set()
