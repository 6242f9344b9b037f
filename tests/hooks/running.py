"""A hook runner without its run, and programs that misbehave as commands of hooks."""

from __future__ import annotations

import json
import shlex
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

from clusterkit.hooks.runner import HookRunner
from clusterkit.ledger.ledger import Ledger
from clusterkit.store.directory import RunDirectory
from clusterkit.system.inbox import Inbox
from clusterkit.words import events as ev
from clusterkit.words.job import Hooks
from clusterkit.words.outcome import Exit, Failure, RunResult, RunState
from tests.histories import job, task

SCRIPTS = {
    "exits at once": "import sys; sys.exit(3)",
    "ignores SIGTERM": "import signal, time; signal.signal(15, signal.SIG_IGN); time.sleep(60)",
    "writes 100 MB": "import os; [os.write(1, b'x' * 1_000_000) for _ in range(100)]",
    "writes random bytes": "import os; os.write(1, os.urandom(4096)); os.write(2, os.urandom(4096))",
    "reads nothing": "import os; os.close(0)",
    "closes its output": "import os; os.close(1); os.close(2)",
    "stops itself": "import os; os.kill(os.getpid(), 19)",
    "kills itself": "import os; os.kill(os.getpid(), 9)",
    "writes for ever": "import os\nwhile True: os.write(1, b'y' * 65536)",
    "leaves a daemon": (
        "import os, time\nif os.fork() == 0:\n    os.setsid()\n"
        "    if os.fork() == 0:\n        time.sleep(60)\n    os._exit(0)"
    ),
    "leaves a daemon that hides": (
        "import os, sys\nif os.fork() == 0:\n    os.setsid()\n    os.execve('/bin/sleep', ['sleep', '60'], {})"
    ),
    "leaves a child with its output": "import os, time\nif os.fork() == 0: time.sleep(60)",
}
PROBLEMS = {
    "exits at once": "exited with code 3",
    "ignores SIGTERM": "took longer than 1 s and was ended",
    "stops itself": "took longer than 1 s and was ended",
    "kills itself": "was killed by SIGKILL",
    "writes for ever": "took longer than 1 s and was ended",
}


class Running:
    """A runner without its run: events are sent to it, and what it says is kept."""

    def __init__(self, directory: Path, hooks: Hooks, bound: float) -> None:
        self.run = RunDirectory(directory)
        directory.mkdir()
        self.inbox, self.said = Inbox(), list[str]()
        env = {"CLUSTERKIT_RUN_ID": directory.name, "CLUSTERKIT_RUN_DIR": str(directory), "CLUSTERKIT_TASK": "hooks"}
        spec = replace(job(workers=1), hooks=hooks)
        self.hooks = HookRunner(Ledger(spec), self.run, self.inbox, self.said.append, env, bound)
        self.failures = 0

    def fails(self, error: str = "") -> None:
        """A failure that is told."""
        self.failures += 1
        failure = Failure(task("worker:0"), self.failures, Exit(code=1), 0.0, (), error or None)
        self.hooks.observe(ev.Failed(failure), 1.0)
        self.hooks.observe(ev.RestartPlanned((task("worker:0"),), failure, (), 0.0, 1, 3), 1.0)

    def ends(self) -> None:
        """The end of the run."""
        self.hooks.observe(ev.Finished(RunResult(RunState.SUCCEEDED, 0, "worker:0 exited with code 0")), 2.0)

    def settle(self, within: float = 20) -> None:
        """Wait until nothing runs and nothing waits, as the loop does."""
        assert self.inbox.work_until(lambda: self.hooks._is_idle(), within)

    def told(self) -> list[str]:
        """The warnings so far."""
        found = []
        while (item := self.inbox.get(0.0)) is not None:
            if isinstance(item, ev.Impaired):
                found.append(item.what)
            elif callable(item):
                item()
        return found + self.said

    @property
    def log(self) -> bytes:
        """What commands wrote."""
        return self.run.hooks_log.read_bytes()


def python(code: str) -> str:
    """A command that runs a small program."""
    return shlex.join([sys.executable, "-S", "-c", code])


def lines(file: Path) -> list[dict[str, Any]]:
    """JSON lines."""
    return [json.loads(line) for line in file.read_text().splitlines()]
