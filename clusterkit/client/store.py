"""The run store: finds and selects the runs of a state directory."""

from __future__ import annotations

import os
import re
import secrets
import time
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

import platformdirs

from clusterkit.client.directory import RunDirectory
from clusterkit.words.errors import ClusterkitError

RUN_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")


class NoSuchRun(ClusterkitError):
    """No run matches, or more than one."""


def state_dir() -> Path:
    """Where runs are kept: CLUSTERKIT_HOME, or the platform's place for state."""
    home = os.environ.get("CLUSTERKIT_HOME")
    return Path(home).absolute() if home else Path(platformdirs.user_state_dir("clusterkit"))


def new_run_id() -> str:
    """A run id that sorts by time."""
    return time.strftime("%Y%m%d-%H%M%S-") + secrets.token_hex(2)


@dataclass(frozen=True, slots=True)
class RunStore:
    """The runs of one state directory."""

    home: Path = field(default_factory=state_dir)

    @property
    def path(self) -> Path:
        """The directory of all run directories."""
        return self.home / "runs"

    def run(self, run_id: str, checkpoint_dir: str | None = None) -> RunDirectory:
        """The directory of a run, which need not exist yet."""
        checkpoints = Path(checkpoint_dir).absolute() if checkpoint_dir else None
        return RunDirectory(self.path / run_id, checkpoints)

    def all(self) -> list[RunDirectory]:
        """Every run, in the order of the run ids."""
        paths = sorted(self.path.iterdir()) if self.path.is_dir() else []
        return [RunDirectory(path) for path in paths if path.is_dir()]

    def find(self, prefix: str) -> RunDirectory:
        """The run whose id begins with `prefix`. Raises NoSuchRun if there is none, or more than one."""
        found = [run for run in self.all() if run.run_id.startswith(prefix)]
        exact = [run for run in found if run.run_id == prefix]
        if len(exact or found) == 1:
            return (exact or found)[0]
        if not found:
            raise NoSuchRun(f"There is no run {prefix!r} in {self.path}.")
        names = ", ".join(run.run_id for run in found)
        raise NoSuchRun(f"{prefix!r} matches several runs: {names}. Give more of the run id.")

    def choose(self, prefix: str | None, finished: bool) -> RunDirectory:
        """The run whose id begins with `prefix`; without one the newest live run, or else, if `finished`, the newest.

        Raises NoSuchRun.
        """
        if prefix is not None:
            return self.find(prefix)
        runs = self.all()
        live = [run for run in runs if run.is_live()]
        if live or (finished and runs):
            return newest_first(live or runs)[0]
        if finished:
            raise NoSuchRun(f"There is no run in {self.path}.")
        raise NoSuchRun("No run is live. Name one, or see `clusterkit ls`.")


def newest_first(runs: Iterable[RunDirectory]) -> list[RunDirectory]:
    """Sort runs by their time of creation."""
    return sorted(runs, key=lambda run: (run.created(), run.run_id), reverse=True)
