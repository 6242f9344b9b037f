"""How an agent leaves: what it asks, what its tasks are told, and when it goes."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest

from clusterkit.backends.hosts.departure import ANSWERED_WITHIN, SIGINT, SIGTERM, STOP_OVERDUE, Departure
from clusterkit.backends.link.messages import Drain, KeepRunning, StopAgent
from clusterkit.words.events import Exited, Spawned
from clusterkit.words.outcome import Exit
from tests.histories import task

PS, WORKER = task("ps:0"), task("worker:1")


@dataclass
class Agent:
    """Writes down what it is asked to do, on a clock of its own."""

    now: float = 100.0
    said: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.departure = Departure(
            lambda told: self.said.append(f"asked about {told.signal}"),
            lambda order: self.said.append(f"{order.task} got {order.signal}"),
            lambda why: self.said.append(f"left: {why}"),
        )

    def opened(self) -> Agent:
        """There is a run with two tasks here, which have 10 s to end."""
        self.departure.grace = 10.0
        for one in (PS, WORKER):
            self.departure.track(Spawned(one, 1))
        return self

    def after(self, seconds: float) -> None:
        """Let time pass, as the agent's loop does."""
        until = self.now + seconds
        while (due := self.departure.deadline) is not None and due <= until:
            self.now = max(self.now, due)
            self.departure.check_deadline(self.now)
        self.now = until
        self.departure.check_deadline(self.now)


def test_an_agent_without_a_run_goes_at_once() -> None:
    """Nobody has to be asked."""
    agent = Agent()
    agent.departure.signalled(SIGTERM, agent.now)
    assert agent.said == ["left: it got SIGTERM"]


def test_an_agent_asks_and_goes_when_it_is_told_to() -> None:
    """Its tasks are the supervisor's to end."""
    agent = Agent().opened()
    agent.departure.signalled(SIGTERM, agent.now)
    agent.departure.signalled(SIGTERM, agent.now)  # from the guardian, too
    agent.departure.answered(Drain(), agent.now)
    agent.after(10 + STOP_OVERDUE - 0.1)
    assert agent.said == ["asked about 15"]
    agent.departure.answered(StopAgent(), agent.now)
    assert agent.said == ["asked about 15", "left: it got SIGTERM"]
    assert agent.departure.is_over
    agent.after(100)
    assert len(agent.said) == 2


def test_an_agent_stays_if_the_signal_is_for_the_whole_run() -> None:
    """The next signal is a new question."""
    agent = Agent().opened()
    agent.departure.signalled(SIGTERM, agent.now)
    agent.departure.answered(KeepRunning(), agent.now)
    agent.after(1000)
    agent.departure.signalled(SIGTERM, agent.now)
    assert agent.said == ["asked about 15"] * 2


def test_an_agent_that_gets_no_answer_passes_sigterm_on_itself() -> None:
    """It goes as soon as its tasks have ended."""
    agent = Agent().opened()
    agent.departure.signalled(SIGTERM, agent.now)
    agent.after(ANSWERED_WITHIN)
    assert agent.said == ["asked about 15", "worker:1 got 15", "ps:0 got 15"]
    agent.departure.track(Exited(PS, 1, Exit(signal=15)))
    assert len(agent.said) == 3
    agent.departure.track(Exited(WORKER, 1, Exit(code=42)))
    assert agent.said[3:] == ["left: it got SIGTERM"]
    assert not agent.departure.is_over  # nobody knows what the supervisor has of its tasks


@pytest.mark.parametrize(("answered", "seconds"), [(True, 10 + STOP_OVERDUE), (False, ANSWERED_WITHIN + 10)])
def test_an_agent_does_not_wait_without_end(answered: bool, seconds: float) -> None:
    """Whoever sent the signal kills it soon."""
    agent = Agent().opened()
    agent.departure.signalled(SIGTERM, agent.now)
    if answered:
        agent.departure.answered(Drain(), agent.now)
    agent.after(seconds - 0.1)
    assert "left: it got SIGTERM" not in agent.said
    agent.after(0.1)
    assert agent.said[-1] == "left: it got SIGTERM"


def test_an_agent_without_tasks_needs_no_answer() -> None:
    """Nothing has to end."""
    agent = Agent()
    agent.departure.grace = 10.0
    agent.departure.signalled(SIGTERM, agent.now)
    agent.after(ANSWERED_WITHIN)
    assert agent.said == ["asked about 15", "left: it got SIGTERM"]


def test_a_second_ctrl_c_is_in_a_hurry() -> None:
    """As in `up`."""
    agent = Agent().opened()
    agent.departure.signalled(SIGINT, agent.now)
    agent.departure.answered(Drain(), agent.now)
    agent.departure.signalled(SIGINT, agent.now)
    assert agent.said == ["asked about 2", "left: it got SIGINT"]
