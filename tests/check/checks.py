"""Programs as texts for the tests of the check, and what it finds in them."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from clusterkit.check.case import Case, HidingFile
from clusterkit.check.findings import Finding
from clusterkit.check.reading import environment_of
from clusterkit.check.rules.all_rules import RULES, check
from clusterkit.check.source import Source
from clusterkit.words.model import ProgramKind
from tests.histories import build_job

# The rules for a program that leaves definitions out, and imports what may not be installed.
EXCERPT = [id_ for id_ in RULES if id_ not in ("undefined-name", "missing-module")]
HERE = "# here"  # stands behind the line that a finding is expected at


def findings(
    text: str,
    files: dict[str, str] | None = None,
    strict: bool = True,
    hides: tuple[HidingFile, ...] = (),
    rules: Iterable[str] = EXCERPT,
    **options: Any,
) -> list[Finding]:
    """Check a program and its modules in a job with these options."""
    job = build_job({"program": "main.py", **options}, ProgramKind.SCRIPT)
    texts = {"main.py": text, **(files or {})}
    names = {name: name.removesuffix(".py").removesuffix("/__init__").replace("/", ".") for name in texts}
    sources = [Source(name, names[name], source.encode(), name != "main.py") for name, source in texts.items()]
    environment = environment_of(job, Path("nowhere"))
    return check(Case(sources, job, options.get("keras", 3), hides, strict, environment), rules)


def told(text: str, **more: Any) -> list[str]:
    """The ids of the findings."""
    return [each.id for each in findings(text, **more)]


def line_of(text: str) -> int:
    """The number of the marked line."""
    return 1 + next(number for number, line in enumerate(text.splitlines()) if line.endswith(HERE))
