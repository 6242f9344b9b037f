"""The run store: finds and selects the runs and campaigns of a state directory."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from clusterkit.store.directory import RunDirectory, unusable
from clusterkit.text.spelling import listed
from clusterkit.words.errors import ClusterkitError, RunDirectoryError

if TYPE_CHECKING:  # few commands need campaigns, and the others are to be instant
    from clusterkit.store.campaigns import CampaignFile

T = TypeVar("T")
SHOWN = 3  # runs that a message names
RUN_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")


class NoSuchRun(ClusterkitError):
    """No run matches, or more than one."""

    exit_code = 2  # 1 would be how a run ended, where a command exits with that


def state_dir() -> Path:
    """The directory for state: CLUSTERKIT_HOME, or the platform's. Raises RunDirectoryError."""
    if home := os.environ.get("CLUSTERKIT_HOME"):
        return Path(home).absolute()
    with suppress(RuntimeError):
        import platformdirs  # here, since a tenth of what `ps` costs is its import

        if (usual := Path(platformdirs.user_state_dir("clusterkit"))).is_absolute():
            return usual
    raise RunDirectoryError(
        f"The directory for runs is unknown: HOME is not set to an absolute path, and the user with the number "
        f"{os.getuid()} has no home directory. Set CLUSTERKIT_HOME to a writable directory."
    )


def new_run_id() -> str:
    """A run id that sorts by time."""
    return time.strftime("%Y%m%d-%H%M%S-") + os.urandom(2).hex()


@dataclass(frozen=True, slots=True)
class RunStore:
    """The runs of one state directory."""

    home: Path = field(default_factory=state_dir)

    @property
    def token_file(self) -> Path:
        """The token of the user's dashboards."""
        return self.home / "dashboard.token"

    @property
    def path(self) -> Path:
        """The directory of all run directories."""
        return self.home / "runs"

    def run(self, run_id: str, checkpoint_dir: str | None = None) -> RunDirectory:
        """The directory of a run, which need not exist yet."""
        checkpoints = Path(checkpoint_dir).absolute() if checkpoint_dir else None
        return RunDirectory(self.path / run_id, checkpoints)

    def has(self, run: RunDirectory) -> bool:
        """Whether a run's directory is in this store, whatever its path."""
        with suppress(OSError):
            return run.path.parent.samefile(self.path)
        return False

    def all(self) -> list[RunDirectory]:
        """Every run, in the order of the run ids. Raises RunDirectoryError, as every search for runs does."""
        return [RunDirectory(path) for path in _found_in(self.path, Path.is_dir)]

    def campaign(self, campaign_id: str) -> CampaignFile:
        """The record of a campaign, which need not exist yet."""
        from clusterkit.store.campaigns import CampaignFile

        return CampaignFile(self.home / "campaigns" / f"{campaign_id}.json")

    def new_campaign(self, campaign_id: str) -> CampaignFile:
        """The record of a campaign that is about to begin. Raises RunDirectoryError if its run ids are in use.

        They are if only the record of an earlier campaign was removed.
        """
        file = self.campaign(campaign_id)
        taken = [run.run_id for run in self.all() if campaign_of(run.run_id, (campaign_id,)) is not None]
        if taken and not file.path.exists():  # a record that exists is refused by itself
            raise RunDirectoryError(
                f"The campaign {campaign_id} would use ids that runs have already: {listed(taken, SHOWN)}. "
                "Choose another --run-id, or omit it; or remove these runs with `clusterkit rm`."
            )
        return file

    def campaigns(self) -> list[CampaignFile]:
        """Every campaign, in the order of the ids. Raises RunDirectoryError."""

        def is_record(path: Path) -> bool:
            return path.suffix == ".json" and not path.name.startswith(".")

        return [self.campaign(path.stem) for path in _found_in(self.home / "campaigns", is_record)]

    def find(self, prefix: str) -> RunDirectory:
        """The run whose id begins with `prefix`. Raises NoSuchRun if there is none, or more than one."""
        return _one({run.run_id: run for run in self.all()}, prefix, "run", self.path)

    def find_any(self, prefix: str) -> RunDirectory | CampaignFile:
        """The campaign or run whose id begins with `prefix`. Raises NoSuchRun if there is none, or more than one.

        A run of a campaign is found only if the prefix is longer than the campaign's id, with which the run's id
        begins.
        """
        campaigns = {one.campaign_id: one for one in self.campaigns()}
        runs = {run.run_id: run for run in self.all()}
        if not prefix.startswith(tuple(f"{name}-" for name in campaigns)):
            runs = {name: run for name, run in runs.items() if campaign_of(name, campaigns) is None}
        both: dict[str, RunDirectory | CampaignFile] = {**runs, **campaigns}
        return _one(both, prefix, "run or campaign", self.home)

    def newest_any(self) -> RunDirectory | CampaignFile:
        """The newest live run, or else the newest run or campaign, which stands for its own runs. Raises NoSuchRun."""
        campaigns = {one.campaign_id: one for one in self.campaigns()}
        runs = [run for run in self.all() if campaign_of(run.run_id, campaigns) is None]
        if live := [run for run in runs if run.is_live()]:
            return newest_first(live)[0]
        found: list[tuple[float, RunDirectory | CampaignFile]] = [(run.created(), run) for run in runs]
        found += [(one.changed(), one) for one in campaigns.values()]
        if not found:
            raise NoSuchRun(f"There is no run or campaign in {self.home}.")
        return max(found, key=lambda one: one[0])[1]

    def choose(self, prefix: str | None, finished: bool) -> RunDirectory:
        """The run whose id begins so; None: the newest live one or, if `finished`, the newest. Raises NoSuchRun."""
        if prefix is not None:
            return self.find(prefix)
        runs = newest_first(self.all())
        found = next((run for run in runs if run.is_live()), runs[0] if runs and finished else None)
        if found is not None:
            return found
        if runs:
            raise NoSuchRun(f"No run is live. The newest, {runs[0].run_id}, is over: see `clusterkit show`.")
        none = f"There is no run in {self.path}" if finished else "No run is live"
        raise NoSuchRun(f"{none}. Start one: clusterkit up PROGRAM")


def _found_in(directory: Path, is_wanted: Callable[[Path], bool]) -> list[Path]:
    """The wanted entries of a directory, sorted; none if it does not exist."""
    try:
        return sorted(filter(is_wanted, directory.iterdir()))
    except (FileNotFoundError, NotADirectoryError):
        return []
    except OSError as error:
        raise unusable(directory, error) from None


def campaign_of(run_id: str, campaigns: Iterable[str]) -> str | None:
    """The campaign of a run: `chaos-…-7`, `chaos-…-7-shrink-1` and `chaos-…-baseline` belong to `chaos-…`."""
    name, _, last = re.sub(r"-shrink-\d+$", "", run_id).rpartition("-")
    return name if (last.isdecimal() or last == "baseline") and name in campaigns else None


def _one(found: Mapping[str, T], prefix: str, what: str, place: Path) -> T:
    names = [prefix] if prefix in found else [name for name in found if name.startswith(prefix)]
    if not names:
        raise NoSuchRun(f"There is no {what} {prefix!r} in {place}.")
    if len(names) > 1:
        several = f"{what}s".replace(" or ", "s and ")
        raise NoSuchRun(f"{prefix!r} matches several {several}: {', '.join(names)}. Give more of the id.")
    return found[names[0]]


def newest_first(runs: Iterable[RunDirectory]) -> list[RunDirectory]:
    """Sort runs by their time of creation."""
    return sorted(runs, key=lambda run: (run.created(), run.run_id), reverse=True)
