"""The tally of a campaign: counts, times, and how they are shown."""

from __future__ import annotations

from clusterkit.chaos.model import (
    Baseline,
    Outcome,
    SmallestSchedule,
    Trial,
    by_action,
    by_type,
    fault_outcomes,
    nearest_rank,
)
from clusterkit.chaos.text import baseline_line, document, failure, run_line, summary
from clusterkit.words.campaign import InjectionRecord, TallyRow
from clusterkit.words.events import Began, Event, Failed, FaultInjected, FaultTook, Progressed, RestartPlanned, Spawned
from clusterkit.words.faults import FaultAction
from clusterkit.words.grammar import parse_fault
from clusterkit.words.job import JobSpec
from clusterkit.words.model import Program, ProgramKind, Task, TaskType
from clusterkit.words.outcome import AttemptEnded, Exit, Failure

CHIEF, WORKER = Task(TaskType.CHIEF, 0), Task(TaskType.WORKER, 0)
JOB = JobSpec(Program(ProgramKind.SCRIPT, "t.py"), {TaskType.CHIEF: 1, TaskType.WORKER: 1, TaskType.PS: 1})
KILL, STOP = FaultAction.KILL, FaultAction.STOP


def outcome(number: int, *injections: InjectionRecord, violations: tuple[str, ...] = ()) -> Outcome:
    """A run."""
    trial = Trial(number, 7, tuple(parse_fault(one.fault) for one in injections))
    return Outcome(trial, f"c-{number}", f"/runs/c-{number}", 9.0, violations, injections, trial.faults)


def kill(kind: TaskType, seconds: float | None) -> InjectionRecord:
    """A death of a task, and how long it took to recover."""
    return InjectionRecord(f"kill {kind}", KILL, (kind,), seconds is not None, seconds)


GOOD = outcome(1, kill(TaskType.CHIEF, 3.0), kill(TaskType.WORKER, 1.0), InjectionRecord("stop chief", STOP, (), True))
BAD = outcome(2, kill(TaskType.CHIEF, None), violations=("The job failed: so.",))
SMALL = SmallestSchedule(Trial(2, 7, (parse_fault("kill chief:0"),)), ("The job failed: so.",), 3)


def replay(what: Outcome | SmallestSchedule) -> str:
    """A command."""
    return f"clusterkit up --fault '{what.trial.faults[0]}' t.py"


def test_faults_are_counted_by_action_and_times_by_type() -> None:
    """What had nothing to restart is counted, and has no time."""
    assert by_action([GOOD, BAD]) == [
        TallyRow(action=KILL, injected=3, recovered=2, restarts=2, p50=1.0, p90=3.0, p100=3.0),
        TallyRow(action=STOP, injected=1, recovered=1, restarts=0),
    ]
    assert by_type([GOOD, BAD]) == [
        TallyRow(action=KILL, type=TaskType.CHIEF, injected=2, recovered=1, restarts=1, p50=3.0, p90=3.0, p100=3.0),
        TallyRow(action=KILL, type=TaskType.WORKER, injected=1, recovered=1, restarts=1, p50=1.0, p90=1.0, p100=1.0),
    ]


def test_percentiles_are_of_the_nearest_rank() -> None:
    """The time within which so many of the recoveries were over."""
    assert [nearest_rank(range(1, 11), share) for share in (50, 90, 100)] == [5, 9, 10]
    assert [nearest_rank([2.0], share) for share in (50, 100)] == [2.0, 2.0]
    assert nearest_rank([], 50) is None


def test_a_recovery_is_as_long_as_the_report_of_the_run_says() -> None:
    """From the injection to the first new step; what could not be injected is left out."""
    died = Failure(CHIEF, 1, Exit(signal=9), 2.1)
    events: list[tuple[float, Event]] = [
        (0.0, Began()),
        (0.0, Spawned(CHIEF, 1, "pid 1")),
        (1.0, Progressed(CHIEF, 1, 10)),
        (2.0, FaultInjected(1, "kill chief:0", KILL, (CHIEF,))),
        (2.0, FaultInjected(2, "corrupt-checkpoint", FaultAction.CORRUPT, ())),
        (2.0, FaultTook(2, "there is no checkpoint", done=False)),
        (2.1, AttemptEnded(CHIEF, 1, 0.0, 2.1, died.exit, 10, 10, None, None, fault=1)),
        (2.1, Failed(died)),
        (2.1, RestartPlanned((CHIEF,), died, (), 1.0, 1, 3)),
        (3.1, Spawned(CHIEF, 2, "pid 2")),
        (5.0, Progressed(CHIEF, 2, 1)),
    ]
    assert fault_outcomes(JOB, events, passed=False) == (
        InjectionRecord("kill chief:0", KILL, (TaskType.CHIEF,), True, 3.0),
    )
    assert fault_outcomes(JOB, events[:-1], passed=False) == (
        InjectionRecord("kill chief:0", KILL, (TaskType.CHIEF,), False),
    )
    assert fault_outcomes(JOB, events[:-1], passed=True)[0].recovered


def test_a_failing_run_is_told_with_its_commands() -> None:
    """What it violates, where it is, how it is done again, and the smallest that does it."""
    assert failure(BAD, SMALL, replay).splitlines() == [
        "✘ run 2 failed: kill chief",
        "    The job failed: so.",
        "  its directory: /runs/c-2",
        "  to replay it:",
        "    clusterkit up --fault 'kill chief' t.py",
        "  shrunk in 3 runs to: kill chief:0",
        "    The job failed: so.",
        "    clusterkit up --fault 'kill chief:0' t.py",
    ]
    assert "shrunk" not in failure(BAD, None, replay)
    same = SmallestSchedule(BAD.trial, BAD.violations, 4)
    assert failure(BAD, same, replay).endswith("\n  nothing smaller fails (4 runs)")


def test_the_lines_of_a_campaign() -> None:
    """What a run without faults comes to, and one line for each run."""
    baseline = Baseline(9.0, 100, (50,), {"accuracy": 0.9512})
    assert baseline_line(baseline, "accuracy") == "Without faults: 9.0 s, step 100, 1 checkpoint, accuracy 0.9512."
    assert baseline_line(Baseline(9.0), None) == "Without faults: 9.0 s, 0 checkpoints."
    assert run_line(GOOD, 30) == "✔ run  1 of 30     9.0 s  kill chief; kill worker; stop chief"


def test_the_summary_has_a_table_of_actions_and_one_of_times() -> None:
    """Also of a campaign that was cut short."""
    assert summary([GOOD, BAD], 30, 5) == (
        "✘ 1 of 2 runs passed (30 were asked for), seed 5.\n\n"
        "ACTION   INJECTED   RECOVERED\n"
        "kill     3          2\n"
        "stop     1          1\n\n"
        "RECOVERY FROM   OF       RESTARTS   50 %    90 %    LONGEST\n"
        "kill            chief    1          3.0 s   3.0 s   3.0 s\n"
        "kill            worker   1          1.0 s   1.0 s   1.0 s"
    )
    assert summary([], 30, 5) == "– 0 of 0 runs passed (30 were asked for), seed 5."
    assert summary([GOOD], 1, 5).startswith("✔ 1 of 1 run passed, seed 5.")


def test_a_campaign_as_json() -> None:
    """Everything that is told to people, and the numbers of it."""
    told = document(Baseline(9.0, 100), [GOOD, BAD], {2: SMALL}, replay, campaign="c", seed=5)
    assert (told["campaign"], told["seed"], told["passed"], told["failed"]) == ("c", 5, 1, 1)
    assert told["actions"][0] == {
        "action": "kill", "injected": 3, "recovered": 2, "restarts": 2, "p50": 1.0, "p90": 3.0, "p100": 3.0
    }  # fmt: skip
    assert told["recovery_times"][0]["type"] == "chief"
    assert [run["directory"] for run in told["runs"]] == [None, "/runs/c-2"]
    assert told["runs"][1]["shrunk"]["faults"] == ["kill chief:0"]
    assert told["runs"][0]["injections"][1] == {
        "fault": "kill worker", "action": "kill", "types": ["worker"], "recovered": True, "seconds": 1.0
    }  # fmt: skip
