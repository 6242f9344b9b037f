"""Turns a run's events into the documents that hooks receive."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from clusterkit.ledger.attempts import Key
from clusterkit.ledger.incident import Incident
from clusterkit.ledger.ledger import Ledger
from clusterkit.store.paths import RunPaths
from clusterkit.text.printable import printable
from clusterkit.words import events as ev
from clusterkit.words.job import Hook
from clusterkit.words.model import Task
from clusterkit.words.outcome import Failure, FailureRole, RoleKind, RunState, signal_name

SCHEMA = 1
LONGEST = 2000  # characters; longer texts, which may come from a task, are truncated


@dataclass(frozen=True, slots=True, kw_only=True)
class Document:
    """One hook event. Fields that do not apply to the event are None or empty. docs/hooks.md describes the fields."""

    event: Hook
    run: str
    directory: str
    program: str
    elapsed: float
    message: str
    step: int | None = None
    checkpoint: str | None = None
    task: str | None = None
    attempt: int | None = None
    how: str | None = None
    exit_code: int | None = None
    signal: str | None = None
    error: str | None = None
    fault: str | None = None
    log: str | None = None
    others: tuple[str, ...] = ()
    restarts: tuple[str, ...] = ()
    requested: bool = False
    seconds: float | None = None
    lost_steps: int | None = None
    resumed_step: int | None = None
    report: str | None = None
    state: str | None = None
    run_exit_code: int | None = None

    def encode(self, time: float, skipped: int) -> dict[str, Any]:
        """Return a dict for JSON. `time` is wall time; `skipped` is the number of events skipped before it."""
        fields = {name: value[:LONGEST] if type(value) is str else value for name, value in asdict(self).items()}
        return {"schema": SCHEMA, "event": str(self.event), "time": round(time, 3), "skipped": skipped, **fields}


class Moments:
    """Turns a run's events into documents for hooks. The ledger must receive each event first, with the same time.

    A failure yields a document once it is known to be a cause; collateral failures are listed in that document.
    """

    def __init__(self, ledger: Ledger, paths: RunPaths) -> None:
        self._ledger, self._paths = ledger, paths
        self._open_recoveries: list[Incident] = []  # the restarts that had not ended at the previous event
        self._failures: dict[Key, Failure] = {}  # the failures that are not yet in a document
        self._roles: dict[Key, FailureRole] = {}  # the decided roles (cause or collateral) of `_failures`

    def add(self, at: float, event: ev.Event) -> list[Document]:
        recovered = [one for one in self._open_recoveries if one.ended is not None]
        self._open_recoveries = self._ledger.incidents.open_restarts()
        match event:
            case ev.Failed(failure):
                self._failures[failure.task, failure.attempt] = failure
            case ev.AttemptEnded(task, attempt, role=role) if role is not None and (task, attempt) in self._failures:
                self._roles[task, attempt] = role
        return [*self._decided(at, event), *self._recoveries_of(at, recovered)]

    def _decided(self, at: float, event: ev.Event) -> Iterator[Document]:
        match event:
            case ev.RestartPlanned(tasks, cause, collateral) if cause is not None:
                yield from self._failed(at, cause, [*event.same, *collateral], tasks)
            case ev.RestartPlanned(tasks):  # a requested restart, which may precede the decision about failures
                undecided = sorted((f for f in self._failures.values() if f.task in tasks), key=lambda one: one.at)
                for first in undecided[:1]:
                    yield from self._failed(at, first, undecided[1:], tasks)
            case ev.Stalled():
                of = None if event.task is None else str(event.task)
                yield self._document(Hook.STALL, at, event.text, task=of, report=event.report)
            case ev.Warned() | ev.Stopping() | ev.WaitsForChange():  # by then, the roles of the failures are decided
                yield from self._without_restart(at)
            case ev.Shrunk() if not event.restarting:
                yield from self._without_restart(at)
            case ev.Finished(result):
                if result.state is not RunState.SUSPENDED:
                    yield self._ended(at, event)

    def _failed(
        self, at: float, cause: Failure, others: Sequence[Failure] = (), restarts: Sequence[Task] = ()
    ) -> Iterator[Document]:
        key = cause.task, cause.attempt
        known = key in self._failures
        for failure in (cause, *others):
            self._failures.pop((failure.task, failure.attempt), None)
            self._roles.pop((failure.task, failure.attempt), None)
        if known:  # with --restart always, the cause of a restart may be a successful exit, which is not a failure
            yield self._document(
                Hook.FAILURE,
                at,
                f"{cause.task} {cause.exit} (attempt {cause.attempt})",
                **self._failure_fields(cause),
                others=tuple(str(failure.task) for failure in others),
                restarts=tuple(map(str, restarts)),
            )

    def _without_restart(self, at: float) -> Iterator[Document]:
        """Yield a document for each failure that is a cause but does not lead to a restart."""
        for key in [key for key, role in self._roles.items() if role.kind is RoleKind.CAUSE]:
            followed = [of for of, role in self._roles.items() if (role.task, role.attempt) == key != of]
            yield from self._failed(at, self._failures[key], [self._failures[of] for of in followed])

    def _recoveries_of(self, at: float, incidents: Sequence[Incident]) -> Iterator[Document]:
        """Yield one recovery document for incidents that ended together, timed from the first failure."""
        if not incidents:
            return
        first = min(incidents, key=self._ledger.incidents.start_of)
        told = [one.report(self._ledger.incidents.start_of(one)) for one in incidents]
        seconds = max(one.seconds or 0.0 for one in told)
        death = first.deaths[0] if first.deaths else None
        lost = [one.lost for one in told if one.lost is not None]
        cause = {} if death is None else self._failure_fields(Failure(death.task, death.attempt, death.exit, death.at))
        tasks = tuple(str(task) for task in sorted({back.task for one in told for back in one.returns}))
        what = "Training continued" if any(one.training for one in told) else f"{', '.join(tasks[:8])} restarted"
        why = "" if death is None else f": {death.task} {death.exit} (attempt {death.attempt})"
        yield self._document(
            Hook.RECOVERY,
            at,
            f"{what} after {seconds:.1f} s{why}",
            **cause,
            restarts=tasks,
            requested=any(one.asked for one in told),
            seconds=round(seconds, 3),
            lost_steps=max(lost, default=None),
            resumed_step=told[-1].resumed_step,
        )

    def _ended(self, at: float, event: ev.Finished) -> Document:
        result = event.result
        cause = {} if result.cause is None else self._failure_fields(result.cause)
        return self._document(
            Hook.END,
            at,
            f"The run {result.state}: {result.reason}",
            **cause,
            others=tuple(str(failure.task) for failure in (*result.same, *result.collateral)),
            seconds=round(result.duration, 3),
            state=result.state.value,
            run_exit_code=result.exit_code,
        )

    def _failure_fields(self, failure: Failure) -> dict[str, Any]:
        number = self._ledger.attempts.fault_of.get((failure.task, failure.attempt))
        fault = None if number is None else self._ledger.faults.by_number.get(number)
        exit_ = failure.exit
        return {
            "task": str(failure.task),
            "attempt": failure.attempt,
            "how": printable(str(exit_)),
            "exit_code": exit_.code,
            "signal": None if exit_.signal is None else signal_name(exit_.signal),
            "error": None if failure.exception is None else printable(failure.exception),
            "fault": None if fault is None else fault.event.fault,
            "log": str(self._paths.log(failure.task, failure.attempt)),
        }

    def _document(self, hook: Hook, at: float, message: str, **fields: Any) -> Document:
        ledger, checkpoint = self._ledger, self._ledger.run.checkpoint
        return Document(
            event=hook,
            run=self._paths.run_id,
            directory=str(self._paths.path),
            program=str(ledger.job.program),
            elapsed=round(at - (ledger.began or 0.0), 3),
            message=printable(message),
            step=ledger.run.trained_step,
            checkpoint=None if checkpoint is None else printable(checkpoint[1]),
            **fields,
        )
