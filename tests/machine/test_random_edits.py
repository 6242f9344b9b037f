"""Random histories of a run that watches its program: edits, deaths and requests in any order."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule, run_state_machine_as_test

from clusterkit.words.actions import Refresh
from clusterkit.words.events import Verb
from tests.histories import SIGKILL, History, job
from tests.machine.test_edits import save
from tests.machine.test_requests import ask

SHAPES = [(1, 0, 0), (3, 0, 0), (2, 0, 1), (2, 2, 1)]


class Editing(RuleBasedStateMachine):
    """Edits, deaths and requests in any order: the last good save is what runs in the end."""

    @initialize(shape=st.sampled_from(SHAPES), evaluator=st.integers(0, 1), stubborn=st.booleans(), fresh=st.booleans())
    def begin(self, shape: tuple[int, int, int], evaluator: int, stubborn: bool, fresh: bool) -> None:
        """A job of any shape, whose tasks may ignore SIGTERM."""
        workers, ps, chief = shape
        plain = job(workers, ps, chief, evaluator)
        self.run = History(replace(plain, watch=not fresh, watch_fresh=fresh))
        if stubborn:
            self.run.stubborn |= {str(member) for member in self.run.job.tasks}
        self.run.begin()

    @rule(problem=st.sampled_from(["", "", "train.py is gone"]), same=st.booleans())
    def edit(self, problem: str, same: bool) -> None:
        """A save, good or bad."""
        save(self.run, problem=problem, same=same and not problem)

    @rule(pick=st.integers(0, 9), exception=st.sampled_from([None, "ValueError: x"]))
    def die(self, pick: int, exception: str | None) -> None:
        """A task fails."""
        alive = sorted(self.run.live)
        if alive:
            name = alive[pick % len(alive)]
            self.run.exits(name, signal=SIGKILL if exception is None else None, exception=exception)

    @rule(seconds=st.sampled_from([0.05, 0.4, 3.0, 40.0]))
    def wait(self, seconds: float) -> None:
        """Time passes."""
        self.run.after(seconds)

    @rule(pick=st.integers(0, 9))
    def restart(self, pick: int) -> None:
        """Somebody asks for a restart."""
        names = [str(member) for member in self.run.job.tasks]
        ask(self.run, Verb.RESTART, names[pick % len(names)])

    @invariant()
    def the_run_lives(self) -> None:
        """Nothing that a program does ends it."""
        if hasattr(self, "run"):
            assert not self.run.over

    def teardown(self) -> None:
        """A good save at the end: each task runs, in an attempt that began after it."""
        if not hasattr(self, "run"):
            return
        before = dict(self.run.attempts)
        save(self.run, "last.py")
        self.run.after(5)
        names = {str(member) for member in self.run.job.tasks}
        assert self.run.live == names
        assert all(self.run.attempts[name] > before.get(name, 0) for name in names)
        assert "last.py" in self.run.asked(Refresh)[-1].files


def test_whatever_happens_the_program_of_the_last_good_save_runs_in_the_end() -> None:
    """Random histories."""
    run_state_machine_as_test(Editing, settings=settings(max_examples=60, stateful_step_count=25))
