"""A run on the test cluster's Slurm, for the tests of what becomes of it."""

from __future__ import annotations

import json
import os
import re
import shlex
import signal
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from clusterkit.store.directory import RunDirectory
from tests.engines.slurm_cluster import SlurmCluster
from tests.support import CHILDREN, ROOT, wait_until

MIMIC = CHILDREN / "mimic.py"
PS = ("--workers", "2", "--ps", "1", "--hosts", "3")
GANG = ("--workers", "3", "--hosts", "3")
LONG = ("--steps", "600", "--step-time", "0.02", "--every", "40")
BRISK = ("--restart-backoff", "0.1")
QUICK = ("--agent-timeout", "3s", *BRISK)  # where a host is to be lost


@dataclass
class OnLoginNode:
    """A command of clusterkit's on the login node, beside the one that submitted the run."""

    process: subprocess.Popen[bytes]
    printed: Path

    @property
    def output(self) -> str:
        """What it has printed."""
        return self.printed.read_text(errors="replace")

    def wait(self, deadline: float) -> int:
        """Wait for its end; its exit code."""
        try:
            return self.process.wait(deadline)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"not over within {deadline:g} s: {self.output[-4000:]}") from None


@dataclass
class SlurmUp:
    """`clusterkit up --engine slurm` on the login node, with a home that all hosts see."""

    slurm: SlurmCluster
    home: Path
    args: tuple[str, ...]
    process: subprocess.Popen[bytes] = field(init=False)
    others: list[OnLoginNode] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.process = self._start(self.home / "out", "up", "--engine", "slurm", "--run-id", "r-1", *self.args)

    def beside(self, *words: str) -> OnLoginNode:
        """Run another command."""
        printed = self.home / f"out-{len(self.others)}"
        self.others.append(OnLoginNode(self._start(printed, *words), printed))
        return self.others[-1]

    def _start(self, printed: Path, *words: str) -> subprocess.Popen[bytes]:
        line = f"cd {shlex.quote(str(ROOT))} && exec {shlex.join([sys.executable, '-m', 'clusterkit', *words])}"
        entered = self.slurm.head.enter("env", f"CLUSTERKIT_HOME={self.home}", "sh", "-c", line)
        with printed.open("wb") as output:
            return subprocess.Popen(
                entered, stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT, start_new_session=True
            )

    @property
    def run(self) -> RunDirectory:
        """The run, once it has begun."""
        return RunDirectory(self.home / "runs" / "r-1")

    @property
    def output(self) -> str:
        """What the command has printed."""
        return (self.home / "out").read_text(errors="replace")

    def events(self, kind: str) -> list[dict[str, Any]]:
        """The run's events of that kind, so far."""
        try:
            lines = self.run.journal.read_text().split("\n")[:-1]
        except FileNotFoundError:
            return []
        return [event for event in map(json.loads, lines) if event["event"] == kind]

    def wait_for(self, kind: str, deadline: float = 60, count: int = 1) -> list[dict[str, Any]]:
        """Wait until there are so many of them."""
        wait_until(lambda: len(self.events(kind)) >= count, deadline, lambda: f"{kind}: {self.output[-3000:]}")
        return self.events(kind)

    def wait_followed(self) -> None:
        """Wait until the command shows what the run prints: from then on, a signal to it ends the run."""
        wait_until(lambda: "run r-1: " in self.output, 20, lambda: self.output)

    def wait(self, deadline: float) -> int:
        """Wait for the command's end; its exit code."""
        try:
            return self.process.wait(deadline)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"not over within {deadline:g} s: {self.output[-4000:]}") from None

    def end(self) -> None:
        """End the command, where the test did not."""
        for process in (self.process, *(one.process for one in self.others)):
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait(20)

    @property
    def job(self) -> str:
        """Slurm's id of its job."""
        found = re.search(r"is job (\d+) of Slurm", self.output)
        assert found is not None, self.output
        return found[1]


Start = Callable[..., SlurmUp]
