"""Findings about the strategy: whether it is one for the job, and made when it can be."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from clusterkit.rules.case import Case, where
from clusterkit.rules.expressions import Mark
from clusterkit.rules.origins import ALONE, MULTI_WORKER, OURS, PARAMETER_SERVER, SERVE, SERVER
from clusterkit.rules.program import keyword
from clusterkit.words.findings import Finding

_LATE = {
    "tensorflow.config.threading.set_intra_op_parallelism_threads": "The number of threads can't be set",
    "tensorflow.config.threading.set_inter_op_parallelism_threads": "The number of threads can't be set",
    "tensorflow.config.set_logical_device_configuration": "Logical devices can't be made",
}


def made_too_late(case: Case) -> Iterator[Finding]:
    """MultiWorkerMirroredStrategy behind what has initialised TensorFlow's context."""
    if not case.is_gang:
        return
    advice = "Make the strategy first: before tensors, variables, datasets, optimizers and other strategies."
    for mark in case.program.calls(MULTI_WORKER):
        if (first := mark.initialised) is not None and mark.certain:
            what = (
                f"The strategy is made when TensorFlow is at work already, since {where(first, mark.place)}: with "
                f'{case.tasks} that raises "Collective ops must be configured at program startup".'
            )
            yield case.error("strategy-after-operations", mark, what, advice)
        elif (first := mark.initialised or mark.perhaps) is not None and not mark.guarded:
            what = (
                f"If {where(first, mark.place)} is reached before this, the strategy can't be made with {case.tasks}: "
                f'"Collective ops must be configured at program startup".'
            )
            yield case.warning("strategy-after-operations", mark, what, advice)


def configured_too_late(case: Case) -> Iterator[Finding]:
    """Threads and logical devices behind what has initialised TensorFlow's context."""
    for name, sentence in _LATE.items():
        marks = case.program.calls(name)
        if len(marks) != 1 or not marks[0].certain or marks[0].initialised is None or _is_default(marks[0]):
            continue
        what = f"{sentence} when TensorFlow is at work already, since {where(marks[0].initialised, marks[0].place)}."
        advice = "Do it first of all, before the strategy; or leave it to --cpus-per-task."
        if "logical" in name:
            advice = "Do it first of all, before the strategy."
        yield case.error("configured-too-late", marks[0], what, advice)


def _is_default(mark: Mark) -> bool:
    return isinstance(value := keyword(mark, "num_threads", 0), ast.Constant) and value.value == 0


def parameter_servers_missing(case: Case) -> Iterator[Finding]:
    """ParameterServerStrategy in a job without parameter servers."""
    for mark in case.program.calls(PARAMETER_SERVER):
        if not case.is_ps and mark.certain:
            what = f"ParameterServerStrategy needs parameter servers, and the job has none: it is {case.tasks}."
            yield case.error("no-parameter-servers", mark, what, "Add --ps 1.")


def multi_worker_with_ps(case: Case) -> Iterator[Finding]:
    """MultiWorkerMirroredStrategy in a job with parameter servers."""
    if not case.is_ps or PARAMETER_SERVER in case.program.strategies or OURS in case.program.strategies:
        return
    for mark in case.program.calls(MULTI_WORKER)[:1]:
        what = f"MultiWorkerMirroredStrategy has no use for parameter servers, and the job is {case.tasks}: "
        advice = "Leave out --ps, or make ParameterServerStrategy."
        if mark.certain and case.is_closed and not case.program.calls(SERVER, SERVE):
            what += "in a ps it raises \"There is no id for task_type 'ps'\"."
            yield case.error("multi-worker-with-ps", mark, what, advice)
        elif not mark.guarded:
            yield case.warning("multi-worker-with-ps", mark, what + "a task of type ps can't make it.", advice)


def trains_alone(case: Case) -> Iterator[Finding]:
    """Several tasks that do not know of each other."""
    steps, strategies = case.program.steps, case.program.strategies
    if case.is_gang and case.is_closed and steps and strategies <= ALONE:
        names = " and ".join(sorted(name.rpartition(".")[2] for name in strategies))
        why = f"{names} is for the devices of one process" if names else "the program makes no strategy"
        what = f"Each of the tasks ({case.tasks}) trains a model of its own: {why}."
        advice = "Make tf.distribute.MultiWorkerMirroredStrategy() first of all, or start one worker."
        mark = min(case.program.calls(*strategies) or steps, key=lambda mark: not mark.certain)
        yield case.warning("trains-alone", mark, what, advice)


def no_parameter_server_strategy(case: Case) -> Iterator[Finding]:
    """Parameter servers that nobody uses."""
    steps, strategies = case.program.steps, case.program.strategies
    if case.is_ps and case.is_closed and steps and strategies <= ALONE and not case.program.calls(SERVER, SERVE):
        what = f"The job is {case.tasks}, and the program never makes ParameterServerStrategy: each task trains alone."
        yield case.warning("parameter-servers-unused", steps[0], what, "Make the strategy, or leave out --ps.")


RULES = (
    made_too_late,
    configured_too_late,
    parameter_servers_missing,
    multi_worker_with_ps,
    trains_alone,
    no_parameter_server_strategy,
)
