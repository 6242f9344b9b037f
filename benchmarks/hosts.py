"""Many hosts, simulated: `python -m benchmarks.hosts` prints what a supervisor costs with more and more of them.

The hosts' agents are in memory (tests/backends/hosts/simulated.py). There are no processes, sockets or TLS.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import tempfile
from pathlib import Path

from benchmarks.jobs import ROOT
from tests.backends.hosts.simulated_run import SimulatedRun, gang, life, servers

SIZES = (100, 300, 1000)
STEPS = 60  # that each task reports: one a second, for a minute of the time that is simulated
SHAPES = {"gang": gang, "ps": servers}
Figures = dict[str, float]
ROWS = {
    "place": "hosts there to ports held, s",
    "start": "all tasks started, s",
    "reporting": "supervisor's CPU for each report of a step, µs",
    "event": "supervisor's CPU for each event of the whole run, µs",
    "restart": "host lost to all tasks started again, s (of these, one is waited for other failures)",
    "restart_cpu": "supervisor's CPU for that, s",
    "end": "all tasks exited to the result, s",
    "memory": "peak memory, with the simulated hosts, MB",
    "journal": "journal, MB",
}


def measure(hosts: int, shape: str, steps: int) -> Figures:
    """One run. For a process of its own, whose peak of memory it is."""
    with tempfile.TemporaryDirectory(prefix="clusterkit-bench-") as base:
        run = SimulatedRun(Path(base), SHAPES[shape](hosts))
        run.play(life(steps))
        journal = run.directory.journal.stat().st_size
    marks = run.marks

    def took(first: str, last: str) -> float:
        return marks[last].at - marks[first].at

    def cpu(first: str, last: str) -> float:
        one, other = marks[first], marks[last]
        return other.loop - one.loop + other.receiving - one.receiving

    def each(first: str, last: str) -> float:
        return cpu(first, last) / (marks[last].events - marks[first].events) * 1e6

    return {
        "tasks": len(run.job.tasks),
        "place": took("begin", "placed"),
        "start": took("placed", "started"),
        "reporting": each("started", "reported"),
        "event": each("begin", "over"),
        "restart": took("reported", "restarted"),
        "restart_cpu": cpu("reported", "restarted"),
        "end": took("ending", "over"),
        "memory": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
        "journal": journal / 1e6,
    }


def table(found: dict[int, Figures]) -> str:
    """The figures in Markdown."""
    heads = [f"{size} hosts, {figures['tasks']:.0f} tasks" for size, figures in found.items()]
    lines = [["measure", *heads], ["---"] * (len(heads) + 1)]
    lines += [[what, *(f"{figures[name]:.3g}" for figures in found.values())] for name, what in ROWS.items()]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def main() -> int:
    """See the module's docstring."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.hosts", description=__doc__)
    parser.add_argument("--hosts", type=int, nargs="+", default=SIZES, metavar="N", help="how many, each in turn")
    parser.add_argument("--shape", choices=SHAPES, default="gang", help="the job [%(default)s]")
    parser.add_argument("--steps", type=int, default=STEPS, metavar="N", help="reports of each task [%(default)s]")
    parser.add_argument("--one", action="store_true", help="only the first number, as JSON")
    args = parser.parse_args()
    if args.one:
        print(json.dumps(measure(args.hosts[0], args.shape, args.steps)))
        return 0
    words = [sys.executable, "-m", "benchmarks.hosts", "--one", "--shape", args.shape, "--steps", str(args.steps)]
    found = {}
    for size in args.hosts:
        one = subprocess.run([*words, "--hosts", str(size)], cwd=ROOT, stdout=subprocess.PIPE, check=True)
        found[size] = json.loads(one.stdout)
    print(table(found))
    return 0


if __name__ == "__main__":
    sys.exit(main())
