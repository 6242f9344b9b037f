"""Errors. Each carries its data and says what to do. `clusterkit` exports those with short names."""

from __future__ import annotations

from collections.abc import Sequence


class ClusterkitError(Exception):
    """The base class of the errors that clusterkit raises."""

    __module__ = "clusterkit"

    exit_code = 1


class BadJob(ClusterkitError):
    """The job can't run as requested, and nothing was started. `problems` lists everything that is wrong with it."""

    __module__ = "clusterkit"

    exit_code = 2

    def __init__(self, problems: Sequence[str]) -> None:
        super().__init__("\n".join(problems))
        self.problems = tuple(problems)


class NoPorts(ClusterkitError):
    """Not enough free ports."""


class NoHosts(ClusterkitError):
    """The hosts that the job needs did not come, or can't run it."""


class OutOfResources(ClusterkitError):
    """No descriptors, processes or memory are left, so the run can't begin."""

    exit_code = 2


class RunDirectoryError(ClusterkitError):
    """The run directory can't be created, read or written."""

    __module__ = "clusterkit"

    exit_code = 2


class CannotLook(ClusterkitError):
    """The processes of this machine can't be listed, for lack of descriptors or memory. Some may run."""

    def __init__(self, why: str) -> None:
        super().__init__(f"What runs on this machine can't be seen: {why}. Close programs, or raise `ulimit -n`.")
        self.why = why


class ImpossibleTransition(Exception):
    """The machine was about to break its own state table: a defect in clusterkit. The text has the task's history."""
