"""Reasons: why a job fails, as a clause about the task that was the cause."""

from __future__ import annotations

from clusterkit.machine.blame import Blame
from clusterkit.machine.open_recovery import Account
from clusterkit.text.durations import shown
from clusterkit.words.job import RestartRules
from clusterkit.words.model import TaskType


def reason(blamed: Blame, now: float, repeated: bool, account: Account, rules: RestartRules) -> str:
    """`worker:1 exited with code 1, and its restart budget is used up (3 of 3)`."""
    cause = blamed.cause
    why, then = f"{cause.task} {cause.exit}", ""
    if cause.exit.ok:
        where, then = _left(blamed, now)
        why += where
    if repeated and account.used < rules.budget:
        got = "without a new step" if cause.step is None else f"no further than at step {cause.step}"
        why += ", as the attempt before it did" + ("" if cause.exit.ok else f", with the same error and {got}")
    elif account.used >= rules.budget and (cause.exit.error is None or cause.exit.unfit):
        why += f", and its restart budget is used up ({account.used} of {rules.budget})"
    return why + then


def _left(blamed: Blame, now: float) -> tuple[str, str]:
    """When a task left that others needed, and what is wrong with that."""
    cause = blamed.cause
    step = "" if cause.step is None else f" at step {cause.step}"
    if cause.task.type is TaskType.PS:
        return step, "; a parameter server has to serve until the job is done (tf.distribute.Server.join)"
    failed = min((failure.at for failure in blamed.collateral), default=now)
    return f"{step}, {shown(max(0.0, failed - cause.at))} earlier", "; the workers did not stop together"
