"""The benchmarks: `python -m benchmarks` measures clusterkit and its peers in turns and prints a table."""

from __future__ import annotations

import argparse
import compileall
import dataclasses
import json
import signal
import sys
import tempfile
import time
from pathlib import Path
from types import FrameType
from typing import Any

from benchmarks.children import adopt, end_everything
from benchmarks.figures import Judged, judge
from benchmarks.jobs import ROOT
from benchmarks.machine import describe, find_torchrun
from benchmarks.measures import ROWS, scenarios
from benchmarks.rounds import Rounds
from benchmarks.table import table

NAMES = tuple(dict.fromkeys(row.scenario for row in ROWS))


def parse() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("--only", action="append", choices=NAMES, help="a scenario; may be repeated [all]")
    parser.add_argument("--peer", action="append", metavar="NAME", help="a competitor; may be repeated [all]")
    parser.add_argument(
        "--runs", type=int, default=5, metavar="N", help="rounds in which each competitor has a turn [5]"
    )
    parser.add_argument("--minutes", type=float, default=43, metavar="M", help="no round that would end later [43]")
    parser.add_argument("--json", type=Path, default=ROOT / "build/bench.json", metavar="FILE", help="[%(default)s]")
    parser.add_argument(
        "--torch", default=str(ROOT / "build/torch/bin/python"), metavar="PYTHON", help="an interpreter that has torch"
    )
    return parser.parse_args()


def say(text: str) -> None:
    """Progress."""
    print(time.strftime("%H:%M:%S"), text, file=sys.stderr, flush=True)


def main() -> int:
    """See the module's docstring."""
    args = parse()
    adopt()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, _end)
    compileall.compile_dir(ROOT / "clusterkit", quiet=2)  # as the peers' packages are, which pip has installed
    torchrun, began = find_torchrun(args.torch), time.monotonic()
    about = describe(torchrun)
    asked = [each.among(args.peer) for each in scenarios(torchrun) if args.only is None or each.name in args.only]
    for each in asked:
        if each.missing is not None:
            say(f"{each.name} is left out: {each.missing}")
    chosen = [each for each in asked if each.missing is None]
    try:
        with tempfile.TemporaryDirectory(prefix="clusterkit-bench-") as base:
            rounds = Rounds(chosen, Path(base), say)
            rounds.play(args.runs, args.minutes)
    finally:
        end_everything()
    record = rounds.record
    judged = [judge(row, record.values[row.scenario]) for row in ROWS if row.scenario in record.values]
    about["seconds"] = time.monotonic() - began
    write(args.json, {**about, "record": dataclasses.asdict(record), "rows": as_json(judged)})
    print(table(judged))
    say(f"{about['seconds'] / 60:.1f} minutes; all figures are in {args.json}")
    return 1 if record.errors else 0


def as_json(judged: list[Judged]) -> list[dict[str, Any]]:
    """The table for machines."""
    return [
        {
            "measure": each.row.title.strip(),
            "scenario": each.row.scenario,
            "figure": each.row.figure,
            "unit": each.row.unit,
            "ours": each.row.ours,
            "medians": each.medians,
            "ratios": each.ratios,
            "targets": [
                {
                    "of": verdict.target.kind.value,
                    "peer": verdict.target.peer or None,
                    "at least" if verdict.target.least else "at most": verdict.target.bound,
                    "reached": verdict.reached,
                    "verdict": verdict.word,
                }
                for verdict in each.verdicts
            ],
        }
        for each in judged
    ]


def write(path: Path, value: Any) -> None:
    """The JSON file."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(value, indent=2) + "\n")


def _end(number: int, _: FrameType | None) -> None:
    sys.exit(128 + number)


if __name__ == "__main__":
    sys.exit(main())
