"""Which tests a worker of pytest-xdist runs: files at a time, and no file is lost with a worker that dies."""

from __future__ import annotations

from typing import Any

from xdist.scheduler import LoadFileScheduling
from xdist.workermanage import WorkerController


class Files(LoadFileScheduling):  # type: ignore[misc]  # pytest-xdist ships no types
    """Files in the order of collection, which has the long ones first.

    xdist's own begins with those that have the most tests, which are the shortest. When a worker dies it runs the test
    again that it died of; and a worker that is given a last, single test waits for the next one to begin it.
    """

    def __init__(self, config: Any, log: Any = None) -> None:
        super().__init__(config, log)
        config.option.loadscopereorder = False

    def remove_node(self, node: WorkerController) -> str | None:
        """Forget a worker. Where it died: the test that it was running, which has failed; the others go to the rest."""
        units = self.assigned_work.pop(node)
        lost: str | None = next((name for unit in units.values() for name, done in unit.items() if not done), None)
        if lost is None:
            return None
        for scope, unit in units.items():
            left = {name: done or name == lost for name, done in unit.items()}
            if not all(left.values()):
                self.workqueue[scope] = left
        for other in self.nodes:
            self._reschedule(other)
        return lost

    def schedule(self) -> None:
        """Give work to every worker, and the word that there is no more."""
        super().schedule()
        for node in self.nodes:
            while self.workqueue and self._pending_of(self.assigned_work[node]) < 2:
                self._assign_work_unit(node)
            if not self.workqueue and not node.shutting_down:
                node.shutdown()
