"""Combines the reports of several programs in one attempt, such as those that a shell script starts in turn."""

from __future__ import annotations

import re
from dataclasses import replace

from clusterkit.backends.local.reports import Report
from clusterkit.words.reports import Progressed, TrainsWith

_PROCESS = re.compile(rb'\{"kind":"\w{1,30}","attempt":\d{1,19},"process":(\d{1,10}),')
MOST_PROGRAMS = 1000  # the maximum number of programs with steps in an attempt; the steps of further ones are ignored


def process_of(line: bytes) -> int | None:
    """Return the pid in a report of a program that a command started; None in reports of other tasks."""
    found = _PROCESS.match(line)
    return None if found is None else int(found[1])


class Programs:
    """The programs of a task's newest attempt that reported steps.

    The steps of a program are added to those of earlier programs. Once a later program reports steps, further steps of
    earlier ones are ignored.
    """

    def __init__(self) -> None:
        self.attempt = 0
        self.processes: list[int] = []  # the pids of programs that reported steps; the last one is the current program
        self.steps_before = 0  # the steps of the programs before the current one
        self.steps = 0  # the steps of all programs

    def combine(self, process: int, event: Report) -> Report | None:
        """Return the event as a report about the whole attempt; None if it says nothing about the attempt."""
        if event.attempt != self.attempt:
            self.attempt, self.processes, self.steps_before, self.steps = event.attempt, [], 0, 0
        if isinstance(event, TrainsWith):  # such as that of an evaluation after the training
            return None if self.processes and process != self.processes[-1] else event
        if not isinstance(event, Progressed):
            return event
        if process not in self.processes and len(self.processes) < MOST_PROGRAMS:
            self.processes.append(process)
            self.steps_before = self.steps
        if process != self.processes[-1]:
            return None
        step = self.steps_before + event.step
        total = None if event.total is None else self.steps_before + event.total
        self.steps = max(self.steps, step)
        return replace(event, step=step, total=total)
