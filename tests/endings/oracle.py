"""Says how a run has to end, from what its tasks have done alone: their ends in the order of time, and the rules.

It shares nothing with clusterkit: the rules are those of docs/strategies.md. Where two ends were so close that either
may count as the first, it allows both verdicts.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from tests.endings.situations import Situation

TOGETHER = 1.0  # seconds that clusterkit waits after a failure, whether more follow
CLOSE = 0.3  # seconds in which either of two ends may count as the first
ABORTED = (-6, 134)
KILLED = (-9, -15, 137, 143)


@dataclass(frozen=True)
class End:
    """An attempt has ended by itself, with a code or, if negative, a signal."""

    at: float
    task: str
    attempt: int
    how: int

    @property
    def is_peers(self) -> bool:
        """Whether the end can be that of a task whose peers have gone, or that somebody killed; a crash is its own."""
        return self.how in ABORTED or self.how in KILLED


@dataclass
class Verdict:
    """What is right: states of the run, and the tasks that may be called the cause."""

    states: set[str] = field(default_factory=set)
    causes: set[str] = field(default_factory=set)


def judge(situation: Situation, ends: Iterable[End], begins: Mapping[tuple[str, int], float]) -> Verdict:
    """Say how a run with these ends has to end. Restarts are those that its rules ask for, each with one new attempt.

    begins has the times at which attempts began: two failures before a task's next attempt ask for that one attempt.
    """
    ordered = sorted((end for end in ends if not end.task.startswith("evaluator")), key=lambda end: end.at)
    attempts, used, left = Counter(dict.fromkeys(situation.tasks, 1)), Counter[str](), list[End]()
    for place, end in enumerate(ordered):
        if end.attempt < attempts[end.task]:
            continue
        later = [each for each in ordered[place + 1 :] if each.attempt >= attempts[each.task]]
        if end.how == 0 and end.task == situation.leader:
            return _done(situation, end, [each for each in later if each.how != 0])
        if end.how == 0:
            left.append(end)
            continue
        soon = [end, *(e for e in later if e.at < end.at + TOGETHER and e.attempt == attempts[e.task])]
        done = next((each for each in soon if each.how == 0 and each.task == situation.leader), None)
        if done is not None:
            failed = [each for each in later if each.at > done.at and each.how != 0]
            return _done(situation, done, [each for each in soon if each.at < done.at and each.how != 0] + failed)
        group = _restarting(situation, end.task)
        key = "gang" if len(group) > 1 and not situation.has_ps else end.task
        if used[key] >= situation.budget:
            return _failed([each for each in soon if each.how != 0], left)
        used[key] += 1
        for each in group:
            # A first attempt may begin late on a busy machine, but the job has started it before any task ended.
            following = (nth for (task, nth), at in begins.items() if task == each and nth > 1 and at > end.at)
            attempts[each] = min(following, default=attempts[each] + 1)
    return Verdict()


def _restarting(situation: Situation, task: str) -> list[str]:
    """The tasks that restart when this one fails."""
    if task.startswith("ps"):
        return [task, situation.leader]
    if situation.has_ps:
        return [task]
    return [each for each in situation.tasks if each.startswith(("chief", "worker"))]


def _done(situation: Situation, done: End, failed: list[End]) -> Verdict:
    """The leader is done. In a gang, a task that fails by itself just before or after that makes the run fail."""
    if situation.has_ps:
        before = {each.task for each in failed if each.at < done.at + CLOSE}
        return Verdict({"succeeded", *(["failed"] if before else [])}, before)
    own = {each.task for each in failed if not each.is_peers}
    close = {each.task for each in failed if abs(each.at - done.at) < CLOSE} - own
    return Verdict({"failed" if own else "succeeded", *(["failed"] if close else [])}, own | close)


def _failed(failed: list[End], left: list[End]) -> Verdict:
    """A task has failed for good. Others that fail soon may be the cause of it, or those that had left it."""
    first, *others = failed
    causes = {first.task, *(each.task for each in others if first.is_peers or each.at < first.at + CLOSE)}
    return Verdict({"failed"}, causes | ({each.task for each in left} if first.is_peers else set()))
