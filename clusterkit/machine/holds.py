"""Which tasks are held in the debugger, and for how long there has been any."""

from __future__ import annotations

from dataclasses import dataclass, field

from clusterkit.words.model import Task


@dataclass(slots=True)
class Holds:
    """While a task is held, its peers wait for it, and nobody can expect progress."""

    tasks: set[Task] = field(default_factory=set)
    since: float = 0.0  # when the first of them was
    before: float = 0.0  # seconds of the times before that

    def enter(self, task: Task, now: float) -> None:
        """The task is held."""
        if not self.tasks:
            self.since = now
        self.tasks.add(task)

    def leave(self, task: Task, now: float) -> bool:
        """The task is not held any more; return whether it was the last one."""
        if task not in self.tasks:
            return False
        self.tasks.discard(task)
        if not self.tasks:
            self.before += now - self.since
        return not self.tasks

    def seconds(self, now: float) -> float:
        """For how long, in all, at least one task has been held."""
        return self.before + (now - self.since if self.tasks else 0.0)
