"""The model of a run: keeps the page's entities up to date as events are read from the journal."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress

from clusterkit.ledger.attempts import MOST_TRACES, Key
from clusterkit.ledger.ledger import Ledger
from clusterkit.page.model.board import Board, Curves
from clusterkit.page.model.drawn import Drawn, drawn
from clusterkit.page.model.entities import SeriesInfo, StallVerdict
from clusterkit.page.model.rows import (
    NO_USAGE,
    Now,
    Usage,
    cells,
    clean,
    connected,
    new_run,
    resolved_entity,
    run_entity,
    task_entity,
)
from clusterkit.page.model.stories import stories
from clusterkit.page.model.timeline import Marks, bar, goodput_entity, links, startup_entities
from clusterkit.store.directory import RunInfo
from clusterkit.store.paths import RunPaths
from clusterkit.store.usage import UsageSample
from clusterkit.words import events as ev
from clusterkit.words.model import Task
from clusterkit.words.outcome import RunResult
from clusterkit.words.reports import Stage

USED = ("cpu", "memory", "gpu", "gpu memory")  # the names of sampled curves; tasks report all other curves
OWN = {"step", *USED}  # the names of clusterkit's own curves; a reported metric with such a name is renamed
ALWAYS = (float("-inf"), float("inf"))
UNITS = {"cpu": "%", "memory": "bytes", "gpu": "%", "gpu memory": "bytes", "step": "steps"}
MOST_PACE, LEAST_PACE = 400, 2  # points of a curve from which a pace is computed, at most and at least
MOST_VERDICTS = 200
SILENT = 2.0  # seconds; after this long without an event, goodput is calculated up to the present time
RUN, JOB = "run", "job"


class RunModel:
    """Takes each event of a run, and keeps the run's entities on `board` up to date.

    Some entities change with every progress report. Such changes are only noted at first; `refresh` puts the changed
    entities on the board before messages are sent to clients. The board includes all changes up to the journal offset
    `settled`.
    """

    def __init__(self, paths: RunPaths, info: RunInfo | None) -> None:
        self.paths, self.info = paths, info
        self.offset = self.settled = 0
        self.board, self.curves = Board(), Curves()
        job = None if info is None else info.job
        self.ledger = Ledger(job) if info is None else Ledger(job, info.endpoints)
        self._marks = Marks()
        self._began = 0.0 if info is None else info.created
        self._wall = self._began  # the wall time of the newest event
        self._ended: float | None = None
        self._looked = 0.0  # the time of the last refresh; for an ended run, the time of the last event
        self._tensorboard: str | None = None
        self._verdicts = 0
        self._live = True
        self.written: RunResult | None = None  # the contents of the result file; None until the file is written
        self._run = new_run(paths, info)
        # The entities that `refresh` has to put on the board, each with the journal offset of the entity's last change.
        self._tasks: dict[Task, int] = {}
        self._bars: dict[Key, int] = {}
        self._series: dict[tuple[str, str], int] = {}
        self._incidents: int | None = None
        if info is not None:
            self.board.put(JOB, resolved_entity(info, info.endpoints), 0)

    @property
    def attempts(self) -> dict[Task, int]:
        return {task: of.attempt for task, of in self.ledger.run.tasks.items()}

    @property
    def is_over(self) -> bool:
        return self.ledger.run.result is not None

    def seconds(self, wall: float) -> float:
        """Convert a wall time to seconds since the run began."""
        return self.ledger.now + wall - self._wall

    def take(self, offset: int, clock: float, event: ev.Event, wall: float) -> None:
        if self.ledger.began is None:
            self._began = wall
        self.offset, self._wall = offset, wall
        self.ledger.add(clock, event, wall)
        at = self.ledger.now
        if isinstance(event, ev.Progressed):
            self._progressed(at, event)
        elif not isinstance(event, ev.Ticked):
            self._happened(at, event)
        if self.ledger.attempts.changed:
            self._note_bars()

    def end(self, written: RunResult | None) -> None:
        """Take the contents of the result file, which include explanations; None if the file does not exist yet."""
        if written is not self.written:
            self.written, self._incidents = written, self.offset

    def sample(self, sample: UsageSample) -> None:
        at = self.seconds(sample.wall)
        of_tasks = {task: use for task, use in sample.tasks.items() if task in self.ledger.run.tasks}
        of_gpus = {f"gpu:{name}": use for name, use in sample.gpus.items()}
        for names, used in ((USED[:2], of_tasks), (USED[2:], of_gpus)):
            for of, values in used.items():
                for name, value in zip(names, values, strict=True):
                    self._add(name, of, at, value)

    def refresh(self, wall: float, live: bool, usage: Usage = NO_USAGE, everything: bool = True) -> None:
        """Bring the board up to date. If `everything` is False, omit entities that are updated only every second."""
        if live is not self._live:
            self._live = live
            self.ledger.attempts.changed |= {(one.task, one.number) for one in self.ledger.attempts.running()}
            self._note_bars()
        end = None if live else self.ledger.now if self._ended is None else self._ended
        self._looked = self.seconds(wall) if live else self.ledger.now
        now = Now(wall, live, self._began, usage, end, self._tensorboard, self.written)
        for number, (task, status) in enumerate(self.ledger.run.tasks.items()):
            if not (everything or task in self._tasks):
                continue
            row = task_entity(status, number, now, self.ledger.attempts.trains(task))
            self.board.put(f"task/{task}", row, self._tasks.pop(task, self.offset), always=True)
        self.board.put(RUN, run_entity(self._run, self.ledger, now), self.offset, always=True)
        if self._incidents is not None:
            self._tell_stories(self._incidents)
            self._incidents = None
        if everything:
            self._refresh_bars()
            for (name, of), offset in self._series.items():
                self._refresh_series(name, of, offset)
            self._series.clear()
            self._refresh_account()
            self.settled = self.offset

    def curve(self, name: str, task: str, most: int, within: tuple[float, float] = ALWAYS) -> Drawn | None:
        """Return the points of a curve in a time range, as the page draws them; None if there is no such curve."""
        if (curve := self.curves.get(name, task)) is None:
            return None
        points = curve.points(*within, most)
        now = self._looked if self._ended is None else self._ended
        known = next((of for one, of in self.ledger.attempts.by_task.items() if str(one) == task), {})
        return drawn(points, known.values(), max([now, *points["t"][-1:]]), name not in USED, curve.usual(most))

    def _pace(self, begin: float, end: float) -> float | None:
        """Return the steps per second between two times, of the fastest task; None if too few steps were reported."""
        found = list[float]()
        for task in self.ledger.run.tasks:
            curve = self.curves.get("step", str(task))
            points = None if curve is None else curve.points(begin, end, MOST_PACE)
            inside = [] if points is None else [at for at in points["t"] if begin <= at <= end]
            if points is not None and len(inside) >= LEAST_PACE:
                values = [v for t, v in zip(points["t"], points["v"], strict=True) if begin <= t <= end]
                found.append((max(values) - min(values)) / (end - begin))
        return max(found, default=None)

    def _progressed(self, at: float, event: ev.Progressed) -> None:
        self._tasks[event.task] = self.offset
        if self.info is not None and self.ledger.incidents.is_open:  # a step can change an incident's story
            self._incidents = self.offset
        self._add("step", event.task, at, event.step)
        for name, value in event.metrics.items():
            if isinstance(value, int | float):
                self._add(f"{name} (reported)" if name in OWN else name, event.task, at, value)

    def _add(self, name: str, task: Task | str, at: float, value: float) -> None:
        shown = (clean(name), str(task))
        with suppress(OverflowError):
            if self.curves.add(*shown, at, float(value)):
                self._series[shown] = self.offset

    def _happened(self, at: float, event: ev.Event) -> None:
        self._tasks |= dict.fromkeys(self._touched(event), self.offset)
        self._incidents = self.offset
        self._marks.take(at, event)
        for number in self._marks.changed:
            self.board.put(f"mark/{number}", self._marks.get(number), self.offset)
        self._marks.changed.clear()
        if isinstance(event, ev.Began | ev.FaultInjected | ev.FaultTook | ev.FaultHealed):
            for cell in cells(self.ledger.job, self.ledger.faults.open.values()):
                self.board.put(f"cell/{cell.source}/{cell.target}", cell, self.offset)
        match event:
            case ev.Stalled():
                self._add_verdict(at, event)
            case ev.Reached(stage=Stage.CONNECTED):
                self._run = connected(self._run, self.info)
            case ev.Placed(_, endpoints) if self.info is not None:
                self.board.put(JOB, resolved_entity(self.info, endpoints), self.offset)
            case ev.TensorBoardReady(address):
                self._tensorboard = address
            case ev.TensorBoardLost():
                self._tensorboard = None
            case ev.Continued():
                self._ended = self._tensorboard = None
            case ev.Finished():
                self._ended = at

    def _touched(self, event: ev.Event) -> Mapping[Task, object]:
        """Return the tasks whose rows an event can change."""
        task = getattr(event, "task", None)
        if isinstance(task, Task):
            return {task: None} if task in self.ledger.run.tasks else {}
        many = ev.Placed | ev.Continued | ev.Finished | ev.FaultInjected | ev.FaultTook | ev.FaultHealed
        return self.ledger.run.tasks if isinstance(event, many) else {}

    def _add_verdict(self, at: float, event: ev.Stalled) -> None:
        states = {"T": "is stopped", "t": "is stopped by a debugger", "Z": "has ended", "D": "waits for a device"}
        vitals = sorted(event.vitals.items(), key=lambda one: (one[0] != event.task, one[0]))  # the stalled task first
        doing = {task: states.get(seen.state) or seen.doing or "runs" for task, seen in vitals}
        tasks = tuple((str(task), clean(text)) for task, text in doing.items())
        report = event.report
        stall = self.ledger.interruptions.stall
        since = at if stall is None else stall[0]
        name = None if report is None else report.rpartition("/")[2]
        verdict = StallVerdict(since, at, clean(event.text), tasks, name)
        self.board.put(f"stall/{self._verdicts % MOST_VERDICTS}", verdict, self.offset)
        self._verdicts += 1

    def _note_bars(self) -> None:
        self._bars |= dict.fromkeys(self.ledger.attempts.changed, self.offset)
        self.ledger.attempts.changed.clear()

    def _refresh_bars(self) -> None:
        lost_at, attempts = None if self._live else self.ledger.now, self.ledger.attempts
        for (task, attempt), offset in self._bars.items():
            known = attempts.by_task[task]
            shown = attempt > next(reversed(known)) - MOST_TRACES
            entity = bar(known[attempt], lost_at) if shown else None
            self.board.put(f"attempt/{task}/{attempt}", entity, offset, lost_at is not None)
            self.board.put(f"attempt/{task}/{attempt - MOST_TRACES}", None, offset)
        self._bars.clear()
        for number, link in enumerate(links(attempts)):
            self.board.put(f"link/{number}", link, self.offset)

    def _refresh_account(self) -> None:
        if self.info is None:
            return
        # Time also passes while there are no events, for example in a stall.
        silent = self._live and self._looked - self.ledger.now >= SILENT
        spent = self.ledger.time.goodput(self._looked if silent else None)
        self.board.put("goodput", goodput_entity(spent), self.offset, always=silent)
        for key, start in startup_entities(self.ledger.startup.report()):
            self.board.put(key, start, self.offset)

    def _refresh_series(self, name: str, task: str, offset: int) -> None:
        curve = self.curves.get(name, task)
        if curve is not None:
            info = SeriesInfo(name, task, UNITS.get(name, ""), curve.count, curve.last)
            self.board.put(f"series/{name}/{task}", info, offset, always=name in USED)

    def _tell_stories(self, offset: int) -> None:
        if self.info is None:
            return
        told = stories(self.ledger.incidents.report(), self.written or self.ledger.run.result, self._pace)
        for number, story in enumerate(told):
            self.board.put(f"story/{number}", story, offset)
        number = len(told)
        # Some incidents may have been merged; remove the stories that are left over.
        while self.board.get(f"story/{number}") is not None:
            self.board.put(f"story/{number}", None, offset)
            number += 1
