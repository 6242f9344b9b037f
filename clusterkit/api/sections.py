"""The sections about a run in a failed test's report: its result or state, its last stall, and the ends of its logs."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from itertools import takewhile
from pathlib import Path

from clusterkit.api.cluster import Cluster
from clusterkit.api.result import RunEnded, WaitTimeout
from clusterkit.api.tasks import Attempt, TaskHandle, known
from clusterkit.store.paths import RunPaths
from clusterkit.text.noise import NoiseFilter
from clusterkit.text.printable import printable
from clusterkit.text.redraws import TerminalLines
from clusterkit.views.naming import failed
from clusterkit.views.prefixed import Epochs
from clusterkit.views.repeats import Repeats, ShownTraceback, without_times
from clusterkit.words.errors import ClusterkitError
from clusterkit.words.events import Failed, Stalled
from clusterkit.words.outcome import Failure

TAIL = 20  # the maximum number of lines to show of each log if the cause of the failure is unknown
BESIDE_CAUSE = 6  # if the cause is known: the number of lines to show of all other logs together
LEAST = 2  # if the cause is known: the number of lines to show of each other log, even if the sum exceeds BESIDE_CAUSE
STACKS = 11  # the maximum number of lines to show about the task that stalled


def sections(cluster: Cluster, error: BaseException | None) -> Iterator[tuple[str, str]]:
    """Yield the sections, each as (title, text).

    Facts that the exception's text contains are left out. So is the log of the attempt that caused the failure, since
    the text about the cause contains the end of that log.
    """
    cause = None
    try:
        if not cluster.running:
            cause = cluster.result.cause
            if not _says(error, cluster):
                yield "cause" if cause else "result", cluster.result.report()
        elif lines := [*_where(cluster, error), *_failures(cluster)]:
            yield "the run so far", "\n".join(lines)
    except ClusterkitError as problem:  # such as a returned object that can't be unpickled here
        if str(problem) != str(error):
            yield "result", str(problem)
    for stalled in [event for event in cluster.events() if isinstance(event, Stalled)][-1:]:
        yield "stall", "\n".join(map(printable, [stalled.text, *_stack(stalled)]))
    yield from _logs(cluster, cause)


def _stack(stalled: Stalled) -> list[str]:
    """Return the lines of the stall report about the stalled task; the report's file also has the other tasks."""
    lines = list[str]()
    with suppress(OSError):
        lines = Path(stalled.report or "").read_text(errors="replace").splitlines()
    starts = (number for number, line in enumerate(lines) if line.startswith(f"{stalled.task} "))
    return [*takewhile(str.strip, lines[next(starts, len(lines)) :])][:STACKS]


def _logs(cluster: Cluster, cause: Failure | None) -> Iterator[tuple[str, str]]:
    """Yield the end of each log, as the console would show it; logs with the same end are one section."""
    tracebacks: dict[tuple[str, ...], ShownTraceback] = {}
    if cause is not None:
        _shown(list(cause.tail), tracebacks)
    attempts = [(task, attempt) for task in cluster.tasks.values() for attempt in _attempts_to_show(task)]
    others = [(t, a) for t, a in attempts if cause is None or (cause.task, cause.attempt) != (t.task, a.number)]
    shown: list[tuple[str, set[str], list[str]]] = []  # of each log: its title, its lines without times, its lines
    most = TAIL if cause is None else max(LEAST, BESIDE_CAUSE // max(1, len(others)))
    for task, attempt in others:
        with suppress(OSError):  # the log was removed by the test, or with the directory of a test that passed
            terminal = TerminalLines()
            written = Path(RunPaths(cluster.directory).log(task.task, attempt.number)).read_bytes()
            lines = [*terminal.feed(written, 0.0), *terminal.flush()]
            end, name = _shown(lines, tracebacks)[-most:], f"{task.task} attempt {attempt.number}"
            keys = {without_times(line) for line in end}
            twin = next((at for at, (_, those, _) in enumerate(shown) if keys and keys <= those), None)
            if twin is None:
                shown.append((name, keys, end))
            else:
                shown[twin] = (f"{shown[twin][0]}, {name}", *shown[twin][1:])
    yield from ((f"{title} log", "\n".join(map(printable, end))) for title, _, end in shown if end)


def _shown(lines: list[str], tracebacks: dict[tuple[str, ...], ShownTraceback]) -> list[str]:
    """Return the lines without noise and without tracebacks that were shown before, and one line for each epoch."""
    noise, repeats, epochs = NoiseFilter(), Repeats(tracebacks), Epochs()
    own = [line for line in lines if not noise.is_noise(line)]
    kept = [*(line for each in own for line in repeats.feed(each)), *repeats.flush()]
    shown = [*(line for each in kept for line in epochs.feed(each)), *epochs.drain()]
    return [line for line in shown if line.strip()]


def _says(error: BaseException | None, cluster: Cluster) -> bool:
    """Whether the text of the exception, or of a cause or context of the exception, shows the run's result or state."""
    seen = set[int]()
    while error is not None and id(error) not in seen:  # `raise error from error` makes the chain endless
        seen.add(id(error))
        if isinstance(error, RunEnded) and error.result.directory == cluster.directory:
            return True
        if isinstance(error, WaitTimeout) and error.run_id == cluster.run_id and cluster.running:
            return True
        error = error.__cause__ or error.__context__
    return False


def _where(cluster: Cluster, error: BaseException | None) -> list[str]:
    return [] if _says(error, cluster) else ["The run was still active.", known(cluster.tasks)]


def _failures(cluster: Cluster) -> list[str]:
    return [f"  {failed(event.failure)}" for event in cluster.events() if isinstance(event, Failed)]


def _attempts_to_show(task: TaskHandle) -> list[Attempt]:
    """Return the attempts that failed by themselves, not by an injected fault, followed by the newest attempt."""
    attempts = [attempt for attempt in task.attempts if attempt.pid is not None]
    bad = [
        a for a in attempts[:-1] if a.exit is not None and not a.exit.ok and a.exit.asked is None and a.fault is None
    ]
    return [*bad, *attempts[-1:]]
