"""What the tests of commands share: a `clusterkit` that is called, and the runs of its home."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from clusterkit.store.control import Client
from clusterkit.store.directory import RunDirectory
from clusterkit.store.journal import RunEndWaiter
from clusterkit.words.errors import ClusterkitError
from tests.environment import clean_environment
from tests.support import CHILDREN, ROOT, more, processes_of, wait_until

ROLES = CHILDREN / "roles.py"
JOB = ("--workers", "2", "--ps", "1", "--restart-backoff", "0.1")


@dataclass(frozen=True)
class Answer:
    """What a command said."""

    code: int
    out: str
    err: str


@dataclass
class Clusterkit:
    """Calls commands and waits for each of them."""

    home: Path

    def __call__(self, *args: str | Path, code: int = 0, deadline: float = 30) -> Answer:
        """Run a command to its end, which has to come in time and with that exit code."""
        done = self.anyhow(*args, deadline=deadline)
        assert done.code == code, f"{args}: exit code {done.code}\n{done.out}\n{done.err}"
        return done

    def anyhow(self, *args: str | Path, deadline: float = 30) -> Answer:
        """Run a command to its end, whatever its exit code."""
        done = subprocess.run(
            [sys.executable, "-m", "clusterkit", *map(str, args)],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=deadline,
            cwd=ROOT,
            env=self.environment(),
        )
        assert not [line for line in done.stderr.splitlines() if line.startswith("Traceback")], done.stderr
        return Answer(done.returncode, done.stdout, done.stderr)

    def json(self, *args: str | Path, code: int = 0) -> Any:
        """What the command prints as JSON."""
        return json.loads(self(*args, "--json", code=code).out)

    def lines(self, *args: str | Path) -> list[Any]:
        """What the command prints as JSON lines."""
        return [json.loads(line) for line in self(*args, "--json").out.splitlines()]

    def environment(self) -> dict[str, str]:
        """Of the commands."""
        return clean_environment(self.home)

    def up(self, *args: str | Path) -> Path:
        """A detached run, ready; its directory."""
        return self.home / "runs" / self("up", "-d", *args).out.strip()

    def task(self, name: str, *args: str) -> dict[str, Any]:
        """A row of `ps`."""
        rows: list[dict[str, Any]] = self.json("ps", *args)["tasks"]
        return next(row for row in rows if row["task"] == name)

    def end(self) -> None:
        """End every run that is still live."""
        for run in self.home.glob("runs/*"):
            if RunDirectory(run).is_live():
                with suppress(ClusterkitError), Client(RunDirectory(run)) as client:
                    client.call("down", force=True)
                assert RunEndWaiter(RunDirectory(run)).is_over(20), f"{run.name} does not end"
        wait_until(lambda: not processes_of(self.home), 20, "the end of every process")


def journal(run: Path, kind: str, **fields: Any) -> list[dict[str, Any]]:
    """The events of a kind in a run so far, with these fields."""
    lines = (run / "journal.jsonl").read_bytes().split(b"\n")[:-1]
    events: Iterator[dict[str, Any]] = ({**event, **more(event)} for event in map(json.loads, lines))
    return [e for e in events if e["event"] == kind and all(e.get(key) == value for key, value in fields.items())]


def wait_for(run: Path, kind: str, deadline: float = 20, **fields: Any) -> dict[str, Any]:
    """The first event of a kind in a run."""
    found: list[dict[str, Any]] = wait_until(lambda: journal(run, kind, **fields), deadline, f"{kind} {fields}")
    return found[0]


def supervisor(run: Path) -> int:
    """The pid of a run's supervisor."""
    pid: int = json.loads((run / "job.json").read_text())["pid"]
    return pid
