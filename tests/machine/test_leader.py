"""The leader's exit code 0: when it means that the job is done, and when it only answers a signal."""

from __future__ import annotations

import pytest

from clusterkit.words import events as ev
from clusterkit.words.events import Verb
from clusterkit.words.job import Limits, RestartPolicy, RestartRules
from clusterkit.words.outcome import RunState
from tests.histories import SIGKILL, SIGTERM, History, job, task
from tests.machine.faulty import with_faults
from tests.machine.test_requests import ask

FREE = RestartRules(budget=0)


@pytest.mark.parametrize(
    ("workers", "ps", "asked", "restarted"),
    [
        (1, 0, "worker:0", {"worker:0"}),
        (2, 0, "worker:0", {"worker:0", "worker:1"}),
        (2, 0, "worker:1", {"worker:0", "worker:1"}),
        (2, 1, "chief:0", {"chief:0"}),
        (2, 1, "ps:0", {"chief:0", "ps:0"}),
        (2, 1, "worker:1", {"worker:1"}),
    ],
)
def test_a_task_that_answers_sigterm_with_code_0_restarts_as_asked(
    workers: int, ps: int, asked: str, restarted: set[str]
) -> None:
    """A program that handles SIGTERM with sys.exit(0) has obeyed; it is not done."""
    run = History(job(workers, ps, restart=FREE)).begin()
    run.polite |= set(run.live)
    ask(run, Verb.RESTART, asked)
    run.after(1)
    assert not run.over
    assert {name for name, attempt in run.attempts.items() if attempt == 2} == restarted


def test_a_leader_that_obeys_late_restarts_as_asked() -> None:
    """Its handler may take most of the grace period, or be overtaken by SIGKILL."""
    run = History(job(workers=1, restart=FREE)).begin()
    run.stubborn.add("worker:0")
    ask(run, Verb.RESTART, "worker:0")
    run.after(9.9)
    run.unreachable.add("worker:0")
    run.after(0.2)
    assert [number for _, _, number in run.signals()] == [SIGTERM, SIGKILL]
    run.exits("worker:0", code=0)
    run.after(1)
    assert (run.over, run.attempts) == (False, {"worker:0": 2})


def test_a_leader_that_was_done_when_its_restart_was_asked_for_has_succeeded() -> None:
    """It had exited when SIGTERM was sent, which the backend can tell."""
    run = History(job(workers=1)).begin()
    run.unreachable.add("worker:0")
    ask(run, Verb.RESTART, "worker:0")
    run.exits("worker:0", code=0)
    run.after(1)
    assert (run.result.state, run.attempts) == (RunState.SUCCEEDED, {"worker:0": 1})


def test_an_evaluator_that_obeys_restarts_as_asked() -> None:
    """As every other task."""
    run = History(job(workers=1, evaluator=1, restart=FREE)).begin()
    run.polite.add("evaluator:0")
    ask(run, Verb.RESTART, "evaluator:0")
    run.after(1)
    assert run.attempts == {"worker:0": 1, "evaluator:0": 2}


@pytest.mark.parametrize("how", ["signal", "down"])
def test_a_leader_that_obeys_the_teardown_has_not_succeeded(how: str) -> None:
    """Ctrl-C and `clusterkit down` have decided how the run ends before SIGTERM is sent."""
    run = History(job(workers=1)).begin()
    run.polite.add("worker:0")
    if how == "down":
        ask(run, Verb.DOWN)
    else:
        run.send(ev.Interrupted(SIGTERM))
    assert (run.result.state, run.result.exit_code) == (RunState.STOPPED, 143)


def test_a_leader_that_exits_with_0_before_it_is_killed_for_a_stall_was_done() -> None:
    """Nobody answers SIGKILL with an exit code."""
    run = History(job(workers=1, limits=Limits(stall=30, startup=0))).begin()
    run.unreachable.add("worker:0")
    run.progresses("worker:0", 1)
    run.after(31)
    assert run.signals() == [(30.0, "worker:0", SIGKILL)]
    run.exits("worker:0", code=0)
    assert run.result.state is RunState.SUCCEEDED


@pytest.mark.parametrize("by_hand", [False, True])
def test_code_0_right_after_a_sigterm_that_nobody_asked_to_end_with_is_doubted(by_hand: bool) -> None:
    """A fault's SIGTERM counts as one from outside: the exit code is believed, and a warning names the doubt."""
    run = with_faults(*([] if by_hand else ["term chief:0 @ 1s"])).begin()
    run.stubborn.add("chief:0")
    run.after(1)
    if by_hand:
        ask(run, Verb.KILL, "chief:0", signal=SIGTERM)
    run.after(4)
    run.exits("chief:0", code=0)
    run.after(10)
    assert run.result.state is RunState.SUCCEEDED
    assert run.warnings == [
        "chief:0 exited with code 0 within 4.0 s of SIGTERM, so the job counts as done. If it is not done, "
        "let the program exit with code 42 after SIGTERM: clusterkit then restarts it."
    ]


def test_code_0_long_after_a_sigterm_is_not_doubted() -> None:
    """TensorFlow's preemption notifier takes SIGTERM, and training continues."""
    run = with_faults("term chief:0 @ 1s").begin()
    run.stubborn.add("chief:0")
    run.after(12)
    run.exits("chief:0", code=0)
    run.after(10)
    assert (run.result.exit_code, run.warnings) == (0, [])


def test_a_task_is_not_doubted_for_the_sigterm_of_an_attempt_before() -> None:
    """The new attempt got none."""
    run = with_faults("term chief:0 @ 1s").begin()
    run.after(4)
    assert run.attempts["chief:0"] == 2
    run.send(ev.Exited(task("chief:0"), 1, run.failures[0].exit))
    run.exits("chief:0", code=0)
    run.after(10)
    assert (run.result.exit_code, run.warnings) == (0, [])


@pytest.mark.parametrize(
    ("spec", "rules", "exit_code"),
    [
        ((2, 1), RestartRules(policy=RestartPolicy.NEVER), 0),
        ((2, 0), RestartRules(policy=RestartPolicy.NEVER), 1),
        ((2, 0), RestartRules(), 1),
        ((2, 1), FREE, 0),
    ],
)
def test_what_fails_while_a_leader_that_is_done_is_swept_restarts_nothing(
    spec: tuple[int, int], rules: RestartRules, exit_code: int
) -> None:
    """It is decided as soon as nothing of the leader is left; a server's failure is none, and one of a gang is."""
    run = History(job(*spec, restart=rules))
    leader = str(run.job.leader)
    run.unswept = {leader}
    run.begin()
    run.after(5)
    run.progresses(leader, 10)
    run.exits(leader, code=0)
    run.after(0.1)
    run.exits("worker:1", exception="ValueError: x")
    run.after(5)
    assert not run.over
    run.send(ev.Swept(run.job.leader, 1))
    run.after(30)
    assert run.result.exit_code == exit_code
    assert run.attempts[leader] == 1


def test_a_leader_that_was_told_to_end_is_not_done() -> None:
    """What fails meanwhile is decided on as ever."""
    run = History(job(2, restart=RestartRules(budget=1)))
    run.polite, run.unswept = {"worker:0"}, {"worker:0"}
    run.begin()
    run.after(5)
    ask(run, Verb.RESTART, "worker:0")
    run.after(20)
    run.send(ev.Swept(task("worker:0"), 1))
    run.after(20)
    assert run.attempts == {"worker:0": 2, "worker:1": 2}
