"""The interface that every engine implements, and a function that imports an engine by name."""

from __future__ import annotations

import subprocess
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from importlib import import_module
from typing import TYPE_CHECKING, get_args

from clusterkit.engines.options import EngineName
from clusterkit.store.directory import RunDirectory
from clusterkit.text.printable import printable
from clusterkit.words.errors import ClusterkitError

if TYPE_CHECKING:
    from clusterkit.backends.hosts.allocation import Allocation
    from clusterkit.job.options import JobOptions
    from clusterkit.words.job import JobSpec

Announce = Callable[[str], None]  # a function that shows the user a sentence


class Engine(ABC):
    """The base class of engines. The default methods suit engines whose hosts are available without submitted jobs."""

    # Methods that are called before a run.

    def completed(self, options: JobOptions) -> JobOptions:
        """Return the options together with values derived from them, such as the number of hosts. Raises BadJob."""
        return options

    def problems(self, job: JobSpec) -> Iterator[str]:
        """Yield a sentence for each reason why the engine refuses a job whose options are otherwise valid."""
        yield from ()

    def submits(self) -> bool:
        """Return whether a run has to be submitted, because this process does not run on one of the engine's hosts."""
        return False

    def script(self, job: JobSpec, run_id: str) -> str:
        """Return the script to submit, for `clusterkit config` to show; "" if nothing is submitted. Raises BadJob."""
        return ""

    def submit(self, job: JobSpec, run_id: str, files: tuple[str, str], say: Announce) -> Callable[[], int]:
        """Submit a run; return a function that follows it to its end and returns its exit code.

        `files` are the texts of the job file without and with its secret values. Raises ClusterkitError.
        """
        raise NotImplementedError

    # Methods that processes of a run call, on the supervisor's host unless stated otherwise.

    @abstractmethod
    def allocation(self, job: JobSpec, directory: RunDirectory, continues: bool) -> Allocation:
        """Return the hosts of a run. `continues`: another allocation can continue the run. Raises ClusterkitError."""

    def allocation_id(self) -> str:
        """Return the engine's id of this process's allocation; empty if the engine finds runs without an id."""
        return ""

    def supervisor_lost(self) -> bool:
        """Request that a run without a supervisor be continued; return whether that succeeded. Called by agents."""
        return False

    # Methods that processes outside a run call, if the run's supervisor has recorded an `allocation_id`.

    def run_inside(self, allocation: str, host: str, command: Sequence[str]) -> subprocess.CompletedProcess[bytes]:
        """Run a command on the supervisor's host. Raises ClusterkitError."""
        raise NotImplementedError

    def continues(self, run: RunDirectory) -> bool:
        """Wait until the run has a supervisor again; return False once it is certain that the run will get none."""
        return False


def engine_named(name: str) -> Engine:
    """Import the engine with this name, without importing others. Raises ClusterkitError if the name is unknown."""
    if name not in get_args(EngineName):
        raise ClusterkitError(
            f"Unknown engine {printable(name)!r:.60}. The engines are {', '.join(get_args(EngineName))}."
        )
    engine: Engine = import_module(f"clusterkit.engines.{name}.engine").ENGINE
    return engine


def continues(run: RunDirectory) -> bool:
    """Wait until a run has a supervisor again; return False if its engine will not continue the run."""
    info = run.info()
    return info is not None and bool(info.allocation) and engine_named(info.job.hosts.engine).continues(run)


def may_continue(run: RunDirectory) -> bool:
    """Return whether a run may get a new supervisor: it has an allocation, and no final result."""
    info, result = run.info(), run.result()
    return info is not None and bool(info.allocation) and (result is None or not result.final)
