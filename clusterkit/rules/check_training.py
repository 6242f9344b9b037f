"""Findings about training: `fit` where it is not supported, and what is left of the work after a restart."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from clusterkit.rules.case import Case
from clusterkit.rules.expressions import Mark
from clusterkit.rules.origins import COORDINATOR, MULTI_WORKER, PARAMETER_SERVER
from clusterkit.rules.program import keyword, keywords
from clusterkit.words.findings import Finding
from clusterkit.words.model import RestartPolicy

_BACKUP = ("keras.callbacks.BackupAndRestore", "keras.callbacks.experimental.BackupAndRestore")
_CREATOR = ("keras.utils.experimental.DatasetCreator", "tf_keras.utils.experimental.DatasetCreator")
_KEEPS = r"(?i)checkpoint|backup|save|restore|pickle|dump(?!s)|preempt"
_TAKES_UP = (
    r"(?i)restore|latest|resume|preempt|backup|load_(?:weights|model|state|checkpoint)|^load$|^read$|initial_epoch"
)
_PER_TASK = {"tempfile", "mkdtemp", "TemporaryDirectory", "getpid", "uuid4", "uuid1", "gethostname"}


def fit_with_parameter_servers(case: Case) -> Iterator[Finding]:
    """Keras 3 has no ParameterServerStrategy."""
    if not case.is_ps or case.keras != 3:
        return
    strategies, fits = case.program.calls(PARAMETER_SERVER), case.program.fits
    if not strategies or not fits or case.program.strategies != {PARAMETER_SERVER}:
        return
    advice = "Add --keras 2, or write the loop with ClusterCoordinator."
    if strategies[0].certain and fits[0].certain and not case.program.calls(COORDINATOR):
        what = "Keras 3 can't `fit` under ParameterServerStrategy: it was never made for it."
        yield case.error("fit-with-parameter-servers", fits[0], what, advice)
    elif not case.program.calls(COORDINATOR):
        what = "Where this is reached under ParameterServerStrategy it fails: Keras 3 was never made for it."
        yield case.warning("fit-with-parameter-servers", fits[0], what, advice)


def fit_without_steps(case: Case) -> Iterator[Finding]:
    """Nobody can tell how many steps a DatasetCreator's epoch has."""
    if not case.is_ps or case.keras != 2 or not any(m.certain for m in case.program.calls(PARAMETER_SERVER)):
        return
    for mark in case.program.fits:
        if (
            mark.certain
            and mark.args[:1] in {(name,) for name in _CREATOR}
            and not keywords(mark)
            & {
                "steps_per_epoch",
                None,
            }
        ):
            what = (
                "`fit` with a DatasetCreator under ParameterServerStrategy raises ValueError without steps_per_epoch."
            )
            yield case.error("fit-without-steps", mark, what, "Give it steps_per_epoch.")


def fit_unmended(case: Case) -> Iterator[Finding]:
    """Keras 3 on several workers, and clusterkit told to leave it alone."""
    if not case.is_gang or case.keras != 3 or case.job.keras_fix:
        return
    fits = case.program.fits
    if fits and MULTI_WORKER in case.program.strategies:
        what = f"Keras 3 (seen in 3.15) can't `fit` under MultiWorkerMirroredStrategy with {case.tasks} as it is."
        yield case.warning("fit-unmended", fits[0], what, "Leave out --no-keras-fix, or add --keras 2.")


def backup_is_shared(case: Case) -> Iterator[Finding]:
    """Keras 3's BackupAndRestore knows of one process."""
    if not case.is_gang or case.keras != 3:
        return
    for mark in case.program.calls(*_BACKUP):
        if not mark.guarded and not _is_per_task(case, keyword(mark, "backup_dir", 0)):
            what = (
                f"Every task ({case.tasks}) writes this file, and the first one that is done deletes it for all: Keras "
                f"3's BackupAndRestore was made for one process."
            )
            advice = "Use clusterkit.training.Backup() instead."
            yield case.warning("backup-shared", mark, what, advice)


def saves_are_shared(case: Case) -> Iterator[Finding]:
    """The same file, written by every worker."""
    program = case.program
    if not case.is_gang or MULTI_WORKER not in program.strategies or program.words.asks_task or program.is_opaque:
        return
    if program.calls("tensorflow.distribute.PreemptionCheckpointHandler"):
        return
    for mark in program.saves:
        if not mark.guarded and not _is_per_task(case, mark.node):
            what = f"Every task ({case.tasks}) writes to the same path, at the same time."
            advice = (
                "Keep what the chief writes (clusterkit.training.is_chief()) and give the others a directory of their "
                "own each; clusterkit.training.Checkpointer does so."
            )
            yield case.warning("save-shared", mark, what, advice)


def _is_per_task(case: Case, node: ast.AST | None) -> bool:
    words = case.program.words
    if node is None or words.asks_cluster(node):
        return node is not None
    parts = [part for name in ast.walk(node) if isinstance(name, ast.Name) for part in words.values.get(name.id, [])]
    said = {_name(part) for value in [node, *parts] if value is not None for part in ast.walk(value)}
    return bool(said & _PER_TASK)


def _name(node: ast.AST) -> str | None:
    return node.id if isinstance(node, ast.Name) else node.attr if isinstance(node, ast.Attribute) else None


def no_checkpoint(case: Case) -> Iterator[Finding]:
    """Nothing is kept of the work."""
    program = case.program
    if not program.steps or program.is_opaque or case.job.restart.policy is RestartPolicy.NEVER:
        return
    first: Mark = min(program.steps, key=lambda mark: not mark.certain)
    if not program.says(_KEEPS):
        what = "The program never saves what it has learned: after a restart it begins at step 0."
        advice = "Save now and then, and restore at the beginning: clusterkit.training.Checkpointer."
        yield case.warning("no-checkpoint", first, what, advice)
    elif not program.says(_TAKES_UP) and (program.saves or program.says("^Checkpointer$")):
        mark = program.saves[0] if program.saves else first
        what = "The program saves, and never restores: after a restart it begins at step 0 all the same."
        yield case.warning("never-restored", mark, what, "Restore the newest checkpoint before training.")


RULES = (
    fit_with_parameter_servers,
    fit_without_steps,
    fit_unmended,
    backup_is_shared,
    saves_are_shared,
    no_checkpoint,
)
