"""Guidance for `show`, `ps` and the page: why a run is in its present state or has ended, and what the user can do."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import PurePath
from typing import assert_never

from clusterkit.ledger.ledger import Ledger
from clusterkit.ledger.situation import RunActivity, Situation, situation_of
from clusterkit.text.durations import shown
from clusterkit.text.printable import at_words, printable
from clusterkit.views.listing import straggler_note
from clusterkit.views.naming import LONGEST, all_failed, counted, died, plain
from clusterkit.views.recoveries import USUAL, remedy, repeated_steps
from clusterkit.views.situations import failure_text, reason_of
from clusterkit.views.tracebacks import error_place
from clusterkit.words.account import Recovery, RecoveryReport
from clusterkit.words.model import Task, number_of
from clusterkit.words.outcome import CRASHED, SIGKILL, Reservation, RunResult, RunState, diverged, signal_name

FEW = 2  # the maximum number of causes that a sentence names
REPORT_IT = "Read crash.txt in the run directory. Unless the machine lacked something, please report it."


@dataclass(frozen=True, slots=True)
class Guidance:
    """The reason for a run's state, what the user can do about that state, and the commands to type, in this order."""

    why: str
    todo: str
    commands: tuple[str, ...] = ()
    heading: str = "Why"  # the heading above `why`
    is_error: bool = False  # True if `why` only repeats the exception of the task that failed


def guidance(ledger: Ledger, run_id: str) -> Guidance:
    """Return why a live run is in its present situation, and what to do about it."""
    found, reason = situation_of(ledger), printable(ledger.run.reason)
    logs = f"clusterkit logs --follow {run_id}"
    match found.activity:
        case RunActivity.STARTING:
            return Guidance(_faults(found), "Nothing: wait for the first step.", (logs,))
        case RunActivity.TRAINING:
            return _training(ledger, found, run_id)
        case RunActivity.STALLED:
            return _stalled(ledger, found, run_id)
        case RunActivity.PAUSED:
            return _paused(found, found.tasks, run_id)
        case RunActivity.RECOVERING:
            return _recovering(ledger, found, run_id)
        case RunActivity.NO_HOST:
            return Guidance(_failure(found), "Wait for a host, or add one to the job's hosts.", (logs,))
        case RunActivity.WAITING:
            return Guidance(_failure(found), "Fix the program and save it: the job then starts again.")
        case RunActivity.STOPPING:
            kill = f"clusterkit down --kill {run_id}"
            # The sentence about the situation already gives the reason.
            return Guidance("", "Nothing: wait for the tasks. To kill them now:", (kill,))
        case RunActivity.OVER:
            return Guidance(reason, "Nothing: the run is over.")
    assert_never(found.activity)


def guidance_lines(found: Guidance, width: int | None) -> list[str]:
    """Format guidance as wrapped lines for a terminal. Each command has a line of its own."""
    texts = [("Why: ", found.why), ("Fix: ", found.todo)]
    lines = [at_words(f"{name}{text}", width or USUAL, " " * len(name)) for name, text in texts if text]
    return [*lines, *(f"     {printable(command)}" for command in found.commands)]


def _training(ledger: Ledger, found: Situation, run_id: str) -> Guidance:
    logs, ended = f"clusterkit logs --follow {run_id}", ledger.incidents.ended_recoveries
    if idle := sorted(ledger.interruptions.paused_since):
        paused = _paused(found, idle, run_id)
        return Guidance(paused.why, "Training continues without it. Let it continue:", paused.commands)
    if found.tasks_aside:
        why = _broken(ledger)[0] or _faults(found) or "A restart was requested."
        return Guidance(why, "Nothing: training continues meanwhile.", (logs,))
    if found.faults:
        return Guidance(_faults(found), "Nothing: training continues. To end the fault now:", _healing(found, run_id))
    slow = [f"{task} is {note}." for task, of in ledger.run.tasks.items() if (note := straggler_note(of)) is not None]
    parts = list(map(printable, slow))
    if ended:
        lost = sum(one.lost for one in ended)
        parts += [] if slow else ["Nothing is wrong now."]
        parts.append(f"{number_of('interruption', len(ended))} so far, {_again(lost) or 'no step lost'}.")
    todo = "Training continues. To follow the output:" if slow else "Nothing. To follow the output:"
    return Guidance(" ".join(parts), todo, (logs,))


def _stalled(ledger: Ledger, found: Situation, run_id: str) -> Guidance:
    """Advise the user to look at the stacks before a restart, since a restart removes all traces of the hang."""
    task, verdict = str(found.tasks[0]) if found.tasks else "", printable(found.verdict)
    look = f"clusterkit stacks {run_id} {task}".strip()
    if found.faults:
        return Guidance(f"{_faults(found)} {verdict}", "End the fault:", (*_healing(found, run_id), look))
    if not task:
        return Guidance(verdict, "Look where each task hangs, then end the run.", (look, f"clusterkit down {run_id}"))
    limit = ledger.job.limits.stall
    alone = f"If you do nothing, {task} is restarted after {shown(limit)} without a step."
    todo = f"Look where {task} hangs, then restart {task}."
    todo += f" That restarts {counted(found.scope)} {_from(ledger, found.scope)}."
    todo += f" {alone if limit else 'Nothing restarts by itself: the run has no --stall-timeout.'}"
    return Guidance(verdict, todo, (look, f"clusterkit restart {run_id} {task}"))


def _from(ledger: Ledger, tasks: Sequence[Task]) -> str:
    """Return a phrase about the checkpoint from which these tasks restart, and the number of steps to repeat."""
    saved, again = ledger.run.checkpoint, ledger.run.unsaved
    if not any(map(ledger.attempts.trains, tasks)):
        return "alone, and no step is lost"
    lost = f"; {number_of('step', again)} to train again" if again else ""
    if saved is None:
        return f"from the start, since no checkpoint was reported{lost}"
    name = PurePath(saved[1]).name
    of = "" if str(saved[0]) in name else f", of step {saved[0]:,}"
    return printable(f"from {name}{of}{lost}")


def _paused(found: Situation, idle: Sequence[Task], run_id: str) -> Guidance:
    tasks = " ".join(map(str, idle))
    why = _faults(found) or "It was stopped by a command or a signal, or waits in a debugger."
    return Guidance(why, "Let it continue:", _healing(found, run_id) or (f"clusterkit unpause {run_id} {tasks}",))


def _recovering(ledger: Ledger, found: Situation, run_id: str) -> Guidance:
    restart, number = ledger.interruptions.newest_restart, ""
    if restart is not None and restart.charged and not restart.free:
        number = f", restart {restart.charged} of {restart.budget}"
    todo = f"Nothing: it restarts by itself{number}, {_from(ledger, found.tasks)}."
    task = "" if found.failure is None else f" {found.failure.task}"
    why, is_error = _broken(ledger)
    is_error |= not why and found.failure is not None and found.failure.exception is not None
    logs = (f"clusterkit logs {run_id}{task}",)
    return Guidance(why or _failure(found), f"{todo} To read the log:", logs, is_error=is_error)


def end_guidance(
    result: RunResult | None,
    report: RecoveryReport,
    run_id: str,
    resume: str | None,
    start: str | None = None,
    part_of: str | None = None,
) -> Guidance:
    """Return why a run ended and what to do now.

    `resume` is the command that continues the run; `start` is the command that starts the job from the beginning.
    `part_of` names the campaign or exam of the run, as in a job. Runs of an exam are neither continued nor started by
    hand: the exam says which command examines a cell again.
    """
    if (part_of or "").startswith("exam/"):
        return _of_exam(end_guidance(result, report, run_id, None), result)
    again, anew = (() if one is None else (one,) for one in (resume, start))
    if result is None or result.lost:
        return Guidance(
            "Its supervisor was killed, or the machine went down: no task failed by itself.", "Continue it:", again
        )
    if result.state is RunState.SUCCEEDED:
        return replace(_success(result, report, run_id), heading="What happened")
    if result.state is not RunState.FAILED:
        return Guidance(f"{printable(result.reason)}.", "Continue it:" if again else "Start it again.", again or anew)
    logs = () if result.cause is None else (f"clusterkit logs {run_id} {result.cause.task}",)
    why, advice = _explained(result)
    place, said = error_place(result.cause.tail) if result.cause is not None else ("", "")
    next_ = "resume the run" if again else "start the run again" if anew else ""
    if next_:
        then = f" Read the log, then {next_}:" if logs else f" Then {next_}:"
    else:
        then = " Read the log:" if logs else ""
    is_error = not why and result.cause is not None and result.cause.exception is not None
    why = why or printable(plain(said))[:LONGEST] or f"{reason_of(replace(result, same=()))}."
    todo = f"{advice or _mend(result, printable(place))}{then}"
    return Guidance(why, todo, (*logs, *(again or anew)), is_error=is_error)


def _of_exam(found: Guidance, result: RunResult | None) -> Guidance:
    """Return the guidance for a run of an exam, which has injected the faults and ended the run itself."""
    if result is not None and result.state is RunState.SUCCEEDED and result.not_injected:
        fault = result.not_injected[0]
        text = printable(f"The exam's fault {fault.fault} was not injected: {fault.why}.")
        return replace(found, why=text, todo="Nothing: the exam does not count this cell as passed.", commands=())
    if result is None or result.state in (RunState.SUCCEEDED, RunState.FAILED):
        return found
    return replace(found, todo="Nothing: a run of an exam ends when the exam has seen enough, or is stopped.")


def _success(result: RunResult, report: RecoveryReport, run_id: str) -> Guidance:
    why, advice = _explained(result)
    if result.undistributed is not None and not result.exact:
        mend = " ".join(result.undistributed.mend)
        return Guidance(printable(str(result.undistributed)), printable(f"The program needs: {mend}"))
    if result.doubts:
        return Guidance(printable(result.doubts[0].means), printable(result.doubts[0].advice))
    if result.unfinished:
        unfinished = "; ".join(all_failed(result.unfinished))
        return Guidance(why or unfinished, advice or "Let every task make the same number of steps.")
    if result.diverged_at is not None:
        told = f"{diverged(result.diverged_at)} {why}".rstrip()
        return Guidance(told, advice or "Look for a learning rate that is too high, and for NaN in the data.")
    if result.verification is not None and result.verification.differs:
        found = result.verification
        place = f" The first step is made at {found.place}." if found.place else ""
        return Guidance(printable(f"Its first steps differ from those of one process. {found.text}{place}"),
                        printable(found.remedy))  # fmt: skip
    if result.not_injected:
        fault = result.not_injected[0]
        text = printable(f"Never injected: {fault.fault}: {fault.why}.")
        return Guidance(text, "Give the fault a trigger that this run reaches.")
    if Reservation.UNSAVED in result.reservations:
        text = "result.json could not be written: the run directory was removed, or the disk is full."
        return Guidance(text, "Keep the run directory until the run has ended, and some space on its disk.")
    show = (f"clusterkit show {run_id}",)
    kept = "" if result.checkpoint is None else printable(f" The last checkpoint is {result.checkpoint}.")
    if not report.recoveries:
        return Guidance(why or "Nothing failed.", f"{advice or f'Nothing.{kept}'} For details:", show)
    lost = sum(one.lost or 0 for one in report.recoveries)
    told = _recovered(report, lost)
    if advice:
        return Guidance(f"{told} {why}", advice)
    if repeated_steps(report):
        return Guidance(told, f"To lose less next time, {remedy(result.loop)}. For details:", show)
    less = "Nothing: no step was lost."
    if lost:
        most = max(one.lost or 0 for one in report.recoveries)
        less = f"Nothing. To train fewer than {number_of('step', most)} again, save checkpoints more often."
    return Guidance(told, f"{less}{kept} For details:", show)


def _explained(result: RunResult) -> tuple[str, str]:
    """Return the reason and the advice of the most specific explanation; empty texts if there is no explanation."""
    if not result.explanations:
        return "", ""
    first = result.explanations[0]
    return printable(first.means), printable(first.advice)


def _mend(result: RunResult, place: str) -> str:
    """Return advice about a failure that has no explanation."""
    cause = result.cause
    if cause is None:
        return REPORT_IT if result.exit_code == CRASHED else "Fix that."
    if cause.exception is None:
        return f"The reason may be at the end of {cause.task}'s log."
    where = f"Fix the program, at {place} or before it" if place else "Fix the program"
    return f"{where}: a restart fails the same way." if result.repeated or result.usage_error else f"{where}."


def _recovered(report: RecoveryReport, lost: int) -> str:
    """Return the causes of the recoveries, the number of recoveries, and the number of repeated steps, as sentences."""
    causes = list(dict.fromkeys(_cause(one, report) for one in report.recoveries))
    what = "; ".join(causes[:FEW]) + f"; {len(causes) - FEW} more" * (len(causes) > FEW)
    many = len(report.recoveries)
    return f"{what}. Recovered{'' if many == 1 else f' {many} times'}: {_again(lost) or 'no step lost'}."


def _cause(recovery: Recovery, report: RecoveryReport) -> str:
    texts = {one.number: one.fault for one in report.faults}
    if recovery.cause is None:
        return "A restart was requested"
    if recovery.cause.requested:
        return f"{died(recovery.cause)}, as a user had requested"
    fault = next((texts[number] for number in recovery.faults if number in texts), None)
    return died(recovery.cause) + _by(fault)


def _broken(ledger: Ledger) -> tuple[str, bool]:
    """Return the reason for the death that caused the restart; an empty text if no task has died.

    The second value is True if the reason only repeats the exception of the task.
    """
    incident = next((one for one in ledger.incidents.open_restarts() if one.deaths), None)
    if incident is None:
        return "", False
    death, failure = incident.deaths[0], ledger.interruptions.failure
    if death.requested:
        return f"A user asked for that: `clusterkit kill` of {death.task}, or the same on the page.", False
    known = [
        ledger.faults.by_number[number].event.fault for number in incident.faults if number in ledger.faults.by_number
    ]
    exit_ = death.exit
    if not known and exit_.signal == SIGKILL and exit_.asked is None and not exit_.out_of_memory:
        unseen = "neither clusterkit nor, as far as the kernel says, a lack of memory"
        return f"From outside: {unseen} killed {death.task} ({signal_name(SIGKILL)}).", False
    tail = failure.tail if failure is not None and failure.task == death.task else ()
    place = printable(error_place(tail)[0])
    why = f"{died(death)}{f', at {place}' if place else ''}{_by(known[0] if known else None)}."
    return why, death.exception is not None and not known


def _by(fault: str | None) -> str:
    return "" if fault is None else f", by a fault that was injected on purpose ({printable(fault)})"


def _again(lost: int) -> str:
    return f"{number_of('step', lost)} trained again" if lost else ""


def _failure(found: Situation) -> str:
    return "" if found.failure is None else f"{failure_text(found.failure)}."


def _faults(found: Situation) -> str:
    which = "; ".join(map(printable, found.faults))
    return f"A fault was injected on purpose: {which}." if which else ""


def _healing(found: Situation, run_id: str) -> tuple[str, ...]:
    return (f"clusterkit fault {run_id} --heal",) if found.faults else ()
