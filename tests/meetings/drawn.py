"""A drawn run: requests, exits, steps, timeouts, suspensions and continuations in any order, and what has to hold."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field, replace

from clusterkit.ledger.ledger import Ledger, ledger_of
from clusterkit.ledger.status import RunPhase
from clusterkit.ledger.takeover import history_of, lost_result
from clusterkit.page.markdown import run_markdown
from clusterkit.views.guidance import end_guidance
from clusterkit.views.listing import run_state
from clusterkit.views.situations import ending
from clusterkit.words import events as ev
from clusterkit.words.account import RecoveryReport
from clusterkit.words.actions import Answer
from clusterkit.words.events import Verb
from clusterkit.words.job import JobSpec, Limits, RestartPolicy, RestartRules, RestartScope
from clusterkit.words.model import Task, TaskType
from clusterkit.words.outcome import NOT_AS_ASKED, SUSPENDED, Asked, RunResult, RunState
from tests.histories import SIGKILL, SIGTERM, History, job, task
from tests.page.test_markdown import told
from tests.page.told import RUN
from tests.views.test_report import lines

SHAPES = ((1, 0, 0), (2, 0, 0), (3, 0, 0), (2, 0, 1), (2, 1, 0), (1, 2, 1))  # workers, ps, evaluators
SIGSTOP = 19
PATIENCE = 2000.0  # seconds; longer than all limits together
CODES = {RunState.STOPPED: {130, 143}, RunState.TIMED_OUT: {124}, RunState.SUSPENDED: {75}, RunState.FAILED: {1, 70}}


def draw_job(draw: random.Random) -> JobSpec:
    """A job of any shape, with any limits and restart rules."""
    workers, ps, evaluators = draw.choice(SHAPES)
    limits = Limits(
        grace=draw.choice((0.0, 5.0, 20.0)),
        finish=draw.choice((0.0, 10.0)),
        collateral=draw.choice((0.0, 1.0, 8.0)),
        evaluator=draw.choice((0.0, 30.0)),
        startup=draw.choice((0.0, 120.0)),
        stall_warning=draw.choice((0.0, 20.0)),
        stall=draw.choice((0.0, 0.0, 30.0, 45.0)),
        job=draw.choice((0.0, 0.0, 400.0)),
    )
    backoff = draw.choice((0.5, 4.0, 16.0))
    restart = RestartRules(
        policy=draw.choice((RestartPolicy.ON_FAILURE, RestartPolicy.ON_FAILURE, RestartPolicy.NEVER)),
        budget=draw.choice((0, 1, 3, 8)),
        backoff=backoff,
        backoff_max=draw.choice((backoff, 30.0)),
        scope=draw.choice(tuple(RestartScope)),
    )
    return job(workers, ps, evaluator=evaluators, restart=restart, limits=limits)


@dataclass
class Drawn:
    """A run through the machine and the ledger, allocation after allocation; every invariant is checked on the way."""

    seed: int
    happened: list[tuple[float, ev.Event]] = field(default_factory=list)
    done: list[str] = field(default_factory=list)  # what was drawn, for whoever looks into a failure
    paused: dict[str, int] = field(default_factory=dict)  # the attempts whose pause was granted, and not taken back
    terminal: bool = False  # whether Ctrl-Z has stopped the command
    debugged: dict[str, int] = field(default_factory=dict)  # the attempts that wait in a debugger
    asked_to_end: set[RunState] = field(default_factory=set)
    failures: int = 0  # what the drawn program and the drawn signals did, that a job may fail of
    requests: int = 0
    step: int = 0
    allocations: int = 1
    run: History = field(init=False)
    training: set[str] = field(init=False)  # those whose pause stops the job's steps

    def __post_init__(self) -> None:
        self.draw = random.Random(self.seed)
        self.job = draw_job(self.draw)
        self.training = {str(one) for one in self.job.tasks if one.type is not TaskType.EVALUATOR}
        self.ledger = Ledger(self.job)
        self.run = History(self.job, seed=self.seed, observe=self._observe)
        self._draw_habits()
        self.run.begin()
        self.check()

    def _draw_habits(self) -> None:
        names = [str(one) for one in self.job.tasks]
        self.run.stubborn |= {name for name in names if self.draw.random() < 0.15}
        self.run.polite |= {name for name in names if self.draw.random() < 0.2} - self.run.stubborn

    def _observe(self, event: ev.Event, now: float) -> None:
        self.happened.append((now, event))
        self.ledger.add(now, event)
        if isinstance(event, ev.Stalled):
            assert not self._is_held(), f"a stall of what waits on request: {event.text}"
        if isinstance(event, ev.RestartPlanned):
            rules = self.job.restart
            assert event.charged <= event.budget == rules.budget
            # Backoff has a jitter of a tenth, and --restart-backoff-max is a maximum.
            assert event.delay <= rules.backoff_max
            assert event.free or event.cause is not None or event.host is not None, "a requested restart was charged"

    def _is_held(self) -> bool:
        """Whether a task waits because somebody wants it to."""
        waiting = [*self.paused.items(), *self.debugged.items()]
        held = {name for name, attempt in waiting if self.run.attempts.get(name) == attempt}
        return self.terminal or not held.isdisjoint(self.run.live & self.training)

    def act(self) -> None:
        """Let one thing happen, and check everything."""
        acts: list[tuple[int, Callable[[], str | None]]] = [
            (12, self._progress),
            (4, self._save),
            (10, self._wait),
            (3, self._fail),
            (1, self._succeed),
            (12, self._request),
            (3, self._press_ctrl_z),
            (4, self._debug),
            (1, self._end_allocation),
            (1, self._lose_supervisor),
        ]
        weights, choices = zip(*acts, strict=True)
        (chosen,) = self.draw.choices(choices, weights)
        what = chosen()
        if what is not None:
            self.done.append(f"{self.run.now - 1000:g}: {what}")
        self.check()

    def _pick(self) -> str | None:
        return self.draw.choice(sorted(self.run.live)) if self.run.live else None

    def _progress(self) -> str | None:
        moving = sorted(name for name in self.run.live if not self.ledger.run.tasks[task(name)].paused)
        if not moving:
            return None
        name = self.draw.choice(moving)
        self.step += self.draw.randrange(3)
        self.run.progresses(name, self.step)
        return f"{name} is at step {self.step}"

    def _save(self) -> str | None:
        leader = str(self.job.leader)
        if leader not in self.run.live or not self.step:
            return None
        self.run.checkpoints(leader, self.step)
        return f"{leader} saves step {self.step}"

    def _wait(self) -> str:
        seconds = self.draw.choice((0.0, 0.3, 2.0, 15.0, 40.0, 100.0))
        self.run.after(seconds)
        return f"{seconds} s pass"

    def _fail(self) -> str | None:
        name = self._pick()
        if name is None:
            return None
        self.failures += 1
        if self.draw.random() < 0.5:
            self.run.exits(name, signal=SIGKILL)
            return f"{name} is killed"
        code = self.draw.choice((1, 3, 42))
        self.run.exits(name, code=code)
        return f"{name} exits with {code}"

    def _succeed(self) -> str | None:
        name = self._pick()
        if name is None:
            return None
        self.failures += name != str(self.job.leader)  # its peers may wait for it in vain
        self.run.exits(name, code=0)
        return f"{name} exits with 0"

    def _request(self) -> str:
        verb = self.draw.choice([verb for verb in Verb if verb is not Verb.DOWN or self.draw.random() < 0.2])
        everybody = [str(one) for one in self.job.tasks]
        names = self.draw.sample(everybody, min(len(everybody), self.draw.choice((0, 1, 1, 2))))
        more: dict[str, object] = {}
        if verb is Verb.KILL:
            more["signal"] = self.draw.choice((SIGKILL, SIGTERM, SIGSTOP))
        if verb is Verb.FAULT:
            more["fault"] = f"{self.draw.choice(('stop', 'kill'))} {self.draw.choice(self.job.tasks)}"
        if verb is Verb.DOWN:
            more["force"] = self.draw.random() < 0.3
        tasks = self._granted(verb, tuple(map(task, names)), **more)
        self._note(verb, tasks, names or everybody, more)
        return f"{verb} {' '.join(names) or 'all'} {more or ''} -> {tasks if tasks is None else len(tasks)}"

    def _granted(self, verb: Verb, tasks: tuple[Task, ...] = (), **more: object) -> tuple[Task, ...] | None:
        """Make a request, which is answered once; the tasks that it was granted for, or None."""
        self.requests += 1
        number = self.requests
        if verb in (Verb.KILL, Verb.FAULT):
            self.failures += 1  # before the answer, since the run may be over then
        if verb is Verb.DOWN:
            self.asked_to_end.add(RunState.STOPPED)
        self.run.send(ev.Requested(number, verb, tasks, **more))  # type: ignore[arg-type]
        answers = [one for one in self.run.asked(Answer) if one.request == number]
        if self.run.over and not answers:
            return None
        (answer,) = answers
        assert (answer.problem is None) or not answer.tasks
        refused = [one for one in self.run.decided(ev.RequestRefused) if one.request == number]
        assert len(refused) == (answer.problem is not None), "a refusal is in the journal"
        return None if answer.problem is not None else answer.tasks

    def _note(self, verb: Verb, tasks: tuple[Task, ...] | None, asked: list[str], more: dict[str, object]) -> None:
        names = set(map(str, tasks or ()))
        if verb is Verb.PAUSE or more.get("signal") == SIGSTOP:
            self.paused.update({name: self.run.attempts[name] for name in names})
        elif verb is Verb.UNPAUSE:  # which is taken back even if a fault still stops the task
            self.paused = {name: attempt for name, attempt in self.paused.items() if name not in asked}

    def _press_ctrl_z(self) -> str:
        self.terminal = not self.terminal
        verb = Verb.PAUSE if self.terminal else Verb.UNPAUSE
        if self._granted(verb, terminal=True) is None:
            self.terminal = False
        return "Ctrl-Z" if self.terminal else "fg"

    def _debug(self) -> str | None:
        name = self._pick()
        if name is None:
            return None
        attempt = self.run.attempts[name]
        if self.debugged.pop(name, None) == attempt:
            self.run.send(ev.LeftDebugger(task(name), attempt))
            return f"{name} leaves the debugger"
        self.debugged[name] = attempt
        self.run.send(ev.InDebugger(task(name), attempt, "train.py", 31, "step"))
        return f"{name} is in the debugger"

    def _end_allocation(self) -> str:
        self.asked_to_end.add(RunState.SUSPENDED)
        self.run.send(ev.AllocationEnding("its time limit is reached", self.draw.choice((1.0, 60.0))))
        return "the allocation ends"

    def _lose_supervisor(self) -> str | None:
        if self.run.over:
            return None
        self.continue_run()
        return "the supervisor is lost, and the run continues"

    def continue_run(self) -> None:
        """`--continue`, by a machine that knows no more than the journal: it counts on, and starts what is wanted."""
        self.ledger = ledger_of(self.job, self.happened)
        before = history_of(self.ledger)
        assert before.final is None, "what can be continued is not over"
        assert before.restarts == self.ledger.run.restarts
        old = self.run
        self.run = History(
            self.job, seed=self.seed, now=before.last_event_at + 50, before=before, observe=self._observe
        )
        self.run.checkpoint, self.run.attempts = old.checkpoint, dict(old.attempts)
        self.run.stubborn, self.run.polite = old.stubborn, old.polite
        self.paused, self.terminal, self.debugged = {}, False, {}
        if before.stop_reason is not None:  # it was being ended: it fails now, since nobody saw the end of its tasks
            self.failures += 1
        self.asked_to_end = set()
        self.allocations += 1
        self.run.send(ev.Continued(before.allocations + 1))
        for name, attempt in self.run.attempts.items():
            assert attempt - old.attempts.get(name, 0) in (0, 1), f"{name} counts on"

    def check(self) -> None:
        """What has to hold at any time."""
        status = self.ledger.run
        machine_attempts = {str(one): number for one, number in history_of(self.ledger).newest_attempts.items()}
        assert machine_attempts == self.run.attempts, "the attempts of the journal"
        for who, of in status.tasks.items():
            if of.alive and not self.run.over:
                assert str(who) in self.run.live or self.run.waiting, f"{who} is told alive"
            if str(who) in self.run.live:
                assert of.alive, f"{who} is told dead"
                record = self.run.machine.state.records[who]
                assert of.paused == bool(record.paused_by), f"{who} is told {of.shown_state}"
        if not self.run.over:
            assert status.result is None
            return
        result = self.run.result
        assert not self.run.live, "something stays behind"
        assert status.result == result
        assert result.restarts == status.restarts == history_of(self.ledger).restarts
        assert {(str(one.task), one.attempt) for one in result.attempts} == set(self._started())
        self._check_reason(result)
        check_doors(result, self.ledger)

    def _started(self) -> list[tuple[str, int]]:
        return [(name, number) for name, newest in self.run.attempts.items() for number in range(1, newest + 1)]

    def _check_reason(self, result: RunResult) -> None:
        match result.state:
            case RunState.STOPPED | RunState.SUSPENDED:
                assert result.state in self.asked_to_end
            case RunState.TIMED_OUT:
                assert self.job.limits.job
            case RunState.FAILED:
                limits = self.job.limits
                assert self.failures or limits.stall or limits.startup, f"nothing has failed: {result.reason}"
            case RunState.SUCCEEDED:
                assert any(one.task == self.job.leader and one.exit and one.exit.ok for one in result.attempts)
        stalled = [one for one in result.attempts if one.exit is not None and one.exit.asked is Asked.STALL]
        assert not stalled or self.job.limits.stall

    def finish(self) -> None:
        """Take back whatever was asked for, and end the run: nothing stays, and it is over."""
        if self.run.over and not self.run.result.final:
            self.continue_run()
            self.check()
        if not self.run.over:
            self._granted(Verb.DOWN)
            self.run.after(PATIENCE)
            self.check()
        assert self.run.over, "the run does not end"
        result = self.run.result
        assert result.final
        assert history_of(self.ledger).final == result, "what is over can't be continued"
        assert lost_result(self.ledger, "?") == result, "another supervisor's end does not replace it"


def check_doors(result: RunResult, ledger: Ledger) -> None:
    """Each door shows the same end, whatever came before."""
    if result.state is RunState.SUCCEEDED:
        assert result.exit_code == (NOT_AS_ASKED if result.reservations else 0)
        assert result.mark == ("✔" if result.fine else "!")
    else:
        assert result.exit_code in CODES[result.state]
        assert result.mark == ("–" if result.state is RunState.SUSPENDED else "✘")
        assert not result.reservations
    assert result.final is (result.exit_code != SUSPENDED)
    assert run_state(False, RunPhase.OVER, result) == result.word
    assert lines(result)[0].startswith(f"{result.mark} run r-1 {result.ended} after ")
    assert ending(result).startswith(f"The run {result.ended}"), ending(result)
    text = run_markdown(told(run=replace(RUN, state=result.word, exit_code=result.exit_code), result=result))
    assert f"\n## {result.mark} `ps_train.py` {result.word} after " in text
    assert end_guidance(result, RecoveryReport(), "r-1", "up --resume r-1 train.py", "clusterkit up train.py").todo
    report = "\n".join(lines(result, recovered=ledger.incidents.report()))
    assert ("Continue with: clusterkit up --run-id r-1 --continue" in report) is not result.final
