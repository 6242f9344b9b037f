"""Every state of the page, each made in a state directory: for pictures that are looked at."""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from pathlib import Path

from clusterkit.backends.local.logs import ArrivalsWriter
from clusterkit.exam.model import Cell, CellResult, Chapter, ExamFinding, Grade, Report, Setting, judge, not_reached
from clusterkit.exam.page import PageParts, page
from clusterkit.exam.survival import PHASES
from clusterkit.page.report_file import page_files
from clusterkit.store.directory import RunDirectory
from clusterkit.store.store import RunStore
from clusterkit.store.usage import UsageLog, UsageSample
from clusterkit.words import events as ev
from clusterkit.words.job import HostRequest
from clusterkit.words.model import TaskState
from tests.histories import SIGKILL, job, task
from tests.ledger.recovering import SOON, Told, ps_job
from tests.page import situated, situations
from tests.page.situated import held
from tests.store.test_campaigns import RECORD, RUN

LINES = 60  # of each attempt's log
RUN_PATH = "/run/r"
Make = Callable[[Path, ExitStack], str]  # makes the state and returns the path of its page


def waiting_for_hosts() -> Told:
    """A host is lost, and none is left for its task."""
    told = Told(replace(job(workers=3, restart=SOON), hosts=HostRequest(count=2)))
    told.run.checkpoints("worker:0", 20)
    told.steps("worker:0", *range(21, 40))
    told.run.loses("n2", "worker:1")
    told.run.after(1)
    told._observe(ev.Changed(task("worker:1"), 2, TaskState.WAITING), told.run.now)
    told.run.after(3)
    return told


def partitioned() -> Told:
    """A worker of a parameter-server job was cut off for six seconds, and another is cut off now."""
    told = Told(job(workers=2, ps=1), "partition worker:0 for=6s @ step=20", "partition worker:1 @ step=60")
    told.ready("worker:0", "worker:1", "ps:0")
    told.run.checkpoints("chief:0", 10)
    told.steps("chief:0", *range(15, 70), every=0.4)
    return told


def recovered_and_finished() -> Told:
    """A worker and a ps were killed, and the chief has exited with code 0."""
    told = ps_job()
    for victim, first in (("worker:1", 46), ("ps:0", 80)):
        told.run.exits(victim, signal=SIGKILL)
        told.run.after(5)
        for name in ("worker:0", "worker:1", "ps:0"):
            told.ready(name)
        told.steps("chief:0", *range(first, first + 30), every=0.3)
        told.run.checkpoints("chief:0", first + 20)
    told.run.exits("chief:0", code=0)
    told.run.after(30)
    return told


def furnish(run: RunDirectory, told: Told, began: float) -> None:
    """Write logs and samples of resource usage, as such a run has them."""
    arrivals = ArrivalsWriter(run.arrivals)
    tasks, last = list(told.ledger.run.tasks.values()), told.events[-1][0] - told.events[0][0]
    for of in tasks:
        for attempt in range(1, of.attempt + 1):
            log = run.log(of.task, attempt)
            log.parent.mkdir(parents=True, exist_ok=True)
            lines = [
                f"{'W' if n % 9 == 4 else 'I'}0000 epoch {n // 10}: step {n}, loss {1 / (n + 1):.4f}\n"
                for n in range(LINES)
            ]
            log.write_text("".join(lines))
            for n in range(LINES):
                at = told.events[0][0] + last * (n + 1) / LINES
                arrivals.add(began + at, str(of.task).encode(), attempt, sum(map(len, lines[: n + 1])))
    arrivals.write()
    arrivals.close()
    usage = UsageLog(run.usage)
    for n in range(int(last / 2)):
        used = {of.task: (60.0 + 25 * ((n * 7 + i * 3) % 5), (400 + 10 * n) << 20) for i, of in enumerate(tasks)}
        usage.add(UsageSample(began + told.events[0][0] + 2 * n, used, {}, 2))


def of_run(made: Callable[[], Told], live: bool, root: Path, stack: ExitStack) -> str:
    told = made()
    run = stack.enter_context(held(root, told))
    furnish(run.run, told, run.began)
    if not live:
        run.end()
    return RUN_PATH


def runs_list(root: Path, stack: ExitStack) -> str:
    """Runs of several states, among them a campaign's and an exam's."""
    made = {
        "20261126-201500-abcd": situated.training(16), "20261126-201501-ab01": situated.failed(3),
        "20261126-201502-ab02": recovered_and_finished(), "20261126-201503-ab03": situations.paused(),
        "20261126-201504-ab04": situations.recovering(), "20261126-201505-ab05": situated.stalled(3),
    }  # fmt: skip
    for name, told in made.items():
        stack.enter_context(held(root, told, name))
    for name, part_of in (("chaos-1", "campaign/chaos"), ("exam-1-again", "exam/exam-1"), ("exam-1-un", "exam/exam-1")):
        told = situations.finished()
        told.job = replace(told.job, part_of=part_of)
        stack.enter_context(held(root, told, name))
    campaign(root, stack)
    return "/"


def campaign(root: Path, stack: ExitStack) -> str:
    """A campaign of some runs, two of which failed."""
    runs = [
        {**RUN, "run": n, "run_id": f"chaos-{n}", "seed": n, "violations": RUN["violations"] if n in (3, 7) else [],
         "faults": [("kill worker:1 @ step=30", "stop ps:0 for=3s @ step=4", "partition worker:0 for=6s @ 12s")[n % 3]]}
        for n in range(1, 13)
    ]  # fmt: skip
    file = RunStore(root).campaign("chaos").path
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(
        json.dumps({**RECORD, "state": "failed", "ended": 1060.0, "asked_for": 12, "runs": runs, "running": []})
    )
    return "/campaign/chaos"


def failed_of_campaign(root: Path, stack: ExitStack) -> str:
    """A run that its campaign failed."""
    campaign(root, stack)
    told = situated.failed(3)
    told.job = replace(told.job, part_of="campaign/chaos")
    stack.enter_context(held(root, told, "chaos-3"))
    return "/run/chaos-3"


def compared(root: Path, stack: ExitStack) -> str:
    """Three runs beside each other."""
    made = {"first": situated.training(3), "second": situated.failed(2), "third": situated.training(2)}
    for number, (name, told) in enumerate(made.items()):
        for place, (at, event) in enumerate(told.events):
            if isinstance(event, ev.Progressed):
                metrics = {key: value and value * (1 + 0.2 * number) for key, value in event.metrics.items()}
                told.events[place] = (at, replace(event, metrics=metrics))
        stack.enter_context(held(root, told, name))
    return "/compare/first,second,third"


def exam(root: Path, stack: ExitStack) -> str:
    """The page of an exam."""
    versions = {"clusterkit": "0.1.0", "python": "3.11.7", "tensorflow": "2.20.0"}
    setting = Setting("train.py", "2 workers", "clusterkit exam --workers=2 --seed=7 train.py", 1.8e9, versions)
    made = Report("exam-1", 7, budget=360.0, setting=setting)
    made.add(judge(Cell(Chapter.REPEAT, "unbroken"), [], "exam-1-unbroken"))
    for action in ("kill", "term", "stop"):
        for worker in range(2):
            for n, phase in enumerate(PHASES):
                cell = Cell(Chapter.SURVIVAL, f"{action}/worker:{worker}/{phase}")
                if (action, n) == ("stop", 3):
                    made.add(not_reached(cell, f"worker:{worker} never exports"))
                elif n == 4 and action == "kill":
                    made.add(
                        judge(cell, [ExamFinding("x", "The checkpoint was torn.", "Write it elsewhere.")], "exam-1-x")
                    )
                elif n > 7:
                    made.add(CellResult(cell, Grade.SKIPPED, reason="the time was up"))
                else:
                    made.add(judge(cell, [], "exam-1-ok"))
    file = root / "exam.html"
    links = {run: f"exam.runs.html#run/{run}" for run in ("exam-1-ok", "exam-1-x")}
    files = page_files()
    style = files["palette.css"] + files["page.css"]
    file.write_text(page(made, PageParts(lambda cell: f"clusterkit exam --cell={cell} train.py", links, style)))
    return file.as_uri()


def removed(root: Path, stack: ExitStack) -> str:
    """A run that is not on the disk."""
    return "/run/20261126-201500-none"


STATES: dict[str, Make] = {
    **{made.__name__: partial(of_run, made, live) for made, (live, _, _) in situations.RUNS.items()},
    **{f"{name}-3": partial(of_run, partial(made, 3), True) for name, made in situated.SITUATIONS.items()},
    **{f"{name}-16": partial(of_run, partial(made, 16), True) for name, made in situated.SITUATIONS.items()},
    "waiting-for-hosts": partial(of_run, waiting_for_hosts, True),
    "partitioned": partial(of_run, partitioned, True),
    "recovered-and-finished": partial(of_run, recovered_and_finished, False),
    "runs": runs_list, "campaign": campaign, "failed-of-campaign": failed_of_campaign,
    "compare": compared, "exam": exam, "missing": removed,
}  # fmt: skip
