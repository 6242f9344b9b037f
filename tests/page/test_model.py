"""The model of a run: what hand-made histories are shown as, and that it does not matter how it was read."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest

from clusterkit.page.model.board import Board
from clusterkit.page.model.entities import (
    Attempt,
    CauseLink,
    Mark,
    NetworkCell,
    Run,
    Segment,
    StallVerdict,
    Story,
    TaskRow,
)
from clusterkit.words import events as ev
from clusterkit.words.faults import FaultAction
from clusterkit.words.job import Network
from clusterkit.words.model import Task, TaskState
from tests.histories import job, task
from tests.ledger.recovering import UNAVAILABLE, Told, gang, ps_job
from tests.page.histories import AFTER, feed, model_of, random_history, shown, stamped

SEEDS = range(24)


def entities(told: Told, live: bool = True) -> dict[str, object]:
    """What the page has of a history."""
    return model_of(told.job, stamped(told.events), live).board.entities()


def test_a_ps_that_is_killed_is_told_with_what_it_brought_down() -> None:
    """Its bar ends by the fault, the chief's since it restarts with it; what the chief had computed is lost."""
    told = ps_job("kill ps:0 @ step=45")
    told.run.after(5)
    told.ready("ps:0")
    told.run.resumes("chief:0", 40, "ckpt-40")
    told.run.after(1)
    told.run.progresses("chief:0", 41)
    found = entities(told)
    ps, chief, again = (found[f"attempt/{name}"] for name in ("ps:0/1", "chief:0/1", "chief:0/2"))
    assert isinstance(ps, Attempt)
    assert isinstance(chief, Attempt)
    assert isinstance(again, Attempt)
    assert (ps.how, ps.text) == ("fault", "was killed by SIGKILL, by fault 1")
    assert (chief.how, chief.steps) == ("asked", (45, 45))
    assert chief.segments[-1] == Segment(5.0, 10.0, "lost", "These steps were computed again.")
    assert (again.resumed, again.how, again.segments[-1].end) == (40, "running", None)
    story = found["story/0"]
    assert isinstance(story, Story)
    assert story.title == "ps:0 was killed by SIGKILL"
    assert (story.lost, story.checkpoint, story.log) == (5, "ckpt-40", ("ps:0", 1))
    assert [one.kind for one in story.lines] == ["fault", "cause", "restart", "back", "step"]
    fault = found["mark/1"]
    assert isinstance(fault, Mark)
    assert (fault.kind, fault.task, fault.number) == ("fault", "ps:0", 1)


def test_the_account_of_time_goes_on_while_nothing_happens() -> None:
    """A run that is silent for an hour spends that hour; one that has ended, or just reported, does not."""
    told = ps_job("kill ps:0 @ step=45")
    happenings = stamped(told.events)
    model = model_of(told.job, happenings, live=True)
    for wall, live, longer in (
        (happenings[-1].wall + 1, True, 0),
        (AFTER, False, 0),
        (happenings[-1].wall + 3600, True, 3600),
    ):
        model.refresh(wall, live)
        spent = model.board.get("goodput")
        assert spent.seconds == pytest.approx(model.ledger.now + longer)
        assert spent.seconds == pytest.approx(sum(part.seconds for part in spent.parts))


def test_a_line_goes_from_a_cause_to_what_it_brought_down() -> None:
    """As the run has decided it."""
    told = gang("kill worker:1 @ 12s")
    told.run.after(2.5)
    told.run.exits("worker:0", exception=UNAVAILABLE)
    told.run.after(1)
    found = entities(told)
    cause, effect, line = (found[key] for key in ("attempt/worker:1/1", "attempt/worker:0/1", "link/0"))
    assert isinstance(cause, Attempt)
    assert isinstance(effect, Attempt)
    assert (cause.how, effect.how) == ("fault", "collateral")
    assert isinstance(line, CauseLink)
    assert (line.cause, line.effect) == (("worker:1", cause.end), ("worker:0", effect.end))


def test_a_pause_is_a_part_of_the_bar_and_a_stall_has_a_verdict() -> None:
    """Both end with what ended them."""
    told = gang("stop worker:1 for=4s @ 12s")
    told.run.after(3)
    one = entities(told)["attempt/worker:1/1"]
    assert isinstance(one, Attempt)
    assert [part.kind for part in one.segments][-1] == "stopped"
    told.run.after(10)
    done = entities(told)["attempt/worker:1/1"]
    assert isinstance(done, Attempt)
    assert [part.kind for part in done.segments] == ["start", "run", "stopped", "run"]
    seen = {
        task("worker:0"): ev.Vitals(1, True, "S", "waits in a collective"),
        task("worker:1"): ev.Vitals(1, True, "T"),
    }
    more: list[tuple[float, ev.Event]] = [
        (2000.0, ev.Stalled("It hangs.", None, 60.0, seen, "stacks/stall-1.txt")),
    ]
    stalled = model_of(told.job, stamped([*told.events, *more]), live=True).board.entities()
    verdict = stalled["stall/0"]
    assert isinstance(verdict, StallVerdict)
    assert (verdict.report, verdict.tasks[1]) == ("stall-1.txt", ("worker:1", "is stopped"))
    bar = stalled["attempt/worker:0/1"]
    assert isinstance(bar, Attempt)
    assert bar.segments[-1] == Segment(10.0, None, "stalled", "It hangs.")


def test_an_attempt_that_is_starting_is_not_stalled() -> None:
    """It has not come as far as to make a step, although the run has not made one for a while."""
    told = gang()
    told.run.exits("worker:1", code=1)
    told.run.after(3)
    noticed = (told.run.now + 60, ev.Stalled("No step for 60 s.", None, 60.0, {}))
    bar = model_of(told.job, stamped([*told.events, noticed]), live=True).board.entities()["attempt/worker:0/2"]
    assert isinstance(bar, Attempt)
    assert [part.kind for part in bar.segments] == ["start"]


def test_a_run_that_starts_says_what_it_waits_for_and_one_without_a_result_is_lost() -> None:
    """The phase is not `running` for ever, and neither are tasks."""
    spec = job(workers=2)
    begun: list[tuple[float, ev.Event]] = [
        (0.0, ev.Began()),
        *((0.1, ev.Changed(one, 1, TaskState.STARTING)) for one in spec.tasks),
    ]
    run = model_of(spec, stamped(begun), live=True).board.get("run")
    assert isinstance(run, Run)
    assert (run.phase, run.text) == ("starting", "Starting worker:0 and worker:1.")
    lost = model_of(spec, stamped(begun), live=False).board.entities()
    over, row = lost["run"], lost["task/worker:0"]
    assert isinstance(over, Run)
    assert isinstance(row, TaskRow)
    assert (over.phase, over.state, row.state, row.pid) == ("over", "lost", "lost", None)
    assert "lost" in over.text


def test_the_matrix_shows_what_faults_do_to_packets() -> None:
    """In both directions, and only while they last."""
    spec = replace(job(workers=2, ps=1), network=Network.VIRTUAL)
    one, two = task("worker:0"), task("ps:0")
    cut = ev.FaultInjected(1, "partition worker:0 | ps:0", FaultAction.PARTITION, (one,), (two,))
    delay = ev.FaultInjected(2, "delay worker:0 by=100ms", FaultAction.DELAY, (one,))
    heal = ev.FaultHealed(1, cut.fault, cut.action, cut.tasks, "its time is over")
    events: list[tuple[float, ev.Event]] = [(0.0, ev.Began()), (1.0, cut), (2.0, delay)]
    found = model_of(spec, stamped(events), live=True).board.entities()
    assert found["cell/ps:0/worker:0"] == NetworkCell("ps:0", "worker:0", None, None, 0.1, None, True, (1, 2))
    assert found["cell/worker:1/ps:0"] == NetworkCell("worker:1", "ps:0", None, None, None, None, False, ())
    healed = model_of(spec, stamped([*events, (3.0, heal)]), live=True).board.entities()
    assert healed["cell/worker:0/ps:0"] == NetworkCell("worker:0", "ps:0", None, None, 0.1, None, False, (2,))


def test_secret_variables_are_not_shown() -> None:
    """Neither in the job file nor in the command."""
    spec = job(workers=1)
    spec = replace(spec, setup=replace(spec.setup, env={"DB_PASS": "hunter2", "TF_PLAIN": "seen"}))
    spec = replace(spec, program=replace(spec.program, args=("postgres://me:hunter2@db",)))
    text = str(model_of(spec).board.entities())
    assert "hunter2" not in text
    assert "seen" in text


@pytest.mark.slow
@pytest.mark.parametrize("block", range(4))
def test_it_does_not_matter_in_how_many_pieces_a_journal_is_read(block: int) -> None:
    """Nor to a client at which offset it connects again, to whichever server."""
    for seed in SEEDS[block::4]:
        spec, history = random_history(seed)
        at_once = model_of(spec, history)
        rng, model = random.Random(seed), model_of(spec, live=True)
        clients: list[tuple[int, dict[str, object]]] = []
        rest = list(history)
        while rest:
            count = rng.randrange(1, 40)
            feed(model, rest[:count])
            del rest[:count]
            model.refresh(AFTER, live=True, everything=rng.random() < 0.5)
            if rng.random() < 0.3:
                clients.append((model.settled, shown(model)))
        model.refresh(AFTER, live=False)
        assert shown(model) == shown(at_once), f"seed {seed}"
        for offset, known in clients:
            for server in (model, at_once):
                news = {key: entry.entity for key, entry in server.board.since_offset(offset).items()}
                merged = {key for key in {*known, *news} if key not in news or news[key] is not None}
                assert merged == set(shown(server)), f"seed {seed}, from {offset}"
                stale = {key for key in merged - news.keys() if known[key] != shown(server)[key]}
                assert not stale, f"seed {seed}, from {offset}"


def test_a_client_of_the_same_server_gets_each_change_once() -> None:
    """By versions; what did not change is not sent."""
    spec, history = random_history(3)
    model, known, version = model_of(spec, live=True), dict[str, object](), 0
    for number in range(0, len(history), 7):
        feed(model, history[number : number + 7])
        model.refresh(AFTER, live=True)
        news = model.board.since_version(version)
        assert all(known.get(key) != entry.entity for key, entry in news.items())
        known |= {key: entry.entity for key, entry in news.items()}
        version = model.board.version
    assert {key: one for key, one in known.items() if one is not None} == model.board.entities()
    assert not model.board.since_version(version)


@pytest.mark.slow
def test_marks_attempts_and_removed_entities_are_bounded() -> None:
    """However long a run is."""
    spec, worker = job(workers=1), Task.parse("worker:0")
    events: list[tuple[float, ev.Event]] = [(0.0, ev.Began()), (0.1, ev.Changed(worker, 1, TaskState.STARTING))]
    events += [(float(n), ev.Checkpointed(worker, 1, n, f"ckpt-{n}")) for n in range(1, 20_000)]
    events += [(2e4 + n, ev.Warned(f"warning {n}")) for n in range(5000)]
    found = model_of(spec, stamped(events)).board.entities()
    marks = [one for one in found.values() if isinstance(one, Mark)]
    assert 250 <= sum(one.kind == "checkpoint" for one in marks) <= 501
    assert sum(one.kind == "warning" for one in marks) == 2000
    assert f"warning {4999}" in {one.text for one in marks}
    board = Board()
    for number in range(100_000):
        board.put(f"x/{number}", number, number)
        board.put(f"x/{number}", None, number)
    assert board.all() == {}
    assert len(board.since_version(0)) <= 20_000
