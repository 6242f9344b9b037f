"""Requests to the machine: random sequences of commands and deaths, and what each command does alone."""

from __future__ import annotations

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule, run_state_machine_as_test

from clusterkit.words import events as ev
from clusterkit.words.actions import Answer, BeginProfile, DumpStacks, EndProfile
from clusterkit.words.events import Verb
from clusterkit.words.job import RestartRules
from clusterkit.words.model import ALIVE
from tests.histories import SIGKILL, SIGTERM, History, job, task

SIGUSR1, SIGCONT, SIGSTOP = 10, 18, 19
SHAPES = [(1, 0, 0), (3, 0, 0), (2, 0, 1), (2, 2, 1), (0, 0, 1)]


def ask(run: History, verb: Verb, *names: str, signal: int = SIGKILL, force: bool = False) -> Answer:
    """Send a request and return its one answer."""
    number = len(run.asked(Answer)) + 1
    run.send(ev.Requested(number, verb, tuple(task(name) for name in names), signal, force))
    (answer,) = [answer for answer in run.asked(Answer) if answer.request == number]
    assert isinstance(answer, Answer)
    return answer


class Commands(RuleBasedStateMachine):
    """Anything that can be asked, in any order, between the deaths of tasks."""

    @initialize(
        shape=st.sampled_from(SHAPES),
        evaluator=st.integers(0, 1),
        budget=st.sampled_from([0, 3, 50]),
        stubborn=st.booleans(),
    )
    def begin(self, shape: tuple[int, int, int], evaluator: int, budget: int, stubborn: bool) -> None:
        """A job of any shape, whose tasks may ignore SIGTERM."""
        workers, ps, chief = shape
        self.run = History(job(workers, ps, chief, evaluator, restart=RestartRules(budget=budget)))
        self.names = [str(member) for member in self.run.job.tasks]
        if stubborn:
            self.run.stubborn |= set(self.names)
        self.run.begin()
        self.requests = 0

    @rule(
        verb=st.sampled_from([Verb.KILL, Verb.PAUSE, Verb.UNPAUSE, Verb.RESTART, Verb.STACKS, Verb.PROFILE]),
        picks=st.lists(st.integers(0, 9), max_size=3),
        signal=st.sampled_from([SIGKILL, SIGTERM, SIGUSR1]),
        times=st.integers(1, 3),
    )
    def command(self, verb: Verb, picks: list[int], signal: int, times: int) -> None:
        """A command, perhaps said over and over."""
        names = sorted({self.names[pick % len(self.names)] for pick in picks})
        for _ in range(times):
            if not self.run.over:
                answer = ask(self.run, verb, *names, signal=signal)
                self.requests += 1
                assert bool(answer.tasks) != bool(answer.problem)

    @rule(pick=st.integers(0, 9), code=st.sampled_from([1, 1, 42, 0]))
    def exit(self, pick: int, code: int) -> None:
        """A task ends by itself."""
        live = sorted(self.run.live)
        if live and not self.run.over:
            self.run.exits(live[pick % len(live)], code=code)

    @rule(seconds=st.sampled_from([0.0, 0.5, 1.0, 12.0, 70.0]))
    def time(self, seconds: float) -> None:
        """Time passes."""
        if not self.run.over:
            self.run.after(seconds)

    @rule(pick=st.integers(0, 9), step=st.integers(0, 1000))
    def progress(self, pick: int, step: int) -> None:
        """A task reports."""
        live = sorted(self.run.live)
        if live and not self.run.over:
            self.run.progresses(live[pick % len(live)], step)

    @invariant()
    def every_request_is_answered_once(self) -> None:
        """No client waits in vain."""
        if hasattr(self, "run"):
            assert [answer.request for answer in self.run.asked(Answer)] == list(range(1, self.requests + 1))

    @invariant()
    def the_machine_knows_who_lives(self) -> None:
        """The states are true: a task is alive for the machine if there is a process."""
        if hasattr(self, "run"):
            records = self.run.machine.state.records.values()
            alive = {str(record.task) for record in records if record.state in ALIVE}
            assert alive == self.run.live

    def teardown(self) -> None:
        """Whatever was asked before, the end comes when it is asked for."""
        if hasattr(self, "run") and not self.run.over:
            ask(self.run, Verb.DOWN, force=True)
            self.run.after(60)
            assert self.run.over


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.parametrize("sequences", [200, pytest.param(1000, marks=pytest.mark.soak)])
def test_random_sequences_of_commands(sequences: int) -> None:
    """Never two live attempts of one task (the history checks each spawn), never an impossible transition."""
    run_state_machine_as_test(
        Commands, settings=settings(max_examples=sequences, stateful_step_count=30, derandomize=True)
    )


def test_a_restart_that_is_asked_for_costs_nothing() -> None:
    """The budget of 0 is not touched, and the task gets its grace period."""
    run = History(job(workers=2, ps=1, restart=RestartRules(budget=0))).begin()
    assert ask(run, Verb.RESTART, "worker:1").tasks == (task("worker:1"),)
    run.after(0.1)
    assert run.attempts == {"chief:0": 1, "worker:0": 1, "worker:1": 2, "ps:0": 1}
    assert run.signals() == [(0.0, "worker:1", SIGTERM)]
    assert run.failures == []


@pytest.mark.parametrize(("asked", "restarted"), [("ps:0", {"ps:0", "chief:0"}), ("chief:0", {"chief:0"})])
def test_a_restart_takes_along_what_the_strategy_needs(asked: str, restarted: set[str]) -> None:
    """A ps alone can't restart: its variables are gone; the answer names all that start again."""
    run = History(job(workers=1, ps=1)).begin()
    assert set(ask(run, Verb.RESTART, asked).tasks) == {task(name) for name in restarted}
    run.after(0.1)
    assert {name for name, attempt in run.attempts.items() if attempt == 2} == restarted


def test_a_kill_is_a_failure_like_any_other() -> None:
    """What dies of `clusterkit kill` is restarted under the policy, and charged."""
    run = History(job(workers=2, ps=1)).begin()
    ask(run, Verb.KILL, "worker:0")
    run.after(3)
    assert run.attempts["worker:0"] == 2
    assert [planned.charged for planned in run.decided(ev.RestartPlanned)] == [1]


def test_a_paused_task_that_is_ended_is_woken_for_sigterm() -> None:
    """A stopped process does not get to know of SIGTERM before SIGCONT."""
    run = History(job(workers=1)).begin()
    run.stubborn.add("worker:0")
    ask(run, Verb.PAUSE, "worker:0")
    run.send(ev.Interrupted(SIGTERM))
    assert [number for _, _, number in run.signals()] == [SIGSTOP, SIGTERM, SIGCONT]


@pytest.mark.parametrize(
    ("verb", "names", "problem"),
    [
        (Verb.KILL, ["worker:9"], "This run has no task worker:9."),
        (Verb.UNPAUSE, ["worker:0"], "worker:0 is not paused now."),
        (Verb.UNPAUSE, [], "No task is paused now."),
    ],
)
def test_what_can_not_be_done_is_refused(verb: Verb, names: list[str], problem: str) -> None:
    """A refusal says why, and changes nothing."""
    run = History(job(workers=2)).begin()
    assert ask(run, verb, *names).problem == problem
    assert run.signals() == []


def test_nothing_is_started_any_more_once_the_run_ends() -> None:
    """A restart that comes too late is refused."""
    run = History(job(workers=2)).begin()
    run.stubborn |= {"worker:0", "worker:1"}
    run.send(ev.Interrupted(SIGTERM))
    assert ask(run, Verb.RESTART, "worker:1").problem == "The run is being ended, so nothing is started any more."


def test_stacks_are_asked_of_the_live_tasks_only() -> None:
    """The answer names the tasks whose stacks will come."""
    run = History(job(workers=2, ps=1)).begin()
    assert ask(run, Verb.STACKS, "worker:1").tasks == (task("worker:1"),)
    assert run.asked(DumpStacks) == [DumpStacks("request 1", (task("worker:1"),))]


@pytest.mark.parametrize(
    ("ps", "asked", "stepping", "serving"),
    [
        (0, [], ["worker:0", "worker:1"], []),
        (0, ["worker:1"], ["worker:1"], []),
        (1, [], ["chief:0"], ["worker:0", "worker:1", "ps:0"]),
        (1, ["chief:0"], ["chief:0"], []),
        (1, ["ps:0"], ["chief:0"], ["ps:0"]),
    ],
)
def test_a_profile_is_of_steps_or_as_long_as_the_coordinators(
    ps: int, asked: list[str], stepping: list[str], serving: list[str]
) -> None:
    """Servers make no steps, so the coordinator is profiled along with them; its answer ends their window."""
    run = History(job(workers=2, ps=ps)).begin()
    answer = ask(run, Verb.PROFILE, *asked)
    assert [str(one) for one in answer.tasks] == sorted([*stepping, *serving], key=task)
    begun = {action.steps: [str(one) for one in action.tasks] for action in run.asked(BeginProfile)}
    assert (begun[20], begun.get(None, [])) == (stepping, serving)
    for name in stepping:
        run.send(ev.Profiled(task(name), 1, 1, "/x/vm.xplane.pb", 20))
    for name in serving:
        run.send(ev.Profiled(task(name), 1, 1, "/x/vm.xplane.pb"))
    ended = [EndProfile(1, tuple(task(name) for name in serving))] if serving else []
    assert run.asked(EndProfile) == ended


def test_servers_go_on_where_the_coordinator_gives_no_profile() -> None:
    """Then their window is as long as was asked for at most."""
    run = History(job(workers=1, ps=1)).begin()
    ask(run, Verb.PROFILE)
    run.send(ev.Profiled(task("chief:0"), 1, 1, None, why="it has not imported TensorFlow"))
    assert run.asked(EndProfile) == []


def test_only_what_runs_is_profiled() -> None:
    """A task that waits for its restart is not asked; where none runs, that is the answer."""
    run = History(job(workers=1, ps=1)).begin()
    run.exits("chief:0", code=1)
    assert ask(run, Verb.PROFILE, "chief:0").problem == "chief:0 is not running now."
    assert set(ask(run, Verb.PROFILE).tasks) == {task("worker:0"), task("ps:0")}


def test_a_run_goes_on_without_its_tensorboard() -> None:
    """It is worth a warning, and nothing else."""
    run = History(job(workers=2)).begin()
    run.send(ev.TensorBoardReady("http://127.0.0.1:6006/"))
    run.send(ev.TensorBoardLost("its process has ended"))
    (warned,) = run.decided(ev.Warned)
    assert warned.text == "TensorBoard is not available: its process has ended. The run continues without it."
    assert (run.live, run.signals()) == ({"worker:0", "worker:1"}, [])


def test_down_is_the_end_and_by_force_at_once() -> None:
    """`down` gives the grace period, `down --kill` none."""
    run = History(job(workers=1)).begin()
    run.stubborn.add("worker:0")
    ask(run, Verb.DOWN)
    assert not run.over
    ask(run, Verb.DOWN, force=True)
    assert run.result.exit_code == 143


def test_what_was_paused_and_is_gone_can_not_be_continued() -> None:
    """It died while it was paused, and waits to start again."""
    run = History(job(2)).begin()
    run.after(1)
    ask(run, Verb.PAUSE, "worker:1")
    run.exits("worker:1", signal=SIGKILL)
    run.after(0.5)
    ask(run, Verb.UNPAUSE, "worker:1")
    assert [event.problem for event in run.decided(ev.RequestRefused)] == ["worker:1 is not paused now."]
    assert [event.paused for event in run.decided(ev.Paused)] == [True]
