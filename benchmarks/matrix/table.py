"""The results, as a file that later runs add to and as a table in Markdown; pure but for the file."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from benchmarks.matrix.slices import SLICES, Outcome

PACKAGES = ("tensorflow", "keras", "numpy")
Results = dict[str, dict[str, Any]]


def load(path: Path) -> Results:
    """The results so far."""
    return json.loads(path.read_text()) if path.exists() else {}


def add(results: Results, name: str, packages: Mapping[str, str], part: str, outcome: Outcome) -> None:
    """Add what came of a part of the slice; an older outcome of it is replaced."""
    entry = results.setdefault(name, {"slices": {}})
    entry["packages"] = dict(packages)
    entry["slices"][part] = asdict(outcome)


def save(path: Path, results: Results) -> None:
    """Write the file."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(results, indent=2, sort_keys=True) + "\n")


def table(results: Results) -> str:
    """A row for each combination, a column for each part of the slice; below it, each test that failed."""
    lines = [_row(["combination", *PACKAGES, *SLICES]), _row(["---"] * (1 + len(PACKAGES) + len(SLICES)))]
    below = []
    for name, entry in sorted(results.items()):
        cells = [_cell(entry["slices"].get(part)) for part in SLICES]
        lines.append(_row([name, *(entry["packages"].get(package, "?") for package in PACKAGES), *cells]))
        failed = [(part, test, why) for part, one in entry["slices"].items() for test, why in one["failed"].items()]
        below += [f"- {name}, {part}: `{test}`: {why}" for part, test, why in failed]
    return "\n".join([*lines, "", *below]).rstrip()


def failures(results: Results) -> int:
    """How many tests failed."""
    return sum(len(one["failed"]) for entry in results.values() for one in entry["slices"].values())


def _cell(one: Mapping[str, Any] | None) -> str:
    if one is None:
        return "not run"
    failed, skipped = len(one["failed"]), one["skipped"]
    more = f", **{failed} failed**" * bool(failed) + f", {skipped} skipped" * bool(skipped)
    return f"{one['passed']} passed{more} ({one['seconds']:.0f} s)"


def _row(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"
