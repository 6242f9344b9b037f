"""Draws a situation: a job, and what each attempt of each task does."""

from __future__ import annotations

import signal
from dataclasses import dataclass
from random import Random
from typing import Any

CODES = (1, 2, 3, 7)
SIGNALS = (signal.SIGKILL, signal.SIGTERM, signal.SIGSEGV, signal.SIGABRT)
WORDS = ("apple", "birch", "cedar", "daisy", "elder", "fern", "grass", "hazel", "iris", "jasmin")


@dataclass(frozen=True)
class Situation:
    """A job: its options, its tasks, and a plan for each of their attempts."""

    options: tuple[str, ...]
    tasks: tuple[str, ...]
    budget: int  # restarts; 0 with --restart never
    plan: dict[str, list[dict[str, Any]]]

    @property
    def has_ps(self) -> bool:
        """Whether it is a parameter-server job."""
        return "ps:0" in self.tasks

    @property
    def leader(self) -> str:
        """The task whose success is the job's."""
        return "chief:0" if "chief:0" in self.tasks else "worker:0"


def draw(random: Random, number: int) -> Situation:
    """Draw a situation; its number makes the daemons of a situation unlike those of any other."""
    workers = random.randint(1, 3)
    shape = random.choice(("gang", "gang", "ps", "ps", "chief"))
    tasks = [*(["chief:0"] if shape != "gang" else []), *(f"worker:{index}" for index in range(workers))]
    options = ["--workers", str(workers)]
    if shape == "ps":
        tasks.append("ps:0")
        options += ["--ps", "1"]
    elif shape == "chief":
        options.append("--chief")
    if random.random() < 0.2:
        tasks.append("evaluator:0")
        options.append("--evaluator")
    budget = random.choice((0, 0, 1, 2))
    options += ["--restart-budget", str(budget), "--restart-backoff", "0.01s"] if budget else ["--restart", "never"]
    leader = "chief:0" if shape != "gang" else "worker:0"
    plan = {}
    for place, task in enumerate(tasks):
        plan[task] = [_attempt(random, task, leader, shape == "ps", nth, f"{number}{place}{nth}") for nth in range(4)]
    return Situation(tuple(options), tuple(tasks), budget, plan)


def _attempt(random: Random, task: str, leader: str, has_ps: bool, nth: int, name: str) -> dict[str, Any]:
    serves = task.startswith(("ps", "evaluator")) or (has_ps and task != leader)
    chances = {
        "serve": 0.1 if task.startswith("evaluator") else 0.6 if serves else 0.0,
        "code": 0.12 if serves else 0.2,
        "signal": 0.12 if serves else 0.2,
    }
    kind = random.choices((*chances, "zero"), (*chances.values(), 1 - sum(chances.values())))[0]
    how: int | None = None
    if kind == "zero" or (task == leader and nth == 3):
        how = 0
    elif kind != "serve":
        how = random.choice(CODES) if kind == "code" else -int(random.choice(SIGNALS))
    return {
        "how": how,
        "after": round(random.uniform(0.1, 1.2), 2),
        "steps": random.choice((0, 0, 3)) if task == leader else 0,
        "half": random.random() < 0.3,
        "line": f"{random.choice(WORDS)} {random.choice(WORDS)} {random.choice(WORDS)}",
        "daemon": f"7{name}.25" if random.random() < 0.2 else "",
        "wrapped": random.random() < 0.2,
        "stubborn": random.random() < 0.1,
    }
