"""Programs as texts for the tests of the check, and what it finds in them."""

from __future__ import annotations

from typing import Any

from clusterkit.rules.check import check
from clusterkit.rules.source import Text
from clusterkit.rules.spec import build_job
from clusterkit.words.findings import Finding, Versions
from clusterkit.words.model import ProgramKind

NOW = Versions((2, 21), 3)
HERE = "# here"  # stands behind the line that a finding is expected at


def findings(text: str, files: dict[str, str] | None = None, versions: Versions = NOW, **options: Any) -> list[Finding]:
    """What the check says of a program and its modules in the job of these options."""
    job = build_job({"program": "main.py", **options}, ProgramKind.SCRIPT)
    texts = {"main.py": text, **(files or {})}
    names = {name: name.removesuffix(".py").removesuffix("/__init__").replace("/", ".") for name in texts}
    return check([Text(name, names[name], source.encode()) for name, source in texts.items()], job, versions)


def told(text: str, **more: Any) -> list[str]:
    """`error tf-config-overwritten` and the like, without those about checkpoints, which these programs seldom have."""
    found = findings(text, **more)
    return [f"{each.severity} {each.id}" for each in found if each.id != "no-checkpoint"]


def line_of(text: str) -> int:
    """The number of the line that is marked."""
    return 1 + next(number for number, line in enumerate(text.splitlines()) if line.endswith(HERE))
