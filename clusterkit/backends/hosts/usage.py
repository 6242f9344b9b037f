"""Merges the agents' samples, each for one host's tasks and GPUs, into samples for the run."""

from __future__ import annotations

import re
import time
from collections.abc import Collection

from clusterkit.backends.link.messages import BadMessage, Used
from clusterkit.store.usage import GREATEST, UsageLog, UsageSample, Use, interval
from clusterkit.words.model import Task

EARLY = 0.75  # write a sample after this fraction of the interval, since the agents' clocks differ a little
MOST_OF_NAME = 100  # the maximum number of characters in a host's name
_INDEX, _UNFIT = re.compile("[0-9]{1,3}"), re.compile(r"[^\w.-]", re.ASCII)
OLD = 3.0  # a host's last sample is ignored if it is older than this many intervals


class HostsUsage:
    """Writes at most one sample per interval, however many messages agents send. Call it in the listener's thread."""

    def __init__(self, log: UsageLog) -> None:
        self._log = log
        self._newest: dict[str, tuple[float, UsageSample]] = {}  # each host's newest sample, and its time of arrival
        self._began = self._due = time.monotonic()

    def add(self, host: str, used: Used, tasks: Collection[Task]) -> None:
        """Add a host's sample `used`; `tasks` are those that were placed there. Raises BadMessage."""
        sample = {task: _use(task, values) for task, values in used.tasks.items()}
        if unknown := next((task for task in sample if task not in tasks), None):
            raise BadMessage(f"{unknown} was not placed here.")
        if unknown_gpu := next((name for name in used.gpus if not _INDEX.fullmatch(name)), None):
            raise BadMessage(f"{unknown_gpu!r:.80} is not the index of a GPU.")
        place = f" on {_UNFIT.sub('_', host)[:MOST_OF_NAME]}"
        gpus = {f"{index}{place}": _use(f"GPU {index}", values) for index, values in used.gpus.items()}
        now = time.monotonic()
        self._newest[host] = (now, UsageSample(time.time(), sample, gpus))
        if now < self._due:
            return
        every = interval(now - self._began)
        self._due = now + EARLY * every
        self._newest = {host: known for host, known in self._newest.items() if now - known[0] <= OLD * every}
        samples = [one for _, one in self._newest.values()]
        all_tasks = {task: use for one in samples for task, use in one.tasks.items()}
        all_gpus = {gpu: use for one in samples for gpu, use in one.gpus.items()}
        self._log.add(UsageSample(min(one.wall for one in samples), all_tasks, all_gpus))


def _use(of: Task | str, values: tuple[float, ...]) -> Use:
    if len(values) == 2 and all(0 <= value <= GREATEST for value in values):
        return values[0], int(values[1])
    raise BadMessage(f"{values!r:.80} are not the CPU and memory use of {of}.")
