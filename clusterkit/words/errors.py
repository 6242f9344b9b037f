"""The exceptions of clusterkit, whose messages say what to do. The package `clusterkit` exports some of them."""

from __future__ import annotations

from collections.abc import Sequence


class ClusterkitError(Exception):
    """The base class of the errors that clusterkit raises."""

    __module__ = "clusterkit"

    exit_code = 1


class BadJob(ClusterkitError):
    """Raised before anything starts if the job is invalid. `problems` lists everything that is wrong with the job."""

    __module__ = "clusterkit"

    exit_code = 2

    def __init__(self, problems: Sequence[str]) -> None:
        super().__init__("\n".join(problems))
        self.problems = tuple(problems)


class NoPorts(ClusterkitError):
    """Raised if there are not enough free ports."""


class NoHosts(ClusterkitError):
    """Raised if the hosts that the job needs did not join in time, or can't run the job."""


class OutOfResources(ClusterkitError):
    """Raised if a run can't begin because there are no more descriptors, processes or memory."""

    exit_code = 2


class RunDirectoryError(ClusterkitError):
    """Raised if the run directory can't be created, read or written."""

    __module__ = "clusterkit"

    exit_code = 2


class CannotLook(ClusterkitError):
    """Raised if the processes of this machine can't be listed, for lack of descriptors or memory."""

    def __init__(self, why: str) -> None:
        super().__init__(f"What runs on this machine can't be seen: {why}. Close programs, or raise `ulimit -n`.")
        self.why = why


class ImpossibleTransition(Exception):
    """Raised for a bug in clusterkit: a transition that the state table forbids. The message is the task's history."""
