"""What supervisor and agent say to each other survives the journey; anything else is refused."""

from __future__ import annotations

import json
import random
import typing

import pytest

from clusterkit.backends.link import messages as ms
from clusterkit.words import actions as ac
from clusterkit.words import events as ev
from clusterkit.words.grammar import parse_fault
from tests.histories import job, task
from tests.words.test_wire import EVENTS

PS, WORKER = task("ps:0"), task("worker:1")
TO_AGENT: list[ms.ToAgent] = [
    ms.Open("r-1", "/runs/r-1", "/checkpoints", "/work", "0a1b", 7, job(workers=2, ps=1)),
    ms.Claim((PS, WORKER)),
    ms.Claim((WORKER,), (PS, WORKER)),
    ms.Endpoints({PS: "n1:5000", WORKER: "[::1]:5001"}),
    ms.Shut(),
    ms.Shut(over=False),
    ac.Spawn(WORKER, 2, "failure"),
    ac.Spawn(WORKER, 2, "failure", "ckpt-3", (task("worker:0"), task("worker:2"))),
    ac.Signal(WORKER, 2, 15),
    ac.Sweep(WORKER, 2),
    ac.CloseOutput(WORKER, 2),
    ac.Inspect(ev.Look.STALL, "it hangs"),
    ac.DumpStacks("request 7", (PS,)),
    ac.BeginProfile(7, (PS,), None, 2.5),
    ac.EndProfile(7, (PS, WORKER)),
    ac.Inject(3, parse_fault("memory worker:1 limit=1GB"), (WORKER,)),
    ac.Heal(3),
    ac.HurrySteps(),
    ac.Avoid(("n2",)),
    ac.Refresh(("train.py", "model.py"), fresh=True),
    ms.KeepRunning(),
    ms.Drain(),
    ms.StopAgent(),
]
FROM_AGENT: list[ms.FromAgent] = [
    ms.Opened(("no disk",), "10.0.0.2", 1.5),
    ms.Claimed({PS: 5000}),
    ms.Claimed({}, "no port is free"),
    ms.Output(WORKER, 1, 1e9),
    ms.Written("stacks/stall-1.txt", 512),
    ms.Used({WORKER: (87.5, 1 << 30), PS: (0.0, 4096)}),
    ms.Gone(),
    ms.SignalReceived(15),
    *(event for event in EVENTS if isinstance(event, ms.FromAgent)),
]


@pytest.mark.parametrize("message", TO_AGENT, ids=lambda one: type(one).__name__)
def test_what_an_agent_is_told(message: ms.ToAgent) -> None:
    """Encoded, written as JSON, read and decoded, it is equal to what it was."""
    assert ms.for_agent(json.loads(json.dumps(ms.encode(message)))) == message


@pytest.mark.parametrize("message", FROM_AGENT, ids=lambda one: type(one).__name__)
def test_what_an_agent_tells(message: ms.FromAgent) -> None:
    """The other way round."""
    assert ms.from_agent(json.loads(json.dumps(ms.encode(message)))) == message


def test_every_message_is_tried_above() -> None:
    """A new one has to be put into a list."""
    assert {type(message) for message in TO_AGENT} == {*typing.get_args(ms.ToAgent)}
    assert {type(message) for message in FROM_AGENT} == {*typing.get_args(ms.FromAgent)}


def test_neither_says_what_the_other_does() -> None:
    """An agent gives no orders, and events that are not an agent's are none."""
    for message in (*TO_AGENT, ev.Interrupted(2), ev.Requested(1, ev.Verb.DOWN), ev.HostBack("n1")):
        with pytest.raises(ms.BadMessage):
            ms.from_agent({"is": type(message).__name__, **ms.encode(typing.cast(ms.ToAgent, message))})


def test_hostile_messages_are_refused_with_a_sentence() -> None:
    """Whatever stands in the fields: 20,000 that were damaged at random."""
    rng = random.Random(seed := random.randrange(1 << 32))
    print(f"seed {seed}")
    junk: list[typing.Any] = [None, True, -1, 1e999, "", "worker:1", "\x1b[2J", [], [[]], {}, {"is": 1}, "9" * 5000]
    refused = list[str]()
    for _ in range(20_000):
        message = ms.encode(rng.choice([*TO_AGENT, *FROM_AGENT]))
        for name in rng.sample(sorted(message), k=min(len(message), rng.randint(1, 3))):
            message[name] = rng.choice(junk)
        for read in (ms.for_agent, ms.from_agent):
            try:
                read(message)
            except ms.BadMessage as error:
                refused.append(str(error))
    assert len(refused) > 20_000
    assert max(map(len, refused)) < 400
