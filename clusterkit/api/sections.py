"""The sections about a run in a failed test's report: the run's result or state, last stall, and ends of logs."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from itertools import takewhile
from pathlib import Path

from clusterkit.api.cluster import Cluster
from clusterkit.api.result import RunEnded, WaitTimeout
from clusterkit.api.tasks import Attempt, TaskHandle, known
from clusterkit.store.paths import RunPaths
from clusterkit.system.files import end_of
from clusterkit.text.noise import NoiseFilter
from clusterkit.text.printable import printable
from clusterkit.text.redraws import TerminalLines
from clusterkit.views.naming import failed
from clusterkit.views.prefixed import Epochs
from clusterkit.views.repeats import Repeats, ShownTraceback, without_times
from clusterkit.words.errors import ClusterkitError
from clusterkit.words.events import Failed, Stalled
from clusterkit.words.outcome import Failure

TAIL = 20  # the maximum number of lines per log if the cause of the failure is unknown
# If the cause is known: the maximum number of lines of all other logs together, and the number of lines per log that is
# shown even if the total then exceeds this maximum.
BESIDE_CAUSE, LEAST = 6, 2
LONGEST_READ = 1 << 28  # bytes; of a longer log or report, only the end is read
STACKS = 11  # the maximum number of lines about the task that stalled


def sections(cluster: Cluster, error: BaseException | None) -> Iterator[tuple[str, str]]:
    """Yield the sections, each as (title, text).

    Facts that the exception's text contains are omitted. The log of the attempt that caused the failure is also
    omitted, since the text about the cause contains the end of this log.
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
    """Return only those lines of the stall report that are about the stalled task."""
    lines = list[str]()
    with suppress(OSError):
        lines = end_of(Path(stalled.report or ""), LONGEST_READ).decode(errors="replace").splitlines()
    starts = (number for number, line in enumerate(lines) if line.startswith(f"{stalled.task} "))
    return [*takewhile(str.strip, lines[next(starts, len(lines)) :])][:STACKS]


def _logs(cluster: Cluster, cause: Failure | None) -> Iterator[tuple[str, str]]:
    """Yield a section with the end of each log, as on the console. Logs with the same end share a section."""
    tracebacks: dict[tuple[str, ...], ShownTraceback] = {}
    if cause is not None:
        _shown(list(cause.tail), tracebacks)
    attempts = [(task, attempt) for task in cluster.tasks.values() for attempt in _attempts_to_show(task)]
    others = [(t, a) for t, a in attempts if cause is None or (cause.task, cause.attempt) != (t.task, a.number)]
    shown: list[tuple[str, set[str], list[str]]] = []  # for each section: title, lines without times, lines
    most = TAIL if cause is None else max(LEAST, BESIDE_CAUSE // max(1, len(others)))
    for task, attempt in others:
        with suppress(OSError):  # the log may have been removed, by the test or with the temporary directory
            terminal = TerminalLines()
            written = end_of(Path(RunPaths(cluster.directory).log(task.task, attempt.number)), LONGEST_READ)
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
    """Remove noise and repeated tracebacks, and reduce each epoch to one line."""
    noise, repeats, epochs = NoiseFilter(), Repeats(tracebacks), Epochs()
    own = [line for line in lines if not noise.is_noise(line)]
    kept = [*(line for each in own for line in repeats.feed(each)), *repeats.flush()]
    shown = [*(line for each in kept for line in epochs.feed(each)), *epochs.drain()]
    return [line for line in shown if line.strip()]


def _says(error: BaseException | None, cluster: Cluster) -> bool:
    """Return whether the run's result or state is in the text of the exception or of its causes and contexts."""
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
    """Return the failed attempts that were neither ended on request nor hit by a fault, and the newest attempt."""
    attempts = [attempt for attempt in task.attempts if attempt.pid is not None]
    bad = [
        a for a in attempts[:-1] if a.exit is not None and not a.exit.ok and a.exit.asked is None and a.fault is None
    ]
    return [*bad, *attempts[-1:]]
