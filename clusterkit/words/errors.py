"""Errors: one root, each carries its data and says what to do. Those that `clusterkit` exports have short names."""

from __future__ import annotations

from collections.abc import Sequence


class ClusterkitError(Exception):
    """The base class of the errors that clusterkit raises."""

    __module__ = "clusterkit"

    exit_code = 1


class BadJob(ClusterkitError):
    """The job can't run as asked, and nothing was started. `problems` lists everything that is wrong with it."""

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
    """Descriptors, processes or memory are used up, so the run can't begin."""

    exit_code = 2


class RunDirectoryError(ClusterkitError):
    """The run directory can't be made, read or written."""

    __module__ = "clusterkit"

    exit_code = 2


class CannotLook(ClusterkitError):
    """Linux does not say what runs, for want of descriptors or memory. That is not the same as that nothing runs."""

    def __init__(self, why: str) -> None:
        super().__init__(f"What runs on this machine can't be seen: {why}. Close programs, or raise `ulimit -n`.")
        self.why = why


class ImpossibleTransition(Exception):
    """The machine was about to break its own state table: a defect in clusterkit, with the task's story."""
