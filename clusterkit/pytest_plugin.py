"""The pytest plugin: clusters for tests, ended after them, shown where they fail, and searched for leaks."""

from __future__ import annotations

import argparse
import re
import shutil
import tempfile
from collections.abc import Generator, Iterator
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Unpack

import pytest

from clusterkit.words.durations import seconds
from clusterkit.words.printable import printable

if TYPE_CHECKING:  # a test session that starts no cluster does not load what starts one
    from clusterkit.api import Attempt, Cluster, TaskHandle
    from clusterkit.api.cluster import Program
    from clusterkit.api.options import Keywords

TIMEOUT = "2m"
TAIL = 20  # lines of each log that a failing test shows
ENDING = 15.0  # seconds by which a wait outlasts its run's timeout, whose report says more
KEPT = "clusterkit-runs"
MARKER = "cluster(workers=1, ps=0, ...): what the fixture `cluster` starts where the test does not say it."


class Clusters:
    """What the fixture `cluster` gives to a test: call it with what `clusterkit.Cluster` takes, for a running one."""

    def __init__(self, home: Path, defaults: Keywords) -> None:
        self.home = home
        self.started: list[Cluster] = []
        self._defaults = defaults
        self._ends = ExitStack()

    def __call__(self, program: Program | None = None, **options: Unpack[Keywords]) -> Cluster:
        """Start a cluster, which is ended after the test. The marker's options are the defaults."""
        from clusterkit.api import Cluster

        __tracebackhide__ = True
        options = {**self._defaults, **options}
        options = {"patience": patience(options["timeout"]), **options}
        cluster = Cluster(program, **options)
        self.started.append(cluster)
        self._ends.callback(cluster.stop)
        return cluster

    def stop(self) -> None:
        """End those that still run, each of them whatever becomes of the others."""
        self._ends.close()


CLUSTERS = pytest.StashKey[Clusters]()
FAILED = pytest.StashKey[bool]()


def patience(timeout: Any) -> float | None:
    """How long waits wait on a run with such a timeout; None is for ever."""
    with suppress(ValueError):  # what is no duration is refused with the job
        limit = seconds(timeout or 0)
        return limit + ENDING if limit else None
    return ENDING


def duration(text: str) -> float:
    """Seconds, from `2m` or a number."""
    try:
        return seconds(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options."""
    group = parser.getgroup("clusterkit", "clusters of processes (clusterkit)")
    group.addoption("--cluster-keep", action="store_true", help="Keep the run directories, and say where they are.")
    group.addoption(
        "--cluster-timeout",
        type=duration,
        default=TIMEOUT,
        metavar="DURATION",
        help=f"For a run that says nothing else, and so for every wait on it; 0: no limit. [{TIMEOUT}]",
    )


def pytest_configure(config: pytest.Config) -> None:
    """Make the marker known."""
    config.addinivalue_line("markers", MARKER)


@pytest.fixture
def cluster(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Clusters]:
    """Start clusters: `cluster("train.py", workers=2)` is a running `clusterkit.Cluster`.

    Every run of the test, also one that it starts in another way, has its directory below one that is the test's own.
    """
    from clusterkit.api.session import session

    session()  # begins while CLUSTERKIT_HOME is what it was: the user's own warm servers are there
    keep = request.config.getoption("--cluster-keep")
    home = _home(request.node.name, keep, tmp_path_factory)
    clusters = Clusters(home, _defaults(request))
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
    missed = [] if request.node.stash.get(FAILED, False) else _never_injected(clusters.started)
    if not keep and not request.node.stash.get(FAILED, False):
        shutil.rmtree(home, ignore_errors=True)
    if leaks:
        pytest.fail("\n".join(["The test left something behind; it was ended now.", *leaks]), pytrace=False)
    if missed:
        pytest.fail("\n".join(["The test proves nothing: a fault was never injected.", *missed]), pytrace=False)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Add what the clusters tell to the report of a test that failed."""
    report = yield
    if report.failed:
        item.stash[FAILED] = True
        started = clusters.started if (clusters := item.stash.get(CLUSTERS, None)) else []
        for cluster in started:
            report.sections += sections(cluster, f" (run {cluster.run_id})" if len(started) > 1 else "")
    return report


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Say where the kept run directories are."""
    reports = [r for found in terminalreporter.stats.values() for r in found if isinstance(r, pytest.TestReport)]
    kept = {value: None for report in reports for name, value in report.user_properties if name == KEPT}
    if kept:
        terminalreporter.section("clusterkit: run directories that were kept")
        for home in kept:
            terminalreporter.write_line(str(home))


def sections(cluster: Cluster, suffix: str) -> list[tuple[str, str]]:
    """The cause and the logs' tails, each with its title, which ends with `suffix`."""
    found = [(f"clusterkit: cause{suffix}", _cause(cluster))]
    for name, task in cluster.tasks.items():
        for attempt in _telling(task):
            title = f"clusterkit: {name} attempt {attempt.number} log{suffix}"
            lines = task.logs(attempt.number).splitlines()[-TAIL:]
            found.append((title, "\n".join(map(printable, lines))))
    return found


def _cause(cluster: Cluster) -> str:
    from clusterkit.api.tasks import known
    from clusterkit.views.narrate import failed
    from clusterkit.words.events import Failed

    if not cluster.running:
        return cluster.result.report()
    failures = [f"  {failed(event.failure)}" for event in cluster.events() if isinstance(event, Failed)]
    return "\n".join(["The run was still going on.", known(cluster.tasks), *failures])


def _telling(task: TaskHandle) -> list[Attempt]:
    """The attempts whose logs are worth showing: the newest one, and those that failed by themselves."""
    attempts = [attempt for attempt in task.attempts if attempt.pid is not None]
    bad = [a for a in attempts[:-1] if a.exit is not None and not a.exit.ok and a.exit.asked is None]
    return [*bad, *attempts[-1:]]


def _defaults(request: pytest.FixtureRequest) -> Keywords:
    options: Keywords = {"timeout": request.config.getoption("--cluster-timeout")}
    for marker in reversed(list(request.node.iter_markers("cluster"))):  # the closest to the test comes last
        if marker.args:
            raise pytest.UsageError(f"@pytest.mark.cluster takes keywords, such as workers=2, and not {marker.args!r}.")
        options |= marker.kwargs
    return options


def _never_injected(started: list[Cluster]) -> list[str]:
    """What a job that succeeded was to survive, and never met. Where a test ends a run early, it does not matter."""
    done = [cluster.result for cluster in started if not cluster.running and cluster.result.ok]
    return [f"{one.fault}: {one.why}. The run: {result.directory}" for result in done for one in result.not_injected]


def _home(test: str, keep: bool, factory: pytest.TempPathFactory) -> Path:
    name = re.sub(r"\W", "_", test)[:30]
    if keep:  # not below pytest's own directory, which it clears after three sessions
        return Path(tempfile.mkdtemp(prefix=f"clusterkit-{name}-"))
    return factory.mktemp(f"cluster-{name}")


def _leaks(home: Path) -> tuple[str, ...]:
    """What is left; it is ended, so that it can't disturb the tests that come."""
    from clusterkit.client.cleaning import end_leaks, find_leaks
    from clusterkit.client.store import RunStore

    leaks = find_leaks(RunStore(home))
    if leaks.sentences:
        end_leaks(RunStore(home))
    return leaks.sentences
