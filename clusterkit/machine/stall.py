"""Which task holds the others up, and what they wait for meanwhile."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from clusterkit.words.events import Vitals
from clusterkit.words.job import JobSpec
from clusterkit.words.model import Task

# Letters of /proc/PID/stat, the worst first.
_HALTED = {"T": "is stopped (T)", "t": "is stopped by a debugger (t)", "D": "hangs in the kernel (D)"}
NAMED = 3  # of the tasks that do the same as the first; the others are counted


def halted(tasks: Collection[Task], vitals: Mapping[Task, Vitals]) -> tuple[Task, str] | None:
    """The first of the tasks that the kernel does not let run, and what is wrong with it."""
    for letter, wrong in _HALTED.items():
        for task in sorted(tasks):
            if task in vitals and vitals[task].state == letter:
                return task, wrong
    return None


def stuck_task(
    job: JobSpec, steps: Mapping[Task, int | None], vitals: Mapping[Task, Vitals]
) -> tuple[Task, str] | None:
    """The live task to blame for a stall, and what is wrong with it.

    A task that is stopped or hangs in the kernel is to blame before its peers, which only wait for it. Next comes a
    training task that is in its own code while another one waits in TensorFlow, then the reporting task that is
    furthest behind, then the leader.
    """
    if found := halted(steps, vitals):
        return found
    training = {task: steps[task] for task in job.training if task in steps and not job.is_server(task)}
    own = {task: step for task, step in training.items() if task in vitals and vitals[task].own}
    others_wait = any(task in vitals and vitals[task].doing and not vitals[task].own for task in training)
    blamed = (_furthest_behind(own) or min(own)) if own and others_wait else _furthest_behind(steps)
    if blamed is None:
        blamed = job.leader
        return (blamed, _with_doing(vitals, blamed, "leads the job")) if blamed in steps else None
    if blamed in own and others_wait:
        return blamed, vitals[blamed].doing
    return blamed, _with_doing(vitals, blamed, _place(steps, blamed))


def verdict(job: JobSpec, stuck: tuple[Task, str], vitals: Mapping[Task, Vitals]) -> str:
    """`chief:0 waits in ClusterCoordinator.join; worker:1 is stopped (T)`: the tasks that train, then the stuck one."""
    alike: dict[str, list[Task]] = {}
    for task in job.training:
        if task in vitals and vitals[task].doing and task != stuck[0] and not job.is_server(task):
            alike.setdefault(vitals[task].doing, []).append(task)
    waiting = [_alike(tasks, what) for what, tasks in alike.items()]
    return "; ".join([*waiting, f"{stuck[0]} {stuck[1]}"])


def whereabouts(task: Task, vitals: Mapping[Task, Vitals]) -> str:
    """`worker:1 waits for a socket at train.py:7`; the name alone where nothing is known of it."""
    found = halted([task], vitals)
    return f"{task} {found[1] if found else vitals[task].doing if task in vitals else ''}".strip()


def _furthest_behind(steps: Mapping[Task, int | None]) -> Task | None:
    reported = sorted((step, task) for task, step in steps.items() if step is not None)
    return reported[0][1] if reported else None


def _place(steps: Mapping[Task, int | None], task: Task) -> str:
    step, most = steps[task], max(step for step in steps.values() if step is not None)
    return f"is at step {step}" if step == most else f"is the furthest behind (step {step})"


def _with_doing(vitals: Mapping[Task, Vitals], task: Task, what: str) -> str:
    doing = vitals[task].doing if task in vitals else ""
    return f"{what} and {doing}" if doing else what


def _alike(tasks: list[Task], what: str) -> str:
    first, *others = map(str, tasks)
    if not others:
        return f"{first} {what}"
    more = others[:NAMED] + ([f"{len(others) - NAMED} more"] if len(others) > NAMED else [])
    return f"{first} {what}, as {'do' if len(others) > 1 else 'does'} {' and '.join(', '.join(more).rsplit(', ', 1))}"
