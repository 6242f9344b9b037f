"""The run store: finds the runs and campaigns in a state directory."""

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
from clusterkit.store.paths import RunPaths
from clusterkit.store.trust import refuse_untrusted
from clusterkit.text.spelling import listed
from clusterkit.words.errors import ClusterkitError, RunDirectoryError

if TYPE_CHECKING:  # imported only for type checks, since most commands do not need it and should start fast
    from clusterkit.store.campaigns import CampaignFile

T = TypeVar("T")
MOST_SHOWN = 3  # the maximum number of runs to name in a message
RUN_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")


class NoSuchRun(ClusterkitError):
    """No run matches, or several runs match."""

    exit_code = 2  # not 1, since some commands exit with the run's exit code, which is 1 if the run failed


def state_dir() -> Path:
    """Return the state directory, unless other users own it or can write to it. Raises RunDirectoryError."""
    home = state_path()
    refuse_untrusted(home)
    return home


def state_path() -> Path:
    """Return the path of the state directory: CLUSTERKIT_HOME or the platform's default. Raises RunDirectoryError."""
    if home := os.environ.get("CLUSTERKIT_HOME"):
        return Path(home).absolute()
    with suppress(RuntimeError):
        import platformdirs  # imported here, since the import takes a tenth of the time of `ps`

        if (usual := Path(platformdirs.user_state_dir("clusterkit"))).is_absolute():
            return usual
    raise RunDirectoryError(
        f"The directory for runs is unknown: HOME is not set to an absolute path, and the user with the number "
        f"{os.getuid()} has no home directory. Set CLUSTERKIT_HOME to a writable directory."
    )


def new_run_id() -> str:
    """Return a new run id, which begins with the time so that runs sort by age."""
    return time.strftime("%Y%m%d-%H%M%S-") + os.urandom(2).hex()


@dataclass(frozen=True, slots=True)
class RunStore:
    """The runs of one state directory."""

    home: Path = field(default_factory=state_dir)

    def dashboard_file(self, port: int, what: str) -> Path:
        """Return the file with the `address` or the `token` of the dashboard that listens on a port."""
        return self.home / "dashboards" / f"{port}.{what}"

    @property
    def path(self) -> Path:
        """Return the directory that contains all run directories."""
        return self.home / "runs"

    def run(self, run_id: str, checkpoint_dir: str | None = None) -> RunDirectory:
        """Return the directory of a run, which need not exist yet."""
        checkpoints = Path(checkpoint_dir).absolute() if checkpoint_dir else None
        return RunDirectory(self.path / run_id, checkpoints)

    def has(self, run: RunPaths) -> bool:
        """Return whether a run's directory is in this store, even if its path is spelled differently."""
        with suppress(OSError):
            return os.path.samefile(run.path.parent, self.path)
        return False

    def all(self) -> list[RunDirectory]:
        """Return every run, sorted by run id. Raises RunDirectoryError, like all methods that search for runs."""
        return [RunDirectory(path) for path in _entries_in(self.path, Path.is_dir)]

    def campaign(self, campaign_id: str) -> CampaignFile:
        """Return the record of a campaign, which need not exist yet."""
        from clusterkit.store.campaigns import CampaignFile

        return CampaignFile(self.home / "campaigns" / f"{campaign_id}.json")

    def new_campaign(self, campaign_id: str) -> CampaignFile:
        """Return the record of a campaign that is about to begin. Raises RunDirectoryError if its run ids are in use.

        The ids are in use if an earlier campaign's record was removed, but its runs were not.
        """
        file = self.campaign(campaign_id)
        taken = [run.run_id for run in self.all() if campaign_of(run.run_id, (campaign_id,)) is not None]
        if taken and not file.path.exists():  # an existing record is refused later, by `make`
            raise RunDirectoryError(
                f"The campaign {campaign_id} would use ids that runs already have: {listed(taken, MOST_SHOWN)}. "
                "Choose another --run-id, or omit it; or remove these runs with `clusterkit rm`."
            )
        return file

    def campaigns(self) -> list[CampaignFile]:
        """Return every campaign, sorted by id. Raises RunDirectoryError."""

        def is_record(path: Path) -> bool:
            return path.suffix == ".json" and not path.name.startswith(".")

        return [self.campaign(path.stem) for path in _entries_in(self.home / "campaigns", is_record)]

    def find(self, prefix: str) -> RunDirectory:
        """Return the run whose id begins with `prefix`, or whose directory is `prefix`. Raises NoSuchRun.

        A prefix with a slash is a path, since tests and programs may keep their runs outside this store.
        """
        if "/" not in prefix:
            return _only_match({run.run_id: run for run in self.all()}, prefix, "run", self.path)
        run = RunDirectory(Path(prefix).absolute())
        with suppress(OSError):  # for example, the name is too long, or the directory is another user's
            if run.job_file.is_file():
                return run
        raise NoSuchRun(f"{prefix} is not the directory of a run.")

    def find_any(self, prefix: str) -> RunDirectory | CampaignFile:
        """Return the campaign or run whose id begins with `prefix`. Raises NoSuchRun unless exactly one matches.

        The id of a campaign's run begins with the campaign's id. Such a run matches only a prefix that continues after
        the campaign's id.
        """
        campaigns = {one.campaign_id: one for one in self.campaigns()}
        runs = {run.run_id: run for run in self.all()}
        if not prefix.startswith(tuple(f"{name}-" for name in campaigns)):
            runs = {name: run for name, run in runs.items() if campaign_of(name, campaigns) is None}
        both: dict[str, RunDirectory | CampaignFile] = {**runs, **campaigns}
        return _only_match(both, prefix, "run or campaign", self.home)

    def newest_any(self) -> RunDirectory | CampaignFile:
        """Return the newest live run, or else the newest run or campaign. Ignores campaigns' runs. Raises NoSuchRun."""
        campaigns = {one.campaign_id: one for one in self.campaigns()}
        runs = [run for run in self.all() if campaign_of(run.run_id, campaigns) is None]
        if live := [run for run in runs if run.is_live()]:
            return newest_first(live)[0]
        found: list[tuple[float, RunDirectory | CampaignFile]] = [(run.created(), run) for run in runs]
        found += [(one.changed(), one) for one in campaigns.values()]
        if not found:
            raise NoSuchRun(f"There is no run or campaign in {self.home}.")
        return max(found, key=lambda one: one[0])[1]

    def last_two(self) -> list[RunDirectory]:
        """Return the last two runs of one program, the older one first. Raises NoSuchRun.

        Runs of campaigns and exams do not count, nor do runs that ended without having completed a step. If several
        programs have two runs that count, choose the program whose second-latest run is the most recent.
        """
        seen: dict[str, RunDirectory] = {}
        for run in newest_first(self.all()):
            info = run.info()
            if info is None or info.job.part_of is not None:
                continue
            if (result := run.result()) is not None and result.last_step is None:
                continue
            if (newer := seen.setdefault(f"{info.cwd} {info.job.program}", run)) is not run:
                return [run, newer]
        raise NoSuchRun(f"No program has made steps in two runs of {self.path}. Name them: clusterkit compare RUN RUN")

    def find_or_newest(self, word: str) -> RunDirectory:
        """Return the run that `find` finds, or else the newest run of the program `word`. Raises NoSuchRun."""
        try:
            return self.find(word)
        except NoSuchRun:
            wanted = Path(word).parts
            for run in newest_first(self.all()):
                info = run.info()
                program = Path(info.cwd, info.job.program.target) if info is not None else Path()
                if info is not None and info.job.part_of is None and program.parts[-len(wanted) :] == wanted:
                    return run
            raise

    def choose(self, prefix: str | None, finished: bool) -> RunDirectory:
        """Return the run whose id begins with `prefix`. Raises NoSuchRun.

        Without a prefix, return the newest live run or, if `finished` and no run is live, the newest run.
        """
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


def _entries_in(directory: Path, is_wanted: Callable[[Path], bool]) -> list[Path]:
    """Return the wanted entries of a directory, sorted; an empty list if the directory does not exist."""
    try:
        return sorted(filter(is_wanted, directory.iterdir()))
    except (FileNotFoundError, NotADirectoryError):
        return []
    except OSError as error:
        raise unusable(directory, error) from None


def is_in_user_store(run: RunPaths) -> bool:
    """Return whether a run is in the user's own store, in which commands search for run ids."""
    try:
        return RunStore().has(run)
    except RunDirectoryError:  # the user has no state directory
        return False


def campaign_of(run_id: str, campaigns: Iterable[str]) -> str | None:
    """Return the id of a run's campaign: `chaos-…-7`, `chaos-…-7-shrink-1`, `chaos-…-baseline` belong to `chaos-…`."""
    name, _, last = re.sub(r"-shrink-\d+$", "", run_id).rpartition("-")
    return name if (last.isdecimal() or last == "baseline") and name in campaigns else None


def _only_match(found: Mapping[str, T], prefix: str, what: str, place: Path) -> T:
    names = [prefix] if prefix in found else [name for name in found if name.startswith(prefix)]
    if not names:
        raise NoSuchRun(f"There is no {what} {prefix!r} in {place}.")
    if len(names) > 1:
        several = f"{what}s".replace(" or ", "s and ")
        raise NoSuchRun(f"{prefix!r} matches several {several}: {', '.join(names)}. Give more of the id.")
    return found[names[0]]


def newest_first(runs: Iterable[RunDirectory]) -> list[RunDirectory]:
    return sorted(runs, key=lambda run: (run.created(), run.run_id), reverse=True)
