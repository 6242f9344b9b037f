"""The exceptions of clusterkit, whose messages say what to do. `clusterkit` exports some of them under short names."""

from __future__ import annotations

from collections.abc import Sequence


class ClusterkitError(Exception):
    """The base class of the errors that clusterkit raises."""

    __module__ = "clusterkit"

    exit_code = 1


class BadJob(ClusterkitError):
    """The job can't run as requested; nothing was started. `problems` lists everything that is wrong with the job."""

    __module__ = "clusterkit"

    exit_code = 2

    def __init__(self, problems: Sequence[str]) -> None:
        super().__init__("\n".join(problems))
        self.problems = tuple(problems)


class NoPorts(ClusterkitError):
    """There are not enough free ports."""


class NoHosts(ClusterkitError):
    """The hosts that the job needs did not join in time, or can't run the job."""


class OutOfResources(ClusterkitError):
    """No descriptors, processes or memory are left, so the run can't begin."""

    exit_code = 2


class RunDirectoryError(ClusterkitError):
    """The run directory can't be created, read or written."""

    __module__ = "clusterkit"

    exit_code = 2


class CannotLook(ClusterkitError):
    """The processes of this machine can't be listed, for lack of descriptors or memory. Processes may be running."""

    def __init__(self, why: str) -> None:
        super().__init__(f"What runs on this machine can't be seen: {why}. Close programs, or raise `ulimit -n`.")
        self.why = why


class ImpossibleTransition(Exception):
    """The state machine was about to violate its state table: a bug in clusterkit. The text is the task's history."""
