"""The matrix: `python -m benchmarks.matrix` tries every claimed TensorFlow on every Python that there is here."""

from __future__ import annotations

import argparse
import os
import shlex
import signal
import subprocess
import sys
import time
from itertools import groupby
from pathlib import Path

from benchmarks.matrix import environments, table
from benchmarks.matrix.slices import SLICES, WITH_OLDEST_KERAS, run_slice
from benchmarks.matrix.versions import Combination, combinations
from tests.support import ROOT

RESULTS = ROOT / "build/matrix.json"


def parse() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.matrix", description=__doc__)
    add = parser.add_argument
    add("--only", action="append", metavar="NAME", help="a combination, such as 2.16-py3.11; may be repeated [all]")
    add("--slice", action="append", choices=SLICES, help="a part of the slice; may be repeated [all]")
    add("--python", action="append", default=[], help="an interpreter; may be repeated [those in PATH, and pyenv's]")
    add("--keep", action="store_true", help="keep the environments, of 2 GB each")
    add("--deadline", type=float, default=900, metavar="SECONDS", help="for a part of the slice [%(default)g]")
    add("--before", type=shlex.split, default=[], metavar="WORDS", help="put before each test command, such as 'nice'")
    add("--json", type=Path, default=RESULTS, metavar="FILE", help="results, which each run adds to [%(default)s]")
    add("--list", action="store_true", help="list the combinations")
    return parser.parse_args()


def main() -> int:
    """See the module's docstring."""
    args = parse()
    pythons = environments.find_pythons(args.python)
    claimed = list(combinations(pythons))
    unknown = {*(args.only or ())} - {one.name for one in claimed}
    if args.list or unknown:
        print("\n".join(one.name for one in claimed))
        return 2 if unknown else 0
    for _, group in groupby([one for one in claimed if args.only is None or one.name in args.only], _environment):
        for one in (members := list(group)):
            _try(one, pythons[one.python], args)
        if not args.keep:
            environments.remove(members[0])
    results = table.load(args.json)
    args.json.with_suffix(".md").write_text(table.table(results) + "\n")
    print(table.table(results))
    return 1 if table.failures(results) else 0


def _environment(one: Combination) -> str:
    return one.environment


def _try(one: Combination, base: str, args: argparse.Namespace) -> None:
    _say(f"{one.name} is being installed.")
    try:
        packages = environments.install(one, base)
    except (OSError, subprocess.SubprocessError) as error:
        _say(f"{one.name} was not installed: {error}")
        return
    for part in args.slice or (WITH_OLDEST_KERAS if one.oldest_keras else SLICES):
        outcome = run_slice(part, environments.python_of(one), args.deadline, args.before)
        results = table.load(args.json)
        table.add(results, one.name, packages, part, outcome)
        table.save(args.json, results)
        _say(f"{one.name}, {part}: {outcome.passed} passed, {len(outcome.failed)} failed in {outcome.seconds:.0f} s")
        for test, why in outcome.failed.items():
            _say(f"    {test}: {why}")


def _say(text: str) -> None:
    print(time.strftime("%H:%M:%S"), text, file=sys.stderr, flush=True)


if __name__ == "__main__":
    os.chdir(ROOT)
    signal.signal(signal.SIGTERM, lambda number, _: sys.exit(128 + number))
    sys.exit(main())
