"""Why a run does what it does, or ended as it did, and what to do about that: for `show`, `ps` and the page."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import PurePath
from typing import assert_never

from clusterkit.ledger.ledger import Ledger
from clusterkit.ledger.situation import RunActivity, Situation, situation_of
from clusterkit.text.durations import shown
from clusterkit.text.printable import printable
from clusterkit.text.wrapping import at_words
from clusterkit.views.naming import LONGEST, all_failed, died
from clusterkit.views.recoveries import KEEPS, USUAL, repeated_steps
from clusterkit.views.situations import failure_text, reason_of
from clusterkit.views.tracebacks import error_place
from clusterkit.words.account import Recovery, RecoveryReport
from clusterkit.words.model import Task, number_of
from clusterkit.words.outcome import RunResult, RunState

FEW = 2  # causes that are named


@dataclass(frozen=True, slots=True)
class Guidance:
    """The reason, what to do, and commands to type, in the order in which they help."""

    why: str
    todo: str
    commands: tuple[str, ...] = ()


def guidance(ledger: Ledger, run_id: str) -> Guidance:
    """What a live run does that for, and what to do about it."""
    found, reason = situation_of(ledger), printable(ledger.run.reason)
    logs = f"clusterkit logs --follow {run_id}"
    match found.doing:
        case RunActivity.STARTING:
            return Guidance(_faults(found) or "Nothing has failed.", "Nothing: wait for the first step.", (logs,))
        case RunActivity.TRAINING:
            return _training(ledger, found, run_id)
        case RunActivity.STALLED:
            return _stalled(ledger, found, run_id)
        case RunActivity.PAUSED:
            return _paused(found, found.tasks, run_id)
        case RunActivity.RECOVERING:
            return _recovering(ledger, found, run_id)
        case RunActivity.NO_HOST:
            return Guidance(_failure(found), "Wait for a host, or add one to those of the job.", (logs,))
        case RunActivity.WAITING:
            return Guidance(_failure(found), "Mend the program and save it: the job then starts again.")
        case RunActivity.STOPPING:
            kill = f"clusterkit down --kill {run_id}"
            return Guidance(reason or "Every step is made.", "Nothing: wait for the tasks. To kill them now:", (kill,))
        case RunActivity.OVER:
            return Guidance(reason, "Nothing: the run is over.")
    assert_never(found.doing)


def guidance_lines(found: Guidance, width: int | None) -> list[str]:
    """It for a terminal, wrapped: the reason, what to do, and each command in a line of its own."""
    texts = [("Why: ", found.why), ("Fix: ", found.todo)]
    lines = [at_words(f"{name}{text}", width or USUAL, " " * len(name)) for name, text in texts if text]
    return [*lines, *(f"     {printable(command)}" for command in found.commands)]


def _training(ledger: Ledger, found: Situation, run_id: str) -> Guidance:
    logs, ended = f"clusterkit logs --follow {run_id}", ledger.incidents.ended
    if idle := sorted(ledger.pace.paused):
        paused = _paused(found, idle, run_id)
        return Guidance(paused.why, "Training continues without it. Let it continue:", paused.commands)
    if found.aside:
        why = _broken(ledger) or _faults(found) or "A restart was requested."
        return Guidance(why, "Nothing: training continues meanwhile.", (logs,))
    if found.faults:
        return Guidance(_faults(found), "Nothing: training continues. To end the fault now:", _healing(found, run_id))
    if not ended:
        return Guidance("Nothing has failed.", "Nothing. To read along:", (logs,))
    lost = sum(one.lost for one in ended)
    why = f"Nothing is wrong now. {number_of('interruption', len(ended))} so far, {_again(lost) or 'no step lost'}."
    return Guidance(why, "Nothing. To read along:", (logs,))


def _stalled(ledger: Ledger, found: Situation, run_id: str) -> Guidance:
    """Look first: where a task hangs is not known any more once it has restarted."""
    task, verdict = str(found.tasks[0]) if found.tasks else "", printable(found.verdict)
    look = f"clusterkit stacks {run_id} {task}".strip()
    if found.faults:
        return Guidance(f"{_faults(found)} {verdict}", "End the fault:", (*_healing(found, run_id), look))
    limit = ledger.job.limits.stall
    alone = f" Without you it restarts after {shown(limit)} without a step." if limit else ""
    if task:
        act, then = f"clusterkit restart {run_id} {task}", f"restart {task}"
    else:
        act, then = f"clusterkit down {run_id}", "end the run"
    return Guidance(verdict, f"Look where {task or 'each task'} hangs, then {then}.{alone}", (look, act))


def _paused(found: Situation, idle: Sequence[Task], run_id: str) -> Guidance:
    tasks = " ".join(map(str, idle))
    why = _faults(found) or "It was stopped by a command or a signal, or waits in a debugger."
    return Guidance(why, "Let it continue:", _healing(found, run_id) or (f"clusterkit unpause {run_id} {tasks}",))


def _recovering(ledger: Ledger, found: Situation, run_id: str) -> Guidance:
    restart, saved, step = ledger.pace.restart, ledger.run.checkpoint, ledger.run.trained
    number = ""
    if restart is not None and restart.charged:
        number = f", restart {restart.charged} of {restart.budget}"
    origin = "from the start, since no checkpoint was saved"
    if saved is not None:
        origin = f"from {PurePath(saved[1]).name}, of step {saved[0]:,}"
    again = 0 if step is None else max(0, step - (0 if saved is None else saved[0]))
    lost = f"; {number_of('step', again)} to train again" if again else ""
    todo = f"Nothing: it restarts by itself{number}, {printable(origin)}{lost}."
    task = "" if found.failure is None else f" {found.failure.task}"
    return Guidance(_broken(ledger) or _failure(found), todo, (f"clusterkit logs {run_id}{task}",))


def end_guidance(result: RunResult | None, report: RecoveryReport, run_id: str, resume: str | None) -> Guidance:
    """Why a run ended as it did, and what to do now; `resume` is the command that continues it."""
    again = () if resume is None else (resume,)
    if result is None or result.lost:
        return Guidance(
            "Its supervisor was killed, or the machine went down: no task failed by itself.", "Continue it:", again
        )
    if result.state is RunState.SUCCEEDED:
        return _success(result, report, run_id)
    if result.state is not RunState.FAILED:
        return Guidance(f"{printable(result.reason)}.", "Continue it:" if again else "Start it again.", again)
    logs = () if result.cause is None else (f"clusterkit logs {run_id} {result.cause.task}",)
    why, advice = _explained(result)
    place, said = error_place(result.cause.tail) if result.cause is not None else ("", "")
    then = " Then resume it:" if again else ""
    why = why or printable(said)[:LONGEST] or f"{reason_of(result.reason, result.cause)}."
    return Guidance(why, f"{advice or _mend(result, printable(place))}{then}", (*again, *logs))


def _success(result: RunResult, report: RecoveryReport, run_id: str) -> Guidance:
    why, advice = _explained(result)
    if result.undistributed is not None:
        mend = " ".join(result.undistributed.mend)
        return Guidance(printable(str(result.undistributed)), printable(f"The program needs: {mend}"))
    if result.unfinished:
        return Guidance(why or "; ".join(all_failed(result.unfinished)), advice or "Let each task make as many steps.")
    if result.not_injected:
        fault = result.not_injected[0]
        text = printable(f"Never injected: {fault.fault}: {fault.why}.")
        return Guidance(text, "Give the fault a trigger that this run reaches.")
    if not report.recoveries:
        return Guidance("Nothing failed.", "Nothing.", (f"clusterkit show {run_id}",))
    lost = sum(one.lost or 0 for one in report.recoveries)
    told = _recovered(report, lost)
    if advice:
        return Guidance(f"{told} {why}", advice)
    if repeated_steps(report):
        return Guidance(told, f"To lose less next time, {KEEPS}.", (f"clusterkit show {run_id}",))
    less = "Nothing. To lose fewer steps, save checkpoints more often." if lost else "Nothing: no step was lost."
    return Guidance(told, less, (f"clusterkit show {run_id}",))


def _explained(result: RunResult) -> tuple[str, str]:
    """What the most specific explanation says: the reason and what to do."""
    if not result.explanations:
        return "", ""
    first = result.explanations[0]
    return printable(first.means), printable(first.advice)


def _mend(result: RunResult, place: str) -> str:
    """What to do about a failure that nothing explains."""
    cause = result.cause
    if cause is None:
        return "Mend that, and start it again."
    if cause.exception is None:
        return f"Look for the reason at the end of {cause.task}'s log."
    where = f"Mend the program, at {place} or before it" if place else "Mend the program"
    return f"{where}: a restart fails the same way." if result.repeated or result.usage_error else f"{where}."


def _recovered(report: RecoveryReport, lost: int) -> str:
    """What failed, how often, and what that cost."""
    causes = list(dict.fromkeys(_cause(one, report) for one in report.recoveries))
    what = "; ".join(causes[:FEW]) + f"; {len(causes) - FEW} more" * (len(causes) > FEW)
    many = len(report.recoveries)
    return f"{what}. Recovered{'' if many == 1 else f' {many} times'}: {_again(lost) or 'no step lost'}."


def _cause(recovery: Recovery, report: RecoveryReport) -> str:
    texts = {one.number: one.fault for one in report.faults}
    if recovery.cause is None:
        return "A restart was requested"
    fault = next((texts[number] for number in recovery.faults if number in texts), None)
    return died(recovery.cause) + _by(fault)


def _broken(ledger: Ledger) -> str:
    """What is being repaired: how a task died, and of which fault."""
    incident = next((one for one in ledger.incidents.mending() if one.deaths), None)
    if incident is None:
        return ""
    known = [ledger.faults.known[number].event.fault for number in incident.faults if number in ledger.faults.known]
    return f"{died(incident.deaths[0])}{_by(known[0] if known else None)}."


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
