"""Findings about the cluster: TF_CONFIG, who serves, who evaluates."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from clusterkit.rules.case import Case
from clusterkit.rules.expressions import Mark
from clusterkit.rules.origins import (
    COORDINATOR,
    MULTI_WORKER,
    PARAMETER_SERVER,
    REMOVES_TF_CONFIG,
    SERVE,
    SERVER,
    WRITES_TF_CONFIG,
)
from clusterkit.words.findings import Finding
from clusterkit.words.model import Servers, TaskType

_SERVES = r"(?i)(?<!parameter)(?<!parameter_)serve"  # a name of TensorFlow's servers, or of whatever starts them
_ADDRESS = re.compile(r"[\w.-]+:\d{2,5}")
_CLUSTERS = ("tensorflow.train.ClusterSpec", "tensorflow.distribute.cluster_resolver.SimpleClusterResolver", SERVER)


def tf_config_overwritten(case: Case) -> Iterator[Finding]:
    """What clusterkit has told the task is replaced, or taken away."""
    if len(case.job.cluster) < 2:
        return
    tasks = f"the {len(case.job.cluster)} tasks"
    advice = 'clusterkit sets it in every task. Set it only where it is not: if "TF_CONFIG" not in os.environ.'
    for mark in case.program.calls(WRITES_TF_CONFIG):
        if mark.guarded:
            continue
        value = mark.node.value if isinstance(mark.node, ast.Assign | ast.AnnAssign) else mark.node
        same = value is not None and isinstance(mark.node, ast.Assign) and case.program.words.is_constant(value)
        if same and mark.certain and _makes_cluster(case, mark):
            what = f"TF_CONFIG is overwritten with the same text in each of {tasks}: all take themselves for one task."
            yield case.error("tf-config-overwritten", mark, what, advice)
        elif not (value is not None and case.program.words.asks_cluster(value)):
            what = f"TF_CONFIG is overwritten here: {tasks} leave the cluster that was made for them."
            yield case.warning("tf-config-overwritten", mark, what, advice)
    for mark in case.program.calls(REMOVES_TF_CONFIG):
        if not mark.guarded:
            what = f"TF_CONFIG is removed here: each of {tasks} trains alone from then on."
            yield case.warning("tf-config-overwritten", mark, what, "Leave it as it is.")


def _makes_cluster(case: Case, since: Mark) -> bool:
    """Whether it certainly reads TF_CONFIG afterwards."""
    reads = (MULTI_WORKER, PARAMETER_SERVER, SERVER, SERVE)
    later = case.program.marks[case.program.marks.index(since) :]
    return any(mark.certain and mark.name in reads for mark in later)


def nobody_serves(case: Case) -> Iterator[Finding]:
    """The coordinator's code alone, and tasks that have to serve."""
    if not case.is_ps or case.job.servers is Servers.BUILTIN or not case.is_closed:
        return
    if case.program.says(_SERVES) or _have_own_arguments(case):
        return
    for mark in case.program.calls(PARAMETER_SERVER)[:1]:
        what = (
            f"Nothing serves: with {case.tasks} every task runs this coordinator's code, since the program neither "
            f"starts a tf.distribute.Server nor asks which task it is."
        )
        advice = "Add --servers builtin, or call clusterkit.training.serve() first."
        make = case.error if mark.certain else case.warning
        yield make("nobody-serves", mark, what, advice)


def _have_own_arguments(case: Case) -> bool:
    setups = [case.job.setups[kind] for kind in (TaskType.WORKER, TaskType.PS) if kind in case.job.setups]
    return any(setup.args is not None or setup.env or setup.python for setup in setups)


def evaluator_unasked(case: Case) -> Iterator[Finding]:
    """An evaluator that does what the workers do."""
    program = case.program
    if not case.job.counts.get(TaskType.EVALUATOR, 0) or program.is_opaque or not program.steps:
        return
    if program.words.asks_task or program.says("(?i)evaluator") or "evaluator" in program.words.texts:
        return
    what = "The evaluator does what the other tasks do: the program never asks whether it is the evaluator."
    advice = "Ask clusterkit.training.is_evaluator() first and evaluate there, or leave out --evaluator."
    if TaskType.EVALUATOR in case.job.setups:
        return
    yield case.warning("evaluator-trains", program.steps[0], what, advice)


def fixed_cluster(case: Case) -> Iterator[Finding]:
    """Addresses in the text."""
    if len(case.job.cluster) < 2:
        return
    for mark in case.program.calls(*_CLUSTERS):
        if not mark.guarded and isinstance(mark.node, ast.Call) and (found := _address(case, mark.node)):
            what = f"The cluster is written in the program ({found}): it is not the one that clusterkit made."
            advice = "Take it from TF_CONFIG: tf.distribute.cluster_resolver.TFConfigClusterResolver().cluster_spec()."
            yield case.warning("fixed-cluster", mark, what, advice)


def _address(case: Case, call: ast.Call) -> str | None:
    given: list[ast.expr] = [*call.args, *(word.value for word in call.keywords)]
    for value in given:
        named = case.program.words.values.get(value.id, []) if isinstance(value, ast.Name) else [value]
        for text in (part for each in named if each is not None for part in ast.walk(each)):
            if isinstance(text, ast.Constant) and isinstance(text.value, str) and _ADDRESS.fullmatch(text.value):
                return str(text.value)
    return None


def coordinator_without_ps(case: Case) -> Iterator[Finding]:
    """A coordinator in a job that has nobody to coordinate."""
    for mark in case.program.calls(COORDINATOR):
        if not case.is_ps and mark.certain and not case.program.calls(PARAMETER_SERVER):
            what = f"ClusterCoordinator needs a ParameterServerStrategy, and the job has no ps: it is {case.tasks}."
            yield case.error("no-parameter-servers", mark, what, "Add --ps 1.")


RULES = (tf_config_overwritten, nobody_serves, evaluator_unasked, fixed_cluster, coordinator_without_ps)
