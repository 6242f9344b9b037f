"""Rows about mistakes that `check` finds in a program.

A row's id is that of a rule of `check`. If the rule has a finding, the finding is shown instead of the row's sentences.
"""

from __future__ import annotations

import re

from clusterkit.check.misplaced import refused
from clusterkit.explain.frames import frames_of
from clusterkit.explain.row import HOLDS, Condition, Evidence, Row, Words, found
from clusterkit.words.distribution import SPANS_TASKS, WhyAlone

_SAME_TASK = (
    "Could not start gRPC server|[Aa]ddress already in use|opened no port|not open (?:its port|their ports)|"
    "unexpectedly tried to connect|"
    "already in error before the barrier|different incarnation"
)
_ALONE = re.compile(
    r"Single-worker MultiWorkerMirroredStrategy with local_devices|MirroredStrategy with cluster_spec = {}"
)
_NO_OTHER_TASK = {  # the sentences for a log without a run directory
    "means": "MultiWorkerMirroredStrategy found no other task, because TF_CONFIG had no cluster when the strategy was "
    "created. Each worker trains alone.",
    "advice": "Before the strategy is created, set TF_CONFIG to the same cluster in every worker, with the worker's "
    "own task. These set TF_CONFIG for you: clusterkit up --workers 2, a TFJob, and SageMaker's "
    "distribution={'multi_worker_mirrored_strategy': {'enabled': True}}.",
}


def hits(id_: str, pattern: str) -> Condition:
    """Return a condition that holds if `check` has a finding with this id, and the failure matches `pattern`.

    In the pattern, {0} stands for the finding's `word`, which is also the condition's value {subject}.
    """

    def holds(evidence: Evidence) -> Words | None:
        text = f"{evidence.first.text}\n{evidence.reason}"
        for finding in evidence.findings:
            if finding.id == id_ and re.search(pattern.format(re.escape(finding.word)), text):
                return {"subject": finding.word}
        return None

    return holds


def alone(*reasons: WhyAlone) -> Condition:
    """Return a condition that holds if tasks trained alone for one of `reasons`. The values replace both sentences."""

    def holds(evidence: Evidence) -> Words | None:
        seen = evidence.undistributed
        if evidence.job is None and WhyAlone.NEVER_CONNECTED in reasons and _ALONE.search(evidence.first.text):
            return _NO_OTHER_TASK
        if seen is None or seen.why not in reasons:
            return None
        return {"means": str(seen), "advice": f"The program needs: {'; '.join(seen.mend)}"}

    return holds


def _no_cluster(evidence: Evidence) -> Words | None:
    """Check whether tasks with a multi-task strategy trained alone, and the program's TF_CONFIG has no cluster."""
    seen = evidence.undistributed
    if seen is None or seen.why is not WhyAlone.NEVER_CONNECTED or not set(SPANS_TASKS).intersection(seen.strategies):
        return None
    return found("tf-config-without-cluster")(evidence)


def _option_of_up(evidence: Evidence) -> Words | None:
    said = None if evidence.job is None else refused(evidence.job, evidence.first.text)
    return None if said is None else {"means": said[0], "advice": said[1]}


def _index_of_a_replica(evidence: Evidence) -> Words | None:
    """Check whether a line in the traceback uses the id of a replica as an index."""
    lines = {f"{file.rpartition('/')[2]}:{number}" for file, number in frames_of(evidence.first.text)}
    places = (finding.location for finding in evidence.findings if finding.id == "replica-id-as-an-index")
    return HOLDS if any(f"{at.file.rpartition('/')[2]}:{at.line}" in lines for at in places) else None


ROWS = (
    Row(
        "option-after-program",
        "error: unrecognized arguments: --workers 2",
        "",
        "An option of `clusterkit up` was written after the program, so the program received the option and rejected "
        "it.",
        "Write the options of `clusterkit up` before the program: clusterkit up --workers 2 train.py",
        _option_of_up,
        example=("--", "--workers", "2"),
    ),
    Row(
        "hides-module",
        "cannot import name … from partially initialized module … (most likely due to a circular import)",
        "",
        "A file next to the program has the same name as the module {subject}, so Python imports the file instead of "
        "the module.",
        "Rename the file.",
        hits(
            "hides-module",
            r"module '{0}['.]|from (?:partially initialized module )?'{0}'|named '{0}\.|"
            r'File "(?:[^"]*/)?{0}(?:/__init__)?\.py"',
        ),
        example=("--workers", "2", "--start", "cold"),
    ),
    Row(
        "tf-config-overwritten",
        "Could not start gRPC server",
        "",
        "The program sets the same TF_CONFIG in every task, so every process acts as the same task.",
        "Leave TF_CONFIG as clusterkit sets it, or run the job with --tf-config ours.",
        hits("tf-config-overwritten", _SAME_TASK),
        facts_only=True,
        example=("--workers", "2", "--startup-timeout", "20s"),
    ),
    Row(
        "tf-config-without-cluster",
        'MultiWorkerMirroredStrategy with a TF_CONFIG that has no "cluster": each worker trains alone',
        "",
        'The TF_CONFIG that the program sets has no "cluster", so the strategy finds no other task.',
        'Leave TF_CONFIG as clusterkit sets it, or give it a "cluster" with the addresses of all tasks.',
        _no_cluster,
        example=("--workers", "2"),
        facts_only=True,
        over=("no-strategy",),
    ),
    Row(
        "strategy-too-late",
        "RuntimeError: Collective ops must be configured at program startup",
        "Collective ops must be configured at program startup"
        r"|assigned to /job:localhost/\S* but available devices are \[ /job:(?:worker|chief)/",
        "MultiWorkerMirroredStrategy was created after other code had initialized TensorFlow.",
        "Create the strategy before any tensor, variable, dataset, optimizer or other strategy.",
        reported=("tensorflow/tensorflow#34568", "tensorflow/tensorflow#55178"),
        example=("--workers", "2"),
    ),
    Row(
        "wrong-strategy",
        "There is no id for task_type 'ps' in the clusterSpec",
        "[Tt]here is no id for task_type|There must be at least one ps",
        "The program's strategy does not fit the cluster: ParameterServerStrategy needs parameter servers, and "
        "MultiWorkerMirroredStrategy cannot use them.",
        "For ParameterServerStrategy, add --ps 1. For MultiWorkerMirroredStrategy, remove --ps.",
        example=("--workers", "2", "--ps", "1"),
    ),
    Row(
        "shared-file",
        "BlockingIOError: [Errno 11] Unable to synchronously open file (unable to lock file)",
        "",
        "Every task writes to {subject} at the same time.",
        "Give each task its own path, or write only in the chief: if clusterkit.training.is_chief(): …",
        hits("shared-file", r"{0}|unable to (?:synchronously )?lock file"),
        example=("--workers", "2"),
    ),
    Row(
        "no-strategy",
        "each trained alone. The program creates no tf.distribute strategy",
        "",
        "The program creates no strategy that spans the tasks, so the tasks never connected and each trained alone.",
        "Create the model in the scope of a strategy that spans the tasks, such as MultiWorkerMirroredStrategy.",
        alone(WhyAlone.NEVER_CONNECTED),
        facts_only=True,
        example=("--workers", "2"),
    ),
    Row(
        "no-scope",
        "fit ran outside the scope of the strategy",
        "",
        "The tasks connected, but the model was created outside the scope of the strategy, so each task trained alone.",
        "Create and compile the model within `with strategy.scope():`.",
        alone(WhyAlone.NO_SCOPE, WhyAlone.ONE_FIT),
        facts_only=True,
        example=("--workers", "2"),
    ),
    Row(
        "uncalled-main",
        "the program defines main() but never calls it",
        "",
        "The program defines functions, including main(), but never calls main(), so it ends without training.",
        'Call main() at the end of the program: if __name__ == "__main__": main()',
        alone(WhyAlone.UNCALLED),
        facts_only=True,
        example=("--workers", "2"),
    ),
    Row(
        "replica-id-as-an-index",
        "IndexError: list index out of range, at replica_id_in_sync_group, in all workers but the first",
        r"IndexError: (?:list|tuple) index out of range",
        "{line} uses replica_id_in_sync_group, which counts the replicas of all workers, as an index into a list with "
        "the replicas of one worker.",
        "Use the remainder of the id and the length of the list, or give the list strategy.num_replicas_in_sync "
        "elements.",
        _index_of_a_replica,
        ("mlcommons/training#739",),
        ("--workers", "2"),
    ),
)
