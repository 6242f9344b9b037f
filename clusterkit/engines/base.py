"""The contract of an engine: what clusterkit asks of whatever owns the hosts of a run, and how it is found."""

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

Announce = Callable[[str], None]  # shows the user a sentence


class Engine(ABC):
    """An engine. The defaults are those of hosts that are there already, so that nothing has to be submitted."""

    # Before a run.

    def completed(self, options: JobOptions) -> JobOptions:
        """Return the options with what the engine derives from them, such as the number of hosts. Raises BadJob."""
        return options

    def problems(self, job: JobSpec) -> Iterator[str]:
        """Announce what the engine refuses, of a job whose options are right in themselves."""
        yield from ()

    def submits(self) -> bool:
        """Whether a run has to be submitted, since this process has none of the engine's hosts."""
        return False

    def script(self, job: JobSpec, run_id: str) -> str:
        """Return what would be submitted, for `config`; empty if nothing is. Raises BadJob."""
        return ""

    def submit(self, job: JobSpec, run_id: str, files: tuple[str, str], say: Announce) -> Callable[[], int]:
        """Submit a run; return a function that follows it to its end and returns its exit code.

        `files` are the job file as everybody may see it, and with all that is hidden there. Raises ClusterkitError.
        """
        raise NotImplementedError

    # Within a run, where its supervisor is.

    @abstractmethod
    def allocation(self, job: JobSpec, directory: RunDirectory, continues: bool) -> Allocation:
        """Return the hosts of a run. `continues`: the run can go on in another allocation. Raises ClusterkitError."""

    def allocation_id(self) -> str:
        """Return the engine's name for the allocation of this process; empty if it needs none to find the run again."""
        return ""

    def supervisor_lost(self) -> bool:
        """React to the loss of the supervisor's host, in an agent that has ended its tasks; return whether it could."""
        return False

    # From outside, for a run whose supervisor has noted an `allocation_id`.

    def run_inside(self, allocation: str, host: str, command: Sequence[str]) -> subprocess.CompletedProcess[bytes]:
        """Run a command on the supervisor's host. Raises ClusterkitError."""
        raise NotImplementedError

    def continues(self, run: RunDirectory) -> bool:
        """Wait until the run has a supervisor again; return False as soon as it will get none."""
        return False


def engine_named(name: str) -> Engine:
    """Import an engine, and no other one. Raises ClusterkitError if the name is unknown."""
    if name not in get_args(EngineName):
        raise ClusterkitError(
            f"Unknown engine {printable(name)!r:.60}. The engines are {', '.join(get_args(EngineName))}."
        )
    engine: Engine = import_module(f"clusterkit.engines.{name}.engine").ENGINE
    return engine


def continues(run: RunDirectory) -> bool:
    """Wait until a run that its engine may continue has a supervisor again; return False if it will get none."""
    info = run.info()
    return info is not None and bool(info.allocation) and engine_named(info.job.hosts.engine).continues(run)


def may_continue(run: RunDirectory) -> bool:
    """Whether a run without a supervisor has an allocation that may get one, and was not ended for good."""
    info, result = run.info(), run.result()
    return info is not None and bool(info.allocation) and (result is None or not result.final)
