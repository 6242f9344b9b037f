"""Runs the console blocks of README.md and docs/, and writes what they print into the pages: `make docs`.

A block is run if a comment stands above it: `<!-- run -->`, or with options, `<!-- run keep=8,12 drop=REGEX -->`.
`drop` leaves out the lines that match, and `keep` all but the first and last ones of each command, with an ellipsis in
their place. `on=slurm` runs them on a Slurm of three virtual hosts (as root, with Slurm's packages); where there can be
none, the block stays as it is. `<!-- file train.py -->` writes the block below it to that file.

Each page has a directory and a state directory of its own, in which its commands run one after the other. What they
print is a real run's: run ids, times and pids are new each time.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))  # this is a script, and the test cluster is in tests/
PAGES = (ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md")))
BLOCK = re.compile(
    r"^<!-- (?P<kind>run|file)(?P<options>.*?) -->\n```(?P<language>\w+)\n(?P<body>.*?)^```$", re.M | re.S
)
COMMAND = re.compile(r"^\$ ((?:.*\\\n)*.*)$", re.M)
ELLIPSIS = "…"
LIMIT = 300.0  # seconds for one command
COLUMNS = "100"
LIBRARY = sysconfig.get_path("stdlib")
UNWANTED = ("CLUSTERKIT_", "TF_", "PYTHON", "NO_COLOR", "FORCE_COLOR")  # variables that a reader need not have


class Block(NamedTuple):
    """A fenced block that is run, or written to a file."""

    kind: str
    options: list[str]
    body: str

    def option(self, name: str, default: str = "") -> str:
        """The value of `name=value`."""
        return next((word.partition("=")[2] for word in self.options if word.startswith(f"{name}=")), default)


def blocks_of(text: str) -> list[Block]:
    """The blocks of a page that have a comment for this script, in their order."""
    return [Block(m["kind"], shlex.split(m["options"]), m["body"]) for m in BLOCK.finditer(text)]


def commands_of(body: str) -> list[str]:
    """The commands of a console block, each with its continuation lines."""
    return COMMAND.findall(body)


class Place:
    """Where the commands of one page run: a directory with the workloads in it, and a home."""

    def __init__(self, root: Path, slurm: Mapping[str, str] | None = None) -> None:
        """`slurm`: the variables with which commands find Slurm's, None if there is no Slurm."""
        self.slurm = slurm
        self.work, self.home = root / "work", root / "home"
        self.home.mkdir()
        shutil.copytree(ROOT / "workloads", self.work / "workloads", ignore=shutil.ignore_patterns("__pycache__"))
        kept = {name: value for name, value in os.environ.items() if not name.startswith(UNWANTED)}
        path = f"{Path(sys.executable).parent}:{kept['PATH']}"
        self.environment = {**kept, "HOME": str(self.home), "PATH": path, "COLUMNS": COLUMNS}
        self.environment.pop("XDG_STATE_HOME", None)

    def run(self, command: str, env: Mapping[str, str] = MappingProxyType({})) -> str:
        """What a command prints on both streams. Paths are those that a reader has."""
        print(f"$ {command}", flush=True)
        words = re.sub(r"^make ", f"make --no-print-directory -C {ROOT} ", command)
        done = subprocess.run(
            ["bash", "-c", words],
            cwd=self.work,
            env={**self.environment, **env},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=LIMIT,
        )
        output = done.stdout
        for path, shown in ((self.work, ""), (self.home, "~/"), (ROOT, ""), (LIBRARY, "…/")):
            output = output.replace(f"{path}/", shown)
        return output

    def clean(self) -> None:
        """End what the page has left running."""
        live = self.run("clusterkit ls --live --quiet").split()
        for command in (*(f"clusterkit down --kill {run}" for run in live), "clusterkit warm stop"):
            self.run(command)


def shortened(output: str, block: Block) -> str:
    """The lines that the block asks for."""
    lines, drop = [line.rstrip() for line in output.splitlines()], block.option("drop")
    if drop:
        lines = [line for line in lines if not re.search(drop, line)]
    if keep := block.option("keep"):
        first, last = map(int, keep.split(","))
        if len(lines) > first + last:
            lines = [*lines[:first], ELLIPSIS, *lines[len(lines) - last :]]
    return "".join(f"{line}\n" for line in lines)


def rewritten(text: str, place: Place) -> str:
    """A page, with the output of its commands as it is now."""

    def replace(match: re.Match[str]) -> str:
        block = Block(match["kind"], shlex.split(match["options"]), match["body"])
        if block.kind == "file":
            (place.work / block.options[0]).write_text(block.body)
            return match[0]
        if block.option("on") == "slurm" and place.slurm is None:
            return match[0]
        env = (place.slurm or {}) if block.option("on") == "slurm" else {}
        body = "".join(f"$ {words}\n{shortened(place.run(words, env), block)}" for words in commands_of(block.body))
        return match[0].replace(f"\n{block.body}```", f"\n{body}```")

    return BLOCK.sub(replace, text)


@contextmanager
def slurm_for(blocks: list[Block]) -> Iterator[Mapping[str, str] | None]:
    """The variables with which commands find a Slurm, if a block needs one; it lives as long as the context."""
    if not any(block.option("on") == "slurm" for block in blocks):
        yield None
        return
    from tests.engines.slurm_cluster import SlurmCluster, why_no_slurm

    if (why := why_no_slurm()) is not None:
        print(f"No Slurm here: {why}. What runs on it stays as it is.", flush=True)
        yield None
        return
    cluster = SlurmCluster()
    try:
        yield {"PATH": f"{Path(sys.executable).parent}:{cluster.env['PATH']}"}
    finally:
        cluster.end()


def main(names: list[str]) -> None:
    """Rewrite all pages, or those that are named."""
    for page in PAGES:
        text = page.read_text()
        if (names and page.name not in names) or not any(block.kind == "run" for block in blocks_of(text)):
            continue
        with tempfile.TemporaryDirectory(prefix="docs-") as root, slurm_for(blocks_of(text)) as slurm:
            place = Place(Path(root), slurm)
            try:
                page.write_text(rewritten(text, place))
            finally:
                place.clean()


if __name__ == "__main__":
    main(sys.argv[1:])
