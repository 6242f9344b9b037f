"""The dashboard's page in a browser: `python -m benchmarks.page` prints what it costs and how soon it shows.

What is measured, each by its name: `sight`, from an event in the journal to the page; `steps`, training with the page
open and without; `history`, a run with a million events; `flood`, a task that writes 10 MB a second; `traffic`, what
the page of 16 tasks loads; `memory`, of the server beside a long flood.
"""

from __future__ import annotations

import argparse
import json
import random
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import psutil

from benchmarks import ours
from benchmarks.children import adopt, end_everything
from benchmarks.jobs import PROGRAMS
from clusterkit.backends.local.logs import ArrivalsWriter
from clusterkit.words import events as ev
from clusterkit.words.job import JobSpec
from clusterkit.words.model import Program, ProgramKind, Task, TaskType
from tests.environment import clean_environment
from tests.ledger.recovering import gang
from tests.page.browser import Browser, Served
from tests.page.histories import WALL, beginning, line, progress, written
from tests.page.situated import held
from tests.support import ROOT, wait_until

EVENTS, LOGS = 1_000_000, 100_000_000  # of a long run: events, and bytes of logs
TOGETHER = 100  # lines that arrive at once
MOMENTS = 50  # that are looked for
LONG = 180.0  # seconds
POURS = PROGRAMS / "pouring.py"
EIGHT = ("--workers", "6", "--ps", "1")
OFTEN = ("--restart-budget", "1000", "--restart-backoff", "0.05", "--grace-period", "1")
# Notes when each attempt is painted for the first time: wall time in seconds, by task and attempt.
WATCH = """
window.sights = {};
const look = () => {
  for (const body of document.querySelectorAll(".tasks tbody[data-task]")) {
    const attempt = body.querySelector(".state")?.title.match(/^attempt ([0-9]+)/)?.[1];
    const name = `${body.dataset.task} ${attempt}`;
    if (attempt && !(name in window.sights)) {
      window.sights[name] = null;
      requestAnimationFrame(() => { window.sights[name] = Date.now() / 1000; });
    }
  }
};
const all = { subtree: true, childList: true, attributes: true };
new MutationObserver(look).observe(document.querySelector(".tasks"), all);
look();
"""
# The longest time between two frames of the page during so many seconds.
FRAMES = """
let longest = 0, before = performance.now();
const until = before + 1000 * args[0];
while (performance.now() < until) {
  await new Promise(requestAnimationFrame);
  longest = Math.max(longest, performance.now() - before);
  before = performance.now();
}
return longest / 1000;
"""
# From the beginning of the page's way here to its first frame with the run in it; in seconds.
LOG_SHOWN = '!document.querySelector(".log .rows .row")'
OPENED = f"""
while (!document.querySelector(".tasks tbody[data-task]") || {LOG_SHOWN}) {{
  await new Promise(requestAnimationFrame);
}}
await new Promise(requestAnimationFrame);
return performance.now() / 1000;
"""
SCROLLED = """
const view = document.querySelector(".lines"), text = () => document.querySelector(".log .rows").innerText;
const took = [];
for (const way of [0, 1, 0, 1]) {
  const before = text(), began = performance.now();
  view.scrollTop = way ? view.scrollHeight : 0;
  while (text() === before && performance.now() - began < 5000) await new Promise(requestAnimationFrame);
  took.push((performance.now() - began) / 1000);
}
return Math.max(...took);
"""
Figures = dict[str, float | str]


def main() -> int:
    """See the module's docstring."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.page", description=__doc__)
    parser.add_argument("--only", action="append", choices=MEASURES, help="may be repeated [all]")
    parser.add_argument("--rounds", type=int, default=5, metavar="N", help="of training with and without a page [5]")
    parser.add_argument("--minutes", type=float, default=60, metavar="M", help="of the long flood [60]")
    args = parser.parse_args()
    adopt()
    found: dict[str, Figures] = {}
    try:
        for name in args.only or MEASURES:
            with tempfile.TemporaryDirectory(prefix="clusterkit-bench-") as place:
                found[name] = MEASURES[name](Path(place), args)
            print(name, json.dumps(found[name], indent=2), flush=True)
    finally:
        end_everything()
    return 0


def sight(place: Path, _: argparse.Namespace) -> Figures:
    """Workers are killed one after the other while eight tasks write 1 MB a second each."""
    with running(place, *EIGHT, *OFTEN, POURS, "1000000") as run, opened(place, run) as (browser, _served):
        browser.run(WATCH)
        names = []
        for number in range(MOMENTS):
            name, attempt = f"worker:{number % 6}", 2 + number // 6
            command(place, "kill", name)
            wanted = f"{name} {attempt}"
            wait_until(lambda: browser.run("return window.sights[args[0]]", wanted), LONG, f"{wanted} is seen")  # noqa: B023
            names.append(wanted)
        seen: dict[str, float] = browser.run("return window.sights")
        happened: dict[str, float] = {}
        for event in events(run):
            if event["event"] == "Changed":
                happened.setdefault(f"{event['task']} {event['attempt']}", event["t"])
        took = sorted(seen[name] - happened[name] for name in names)
        frames = browser.run(FRAMES, 5)
    return {"median": statistics.median(took), "longest": took[-1], "moments": len(took), "longest frame": frames}


def steps(place: Path, args: argparse.Namespace) -> Figures:
    """The steps a second of a parameter-server job, by turns with the page open and without."""
    rates: dict[str, list[float]] = {"page": [], "none": []}
    for number in range(args.rounds):
        for kind in ("page", "none") if number % 2 == 0 else ("none", "page"):
            home = place / f"{kind}-{number}"
            home.mkdir()
            program = (PROGRAMS / "unaware.py", "ps", "6000", home / "rate")
            with ExitStack() as stack:
                page = stack.enter_context(opened(home)) if kind == "page" else None
                run = stack.enter_context(running(home, "--workers", "2", "--ps", "1", *program))
                if page is not None:
                    page[0].open(page[1].address(f"/run/{run.name}"))
                wait_until(lambda: (home / "rate").exists() and (home / "rate").read_text(), LONG, "the rate")  # noqa: B023
            rates[kind].append(float((home / "rate").read_text()))
    middle = {kind: statistics.median(values) for kind, values in rates.items()}
    rounds = ", ".join(f"{page:.0f}/{none:.0f}" for page, none in zip(*rates.values(), strict=True))
    return {**middle, "ratio": middle["page"] / middle["none"], "rounds": rounds}


def history(place: Path, _: argparse.Namespace) -> Figures:
    """A run with a million events and 100 MB of logs is opened, and its log is scrolled."""
    run = long_run(place)
    found: Figures = {}
    with opened(place, run, wait=False) as (browser, served):
        found["opened"] = browser.run(OPENED)
        browser.wait_text("body", "499,999|499999|499 999")
        found["scrolled"] = browser.run(SCROLLED)
        browser.driver.refresh()
        found["opened again"] = browser.run(OPENED)
        found["server, MB"] = megabytes(served)
    return found


def traffic(place: Path, args: argparse.Namespace) -> Figures:
    """What the page of a run of 16 tasks loads, each of which reports two metrics ten times a second."""
    told, long, step = gang(workers=16), 15, 30

    def report(at: float) -> None:
        nonlocal step
        step, told.run.now = step + 1, at
        for one in told.job.tasks:
            values = {"loss": 1 / step + random.random() / 9, "accuracy": random.random()}
            told.events.append((at, ev.Progressed(one, 1, step, values)))

    for _ in range(800):
        report(told.run.now + 0.1)
    served, browser = Served(place), Browser(metered=True)
    try:
        with held(place, told) as run:
            browser.open(served.address(f"/run/{run.path.name}"))
            opened = browser.run(OPENED.replace(LOG_SHOWN, "false"))
            browser.run("await new Promise((done) => setTimeout(done, 1000))")
            first, begun = browser.received(), time.monotonic()
            while (now := time.monotonic() - begun) < long:
                report(time.time() - run.began)
                run.write()
                time.sleep(max(0.0, 0.1 - (time.monotonic() - begun - now)))
            return {"opened": opened, "first, kB": first / 1e3, "kB/s": browser.received() / 1e3 / long}
    finally:
        browser.end()
        served.kill()
        served.release()


def flood(place: Path, _: argparse.Namespace) -> Figures:
    """A task writes 10 MB a second, and its log is followed."""
    with running(place, "--workers", "1", POURS, "10000000") as run, opened(place, run) as (browser, served):
        browser.wait_text(".log .tools", "following")
        time.sleep(10)
        frames = [browser.run(FRAMES, 5) for _ in range(3)]
        return {
            "longest frame": max(frames),
            "skipped": browser.text(".log .skipped"),
            "server, MB": megabytes(served),
        }


def memory(place: Path, args: argparse.Namespace) -> Figures:
    """The server shows a run that writes 8 MB a second, and has shown a long one."""
    long = long_run(place)
    with running(place, *EIGHT, POURS, "1000000") as run, opened(place, long) as (browser, served):
        browser.open(served.address(f"/run/{run.name}"))
        seen, until = [megabytes(served)], time.monotonic() + 60 * args.minutes
        while time.monotonic() < until:
            time.sleep(20)
            seen.append(megabytes(served))
        size = sum(file.stat().st_size for file in (run / "tasks").rglob("*.log"))
        heap = browser.run("return performance.memory.usedJSHeapSize / 1e6")
    return {"largest, MB": max(seen), "at the end, MB": seen[-1], "logs, MB": size / 1e6, "page's heap, MB": heap}


MEASURES: dict[str, Callable[[Path, argparse.Namespace], Figures]] = {
    "sight": sight, "steps": steps, "history": history, "traffic": traffic, "flood": flood, "memory": memory,
}  # fmt: skip


def command(place: Path, *words: str | Path) -> str:
    """What a `clusterkit` command prints."""
    done = subprocess.run(
        [*ours.COMMAND, *map(str, words)],
        env=clean_environment(place), cwd=ROOT, stdout=subprocess.PIPE, text=True, timeout=LONG, check=True,
    )  # fmt: skip
    return done.stdout.strip()


@contextmanager
def running(place: Path, *job: str | Path) -> Iterator[Path]:
    """A run's directory, while it runs."""
    run = place / "runs" / command(place, "up", "-d", *job)
    try:
        yield run
    finally:
        command(place, "down", run.name)


@contextmanager
def opened(place: Path, run: Path | None = None, wait: bool = True) -> Iterator[tuple[Browser, Served]]:
    """A browser at a run's page, or at the list of runs; and its server."""
    served, browser = Served(place), Browser()
    try:
        browser.open(served.address("/" if run is None else f"/run/{run.name}"))
        if run is not None and wait:
            browser.wait(lambda: browser.all(".tasks tbody[data-task]"), "tasks", LONG)
        yield browser, served
    finally:
        browser.end()
        served.kill()


def megabytes(served: Served) -> float:
    """The memory of the server, with what it started."""
    process = psutil.Process(served.process.pid)
    return sum(one.memory_info().rss for one in (process, *process.children(recursive=True))) / 1e6


def events(run: Path) -> list[dict[str, Any]]:
    """The journal's lines."""
    return [json.loads(text) for text in (run / "journal.jsonl").read_bytes().split(b"\n")[:-1]]


def long_run(place: Path) -> Path:
    """A run that is over, with a million events and 100 MB of logs."""
    job = JobSpec(Program(ProgramKind.SCRIPT, "train.py"), {TaskType.WORKER: 2})
    each = EVENTS // 2
    both = zip(*(progress(Task(TaskType.WORKER, index), each) for index in range(2)), strict=True)
    lines = (*beginning(job), *(one for pair in both for one in pair), line(1.0 + 0.01 * each, ev.Interrupted(15)))
    run = written(place / "runs" / "20261101-000000-abcd", job, lines)
    arrivals, count = ArrivalsWriter(run.arrivals), LOGS // 200
    for index in range(2):
        log = run.all_tasks / f"worker:{index}" / "attempt-1.log"
        log.parent.mkdir(parents=True, exist_ok=True)
        with log.open("w") as file:
            file.writelines(f"worker:{index} {number:010d} ".ljust(99, ".") + "\n" for number in range(count))
    for number in range(TOGETHER, count + 1, TOGETHER):
        for index in range(2):
            arrivals.add(WALL + 0.01 * number, f"worker:{index}".encode(), 1, 100 * number)
    arrivals.write()
    arrivals.close()
    return run.path


if __name__ == "__main__":
    sys.exit(main())
