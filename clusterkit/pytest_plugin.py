"""The pytest plugin: starts clusters for tests, ends them, adds their logs to failures, and checks for leaks."""

from __future__ import annotations

import argparse
import os
import re
import shutil
import tempfile
from collections.abc import Generator, Iterator, Sequence
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, Unpack, cast

import pytest

from clusterkit.text.durations import seconds
from clusterkit.text.spelling import listed
from clusterkit.words.errors import BadJob, ClusterkitError
from clusterkit.words.job import Limits
from clusterkit.words.outcome import Reservation

if TYPE_CHECKING:  # imported late at runtime, since most test sessions start no cluster
    from clusterkit.api import Cluster, Result
    from clusterkit.api.cluster import Program
    from clusterkit.api.options import Keywords
    from clusterkit.exam.model import Report
    from clusterkit.exam.setup import ExamKeywords

P = TypeVar("P")
TIMEOUT = "2m"  # the default of --cluster-timeout
ENDING = 15.0  # seconds; waits end this long after the run's timeout, since the run's own report is more informative
KEPT = "clusterkit-runs"  # the user property of a test report that holds the path of kept run directories
ONE_RUN = ("timeout", "patience", "verify")  # the defaults of clusters that are not those of exams
MARKER = "cluster(workers=1, ps=0, ...): default options of the clusters that the `cluster` fixture starts."


class Clusters:
    """The value of the `cluster` fixture: call it with the arguments of `clusterkit.Cluster` to start a cluster."""

    def __init__(self, home: Path, defaults: Keywords, places: Sequence[Path]) -> None:
        self.home = home
        self.started: list[Cluster] = []
        self._defaults = defaults
        self._places = places
        self._ends = ExitStack()

    def __call__(self, program: Program | None = None, **options: Unpack[Keywords]) -> Cluster:
        """Start a cluster, which ends after the test at the latest. The marker's options are the defaults.

        Relative paths of programs and job files are looked up in the test's directory, pytest's rootdir and the current
        directory, in this order.
        """
        from clusterkit.api import Cluster

        __tracebackhide__ = True
        options = {**self._defaults, **options}
        options = {**limits(options["timeout"]), **options}
        if "file" in options:
            options["file"] = self._find(options["file"])
        try:
            cluster = Cluster(self._find(program), **options)
        except BadJob as error:
            if others := [str(place) for place in self._places if place != Path.cwd()]:
                error.add_note(f"Relative paths were looked for in {listed(others)} too.")
            raise
        self.started.append(cluster)
        self._ends.callback(cluster.stop)
        return cluster

    def exam(self, program: str | os.PathLike[str] | None = None, **options: Unpack[ExamKeywords]) -> Report:
        """Examine a program as `clusterkit exam` does, and return the report. Raises BadJob.

        In a test, write `assert report.ok, report.why`. The report is ok if no cell failed, and a cell of each chapter
        in `require` passed. Without `require`, these are the chapters in `chapters` or of the cells in `cells`; or, if
        neither is given, "equality" (unless a single worker trains) and "resume".

        quick: one fault for each phase, in about a minute; on unless it is False.
        budget: the time after which no more cells are examined, in seconds or text such as "5m" [1m; 6m if not quick]
        cells, chapters: the only cells and chapters to examine, by name.
        require: the chapters without which the report is not ok.
        keep: keep the directories of all runs in the test's state directory.
        wide: also compare one worker with twice as many workers.
        parallel: the number of runs at the same time [as many as cores and memory allow].

        The other keywords are the options of the job. The marker's options are their defaults, except for `timeout`.
        """
        from clusterkit.exam.setup import examine_program

        __tracebackhide__ = True
        options = {**self._exam_defaults(), **options}
        if "file" in options:
            options["file"] = self._find(options["file"])
        return examine_program(self._find(program), self._ends, **options)

    def _exam_defaults(self) -> ExamKeywords:
        """Return the defaults without the limits of a single run, since the exam derives those from its first run."""
        kept = {name: value for name, value in self._defaults.items() if name not in ONE_RUN}
        return cast("ExamKeywords", kept)

    def _find(self, path: P) -> P | Path:
        """Resolve a path against the test's directory and pytest's rootdir. Return it unchanged if no file is found."""
        if not isinstance(path, str | os.PathLike):
            return path
        found = [place for place in self._places if (place / path).is_file()]
        return found[0] / path if found and found[0] != Path.cwd() else path

    def stop(self) -> None:
        """End all running clusters, even if ending one of them fails."""
        self._ends.close()


CLUSTERS = pytest.StashKey[Clusters]()
FAILED = pytest.StashKey[bool]()


def limits(timeout: Any) -> Keywords:
    """Return how long to wait for a run with this timeout, and when to report a stall."""
    with suppress(ValueError):  # an invalid duration is rejected with the job
        limit, usual = seconds(timeout or 0), Limits().stall_warning
        return {"patience": limit + ENDING, "stall_warning": min(limit / 3, usual)} if limit else {"patience": None}
    return {"patience": ENDING}


def duration(text: str) -> float:
    """Parse a duration such as `2m`, or a number of seconds."""
    try:
        return seconds(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("clusterkit", "clusters of processes (clusterkit)")
    group.addoption("--cluster-keep", action="store_true", help="Keep the run directories, and print their paths.")
    group.addoption(
        "--cluster-timeout",
        type=duration,
        default=TIMEOUT,
        metavar="DURATION",
        help=f"The default timeout of a run, which also limits waits on it; 0 for none. [{TIMEOUT}]",
    )

    parser.addini(
        "cluster_verify",
        "Verify each job before it begins, as with `up --verify`: yes, a number of steps, or required. [no]",
        default="",
    )


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", MARKER)


@pytest.fixture
def cluster(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Clusters]:
    """Start clusters: `cluster("train.py", workers=2)` returns a running `clusterkit.Cluster`.

    `cluster.exam("train.py", workers=2)` examines whether the program is right on several workers and resumes.
    During the test, CLUSTERKIT_HOME is a temporary directory, also for runs that the test starts in other ways.
    """
    from clusterkit.api.supervisor import session

    session()  # before CLUSTERKIT_HOME changes, since it determines the directory of the user's warm servers
    keep = request.config.getoption("--cluster-keep")
    home = _home(request.node.name, keep, tmp_path_factory)
    places = dict.fromkeys([request.path.parent, request.config.rootpath])
    clusters = Clusters(home, _defaults(request), list(places))
    request.node.stash[CLUSTERS] = clusters
    if keep:
        request.node.user_properties.append((KEPT, str(home)))
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("CLUSTERKIT_HOME", str(home))
        yield clusters
    try:
        clusters.stop()
    finally:
        leaks = _leaks(home)
    failed = request.node.stash.get(FAILED, False)
    missed, alone = ([], []) if failed else (_never_injected(clusters.started), _trained_alone(clusters.started))
    others = [] if failed else _other_reservations(clusters.started)
    for doubt in dict.fromkeys(str(doubt) for result in _succeeded(clusters.started) for doubt in result.doubts):
        request.node.warn(pytest.PytestWarning(f"The job did not train as meant: {doubt}"))
    different = [] if failed else _not_equal(clusters.started)
    if not (keep or leaks or missed or alone or different or others or request.node.stash.get(FAILED, False)):
        shutil.rmtree(home, ignore_errors=True)
    if leaks:
        pytest.fail("\n".join(["The test left the following behind; it has been cleaned up.", *leaks]), pytrace=False)
    if missed:
        pytest.fail("\n".join(["The test proves nothing: a fault was never injected.", *missed]), pytrace=False)
    if alone:
        pytest.fail("\n".join(["The training was not distributed.", *alone]), pytrace=False)
    if different:
        pytest.fail("\n".join(["The workers do not compute what one process does.", *different]), pytrace=False)
    if others:
        pytest.fail("\n".join(["The job ended well, but not as asked.", *others]), pytrace=False)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Add the causes and logs of the clusters to the report of a failed test."""
    report = yield
    if report.failed:
        item.stash[FAILED] = True
        started = clusters.started if (clusters := item.stash.get(CLUSTERS, None)) else []
        error = call.excinfo.value if call.excinfo else None
        if isinstance(error, ClusterkitError) and (crash := getattr(report.longrepr, "reprcrash", None)):
            crash.message = crash.message.partition("\n")[0]  # in CI, pytest's summary has whole messages
        for cluster in started:
            from clusterkit.api.sections import sections

            suffix = f" (run {cluster.run_id})" if len(started) > 1 else ""
            report.sections += [(f"clusterkit: {title}{suffix}", text) for title, text in sections(cluster, error)]
    return report


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    reports = [r for found in terminalreporter.stats.values() for r in found if isinstance(r, pytest.TestReport)]
    kept = {value: None for report in reports for name, value in report.user_properties if name == KEPT}
    if kept:
        terminalreporter.section("clusterkit: run directories that were kept")
        terminalreporter.write_line("\n".join(map(str, kept)))


def _defaults(request: pytest.FixtureRequest) -> Keywords:
    options: Keywords = {"timeout": request.config.getoption("--cluster-timeout")}
    if verify := request.config.getini("cluster_verify"):
        options["verify"] = verify
    for marker in reversed(list(request.node.iter_markers("cluster"))):  # the closest marker takes precedence
        if marker.args:
            raise pytest.UsageError(f"@pytest.mark.cluster takes keywords, such as workers=2, not {marker.args!r}.")
        options |= marker.kwargs
    return options


def _never_injected(started: list[Cluster]) -> list[str]:
    """Describe the faults that were never injected, for runs that succeeded. Runs that the test ended are left out."""
    done = _held_against(started, Reservation.FAULTS)
    return [f"{one.fault}: {one.why}. The run: {result.directory}" for result in done for one in result.not_injected]


def _trained_alone(started: list[Cluster]) -> list[str]:
    """Return a text for each job that succeeded although its tasks trained independently."""
    found = [(result.undistributed, result.directory) for result in _held_against(started, Reservation.ALONE)]
    return [
        "\n".join([f"{one} The run: {directory}. The program needs:", *(f"    {line}" for line in one.mend)])
        for one, directory in found
        if one is not None
    ]


def _not_equal(started: list[Cluster]) -> list[str]:
    """Return a text for each job whose first steps differ from those of one process, as --verify has found."""
    found = [(result.verification, result.directory) for result in _held_against(started, Reservation.VERIFY)]
    return ["\n".join([*one.lines, f"The run: {directory}"]) for one, directory in found if one is not None]


def _other_reservations(started: list[Cluster]) -> list[str]:
    """Return a text for each job that succeeded for which a test has to say that it means this."""
    others = Reservation.UNFINISHED, Reservation.NAN, Reservation.UNSAVED
    return [
        f"{result.reason}. The run: {result.directory}. A test that means this has allow={[*map(str, others)]}."
        for result in _held_against(started, *others)
    ]


def _held_against(started: list[Cluster], *reservations: Reservation) -> list[Result]:
    """Return the results of the jobs that succeeded with one of these reservations."""
    return [result for result in _succeeded(started) if not set(reservations).isdisjoint(result.reservations)]


def _succeeded(started: list[Cluster]) -> list[Result]:
    return [cluster.result for cluster in started if not cluster.running and cluster.result.ok]


def _home(test: str, keep: bool, factory: pytest.TempPathFactory) -> Path:
    name = re.sub(r"\W", "_", test)[:30]
    if keep:  # not in pytest's base directory, where the directories of only three sessions are kept
        return Path(tempfile.mkdtemp(prefix=f"clusterkit-{name}-"))
    return factory.mktemp(f"cluster-{name}")


def _leaks(home: Path) -> tuple[str, ...]:
    """Return what the test's runs left behind, and clean up, so that later tests are not disturbed."""
    from clusterkit.store.cleaning import end_leaks, find_leaks
    from clusterkit.store.store import RunStore

    leaks = find_leaks(RunStore(home))
    if leaks.sentences:
        end_leaks(RunStore(home))
    return leaks.sentences
