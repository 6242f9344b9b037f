"""What a scrape gets: read back with the parser of prometheus_client, with names and units as OpenMetrics asks."""

from __future__ import annotations

import io
import random
import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from prometheus_client import Metric
from prometheus_client.openmetrics.parser import text_fd_to_metric_families as parse
from prometheus_client.parser import text_string_to_metric_families as parse_plain

from clusterkit.ledger.incident import RecoveryTime
from clusterkit.ledger.status import RunPhase
from clusterkit.page.metrics import CAUSES, MOST_REPORTED, OTHER, STATES, Scraped, exposition
from clusterkit.page.model.entities import Attempt, Entity, Goodput, Mark, Run, TimeShare
from clusterkit.views.listing import run_state
from clusterkit.words.faults import FaultAction
from clusterkit.words.outcome import RunResult, RunState
from tests.histories import task
from tests.page.told import RUN, entities, row

UNITS = {"seconds", "bytes", "ratio"}


def scrape(*runs: Scraped) -> dict[str, Metric]:
    """The families, by their names, after a check of each."""
    text = exposition(runs).decode()
    assert text.endswith("# EOF\n")
    assert list(parse_plain(text))
    read = parse(io.StringIO(text))  # type: ignore[no-untyped-call]
    found: dict[str, Metric] = {family.name: family for family in read}
    for name, family in found.items():
        assert re.fullmatch(r"clusterkit_[a-z_]+", name)
        assert family.documentation.endswith(".")
        assert family.unit in {*UNITS, ""}
        assert name.endswith(f"_{family.unit}") or not family.unit
        assert family.unit or not name.endswith(tuple(f"_{unit}" for unit in UNITS))
        assert all(len(value) <= 100 for sample in family.samples for value in sample.labels.values())
    return found


def values(family: Metric) -> dict[tuple[str, ...], float]:
    """Samples by their labels, that of the task first, without that of the run."""
    found = {}
    for one in family.samples:
        names = sorted(one.labels.keys() - {"run"}, key=lambda name: (name != "task", name))
        found[tuple(one.labels[name] for name in names)] = one.value
    return found


def scraped(changes: Mapping[str, Entity] | None = None, now: float = 30.0) -> Scraped:
    """The made-up run, with changes."""
    restarts = {(task("chief:0"), "collateral"): 1, (task("worker:0"), "fault"): 1}
    faults = {FaultAction.KILL: 1, FaultAction.SLOW: 1}
    return Scraped({**entities(), **(changes or {})}, now, 4096, restarts, faults, 8.0, [RecoveryTime(4.0, 12)])


def test_each_state_of_a_run_is_one_of_the_metric() -> None:
    """Also that of one whose job waits for a change of its program."""
    live = {run_state(True, phase, None) for phase in RunPhase}
    over = {run_state(False, RunPhase.OVER, RunResult(state, 0, "")) for state in RunState}
    assert {*STATES} == {*live, *over, run_state(False, RunPhase.OVER, None)}


def test_a_run_is_told_in_numbers() -> None:
    """Each as its entities say."""
    found = scrape(scraped())
    assert found["clusterkit_run"].samples[0].labels == {
        "run": RUN.id, "program": "ps_train.py", "shape": RUN.shape, "strategy": RUN.strategy, "network": "host",
        "engine": "local",
    }  # fmt: skip
    assert [name for (name,), value in values(found["clusterkit_run_state"]).items() if value] == ["succeeded"]
    assert values(found["clusterkit_run_duration_seconds"]) == {(): 30.0}
    assert values(found["clusterkit_journal_bytes"]) == {(): 4096.0}
    assert values(found["clusterkit_checkpoint_age_seconds"]) == {}  # the run is over: nothing grows old
    assert values(found["clusterkit_task_step"]) == {("chief:0",): 90.0}
    assert values(found["clusterkit_task_cpu_cores"])[("worker:0",)] == 1.5
    assert values(found["clusterkit_task_memory_bytes"])[("worker:0",)] == 2**30
    assert values(found["clusterkit_task_reported"]) == {("chief:0", "loss"): 0.25, ("worker:0", "accuracy"): 0.5}
    assert values(found["clusterkit_restarts"]) == {("chief:0", "collateral"): 1.0, ("worker:0", "fault"): 1.0}
    assert values(found["clusterkit_lost_steps"]) == {(): 12.0}
    assert values(found["clusterkit_faults"]) == {("kill",): 1.0, ("slow",): 1.0}
    assert values(found["clusterkit_goodput_ratio"]) == {(): 0.8}
    assert sum(values(found["clusterkit_time_seconds"]).values()) == 30.0


def test_recoveries_are_a_histogram() -> None:
    """One of 4 s."""
    samples = {(s.name, s.labels.get("le")): s.value for s in scrape(scraped())["clusterkit_recovery_seconds"].samples}
    assert samples["clusterkit_recovery_seconds_bucket", "2.5"] == 0
    assert samples["clusterkit_recovery_seconds_bucket", "5.0"] == 1
    assert samples["clusterkit_recovery_seconds_bucket", "+Inf"] == 1
    assert samples["clusterkit_recovery_seconds_count", None] == 1
    assert samples["clusterkit_recovery_seconds_sum", None] == 4.0


def test_a_live_run_has_a_phase_and_its_checkpoint_an_age() -> None:
    """In seconds since it was complete."""
    live = replace(RUN, state="", phase="running", ended=None)
    found = scrape(scraped({"run": live}, now=20.0))
    assert [name for (name,), value in values(found["clusterkit_run_state"]).items() if value] == ["running"]
    assert values(found["clusterkit_checkpoint_age_seconds"]) == {(): 12.0}
    assert values(found["clusterkit_run_duration_seconds"]) == {(): 20.0}


def test_several_runs_have_a_label_each() -> None:
    """And nothing is a scrape, too."""
    other = replace(RUN, id="other", program="b.py")
    found = scrape(scraped(), Scraped({"run": other}, 1.0, 0))
    assert {sample.labels["run"] for sample in found["clusterkit_run"].samples} == {RUN.id, "other"}
    assert all(not family.samples for family in scrape(Scraped({}, 0.0, 0)).values())
    assert all(not family.samples for family in scrape().values())


def test_labels_are_bounded() -> None:
    """Whatever a program reports, a job has, or a file says."""
    metrics = {f"{'m' * 200}{n}": 1.0 for n in range(50)} | {f"n{n}": float(n) for n in range(50)}
    many: dict[str, Any] = {f"task/worker:{n}": row(f"worker:{n}", metrics=metrics) for n in range(300)}
    strange = {(task(f"worker:{n}"), "strange"): 1 for n in range(300)}
    run = scraped(many)
    run = replace(run, restarts={**run.restarts, **strange})
    found = scrape(run)
    assert len(found["clusterkit_task_step"].samples) <= 200
    per_task = [sample for sample in found["clusterkit_task_reported"].samples if sample.labels["task"] == "worker:7"]
    assert len(per_task) == MOST_REPORTED
    restarts = values(found["clusterkit_restarts"])
    assert {labels[1] for labels in restarts} <= {*CAUSES, OTHER}
    assert len({labels[0] for labels in restarts}) <= 200


def test_hostile_values_are_left_out_or_quoted() -> None:
    """Names with quotes, line ends and halves of characters, numbers that are none: a scrape is read all the same."""
    seed = random.randrange(2**32)
    print(f"seed {seed}")
    dice = random.Random(seed)

    def text() -> str:
        kinds = ['"', "\\", "\n", "\r", "\x00", "\ud800", "\u2028", "{}", "a", " ", "# EOF", "é"]
        return "".join(dice.choice(kinds) for _ in range(dice.randint(0, 8)))

    for _ in range(25):
        numbers: list[Any] = [float("nan"), float("inf"), -1.0, 10**400, None, 2, "x", 0.5]
        found: dict[str, Entity] = {
            "run": replace(RUN, id=text(), program=text(), shape=text(), state=text(), ended=dice.choice([None, 5.0])),
            "task/a": row(text(), metrics={text(): dice.choice(numbers) for _ in range(5)}, step=10**400),
            "attempt/a/2": Attempt(text(), 2, 0.0, None, text(), text(), (), None, None),
            "goodput": Goodput(1.0, dice.choice([None, 0.5]), (TimeShare(text(), 1.0),), text()),
            "mark/0": Mark(1.0, "fault", None, text(), None, None),
        }  # fmt: skip
        assert isinstance(found["run"], Run)
        scrape(Scraped(found, 3.0, 1))
