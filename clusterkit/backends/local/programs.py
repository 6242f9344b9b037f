"""Combines the reports of several programs in one attempt, such as those that a shell script starts."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import NamedTuple

from clusterkit.backends.local.reports import Report
from clusterkit.words.reports import Checkpointed, Progressed, Resumed, TrainsWith

_PROCESS = re.compile(rb'\{"kind":"\w{1,30}","attempt":\d{1,19},"process":(\d{1,10}),(?:"program":(\d{1,10}),)?')
MOST_PROGRAMS = 1000  # the maximum number of programs with steps; the steps of further ones are ignored


class Sender(NamedTuple):
    """The process that sent a report. `program` is a number for its command line; None if unknown."""

    process: int
    program: int | None = None


def sender_of(line: bytes) -> Sender | None:
    """Return the sender of a report, if a command started that program; None in reports of other tasks."""
    found = _PROCESS.match(line)
    if found is None:
        return None
    return Sender(int(found[1]), None if found[2] is None else int(found[2]))


@dataclass(slots=True)
class ProgramSteps:
    """A program that a task's command starts: the nth one with its command line, in each attempt."""

    order: int  # the number of programs that appeared before it
    attempt: int = 0  # the newest attempt in which it has reported how far it is
    steps: int = 0  # the largest step that it has reached in that attempt
    steps_in: int = 0  # the newest attempt in which it has completed a step


class Programs:
    """The programs of one task. The task's steps are the sum of those of its programs, one after the other or at once.

    Several processes with the same command line that run at the same time, such as those of `mpirun`, count as one
    program. A restarted command may leave out a program that has done its work: then its steps of an earlier attempt
    count. `is_alive` returns whether a process is running.
    """

    def __init__(self, is_alive: Callable[[int], bool]) -> None:
        self._is_alive = is_alive
        self._attempt = 0
        self._programs: dict[tuple[int | None, int], ProgramSteps] = {}  # by command line and number
        self._running: dict[int, tuple[int | None, ProgramSteps]] = {}  # those of the current attempt, by process
        self._newest: ProgramSteps | None = None  # the last one to complete its first step in the current attempt
        self._overlap = False  # True once programs of this attempt have reported steps in turn

    def combine(self, sender: Sender, event: Report) -> Report | None:
        """Return the event as a report about the whole attempt; None if it says nothing about the attempt."""
        if event.attempt != self._attempt:
            self._attempt, self._running, self._newest, self._overlap = event.attempt, {}, None, False
        if isinstance(event, TrainsWith):  # such as that of an evaluation after the training
            known = self._running.get(sender.process)
            is_other = self._newest is not None and (known is None or known[1] is not self._newest)
            return None if is_other else event
        if not isinstance(event, Progressed | Checkpointed | Resumed):
            return event
        program = self._program_of(sender)
        if program is None:
            return None
        if isinstance(event, Progressed):
            return self._progressed(program, event)
        if isinstance(event, Resumed):  # a program that has no more steps to do reports nothing else
            self._reach(program, event.step)
        return replace(event, step=self._steps_of_others(program) + event.step)

    def _progressed(self, program: ProgramSteps, event: Progressed) -> Progressed:
        if program.steps_in != self._attempt:
            program.steps_in = self._attempt
            self._newest = program
        elif program is not self._newest:
            self._overlap = True
        self._reach(program, event.step)
        before = self._steps_of_others(program)
        # Of programs that train at once, the last step is not known, and the metrics of only one are shown.
        total = None if event.total is None or self._overlap else before + event.total
        metrics = event.metrics if program is self._newest else {}
        return replace(event, step=before + event.step, total=total, metrics=metrics)

    def _program_of(self, sender: Sender) -> ProgramSteps | None:
        """Return the sender's program, which is new at its first report; None if there are too many programs."""
        if (known := self._running.get(sender.process)) is not None:
            return known[1]
        if len(self._running) >= MOST_PROGRAMS:
            return None
        same = {process: one for process, (line, one) in self._running.items() if line == sender.program is not None}
        for process, program in same.items():
            if self._is_alive(process):
                self._running[sender.process] = (sender.program, program)
                return program
        number = sum(line == sender.program for line, _ in self._running.values())
        key = (sender.program, number)
        if key not in self._programs:
            if len(self._programs) >= MOST_PROGRAMS:
                return None
            self._programs[key] = ProgramSteps(len(self._programs))
        self._running[sender.process] = (sender.program, self._programs[key])
        return self._programs[key]

    def _reach(self, program: ProgramSteps, step: int) -> None:
        if program.attempt != self._attempt:
            program.attempt, program.steps = self._attempt, 0
        program.steps = max(program.steps, step)

    def _steps_of_others(self, program: ProgramSteps) -> int:
        """Return the steps of the other programs of this attempt, and of earlier ones that an earlier attempt ran."""
        others = (one for one in self._programs.values() if one is not program)
        return sum(one.steps for one in others if one.attempt == self._attempt or one.order < program.order)
