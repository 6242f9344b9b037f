"""The battery's end of the pipe to the driver."""

from __future__ import annotations

import json
import select
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tests.support import ROOT
from tests.warm.parity.cases import Case

DEADLINE = 40.0  # seconds that a program may take, started once
Outcome = dict[str, Any]
Env = Mapping[str, str]


class Driver:
    """The process that starts the programs."""

    def __init__(self, directory: Path) -> None:
        words = [sys.executable, "-m", "tests.warm.parity", str(directory)]
        pipe = subprocess.PIPE
        self._process = subprocess.Popen(words, stdin=pipe, stdout=pipe, cwd=ROOT, start_new_session=True)

    @property
    def pid(self) -> int:
        """The parent of every program."""
        return self._process.pid

    def send(self, request: dict[str, Any]) -> None:
        """Request the start of a program."""
        assert self._process.stdin is not None
        assert self._process.poll() is None, "the driver is gone"
        self._process.stdin.write(json.dumps(request).encode() + b"\n")
        self._process.stdin.flush()

    def receive(self, deadline: float) -> dict[str, Outcome]:
        """Return the results of a program, by way of starting it."""
        assert self._process.stdout is not None
        assert select.select([self._process.stdout], [], [], deadline)[0], "the driver does not answer"
        line = self._process.stdout.readline()
        assert line, "the driver is gone"
        told: dict[str, Outcome] = json.loads(line)
        return told

    def stop(self) -> int:
        """End the driver and its servers; return its exit code."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        try:
            return self._process.wait(30)
        finally:
            self.kill()

    def kill(self) -> None:
        """Kill the driver."""
        self._process.kill()
        self._process.wait()
        for stream in (self._process.stdin, self._process.stdout):
            assert stream is not None
            stream.close()


def request(case: Case, here: str, env: Env, server_env: Env, ways: list[str]) -> dict[str, Any]:
    """A request to the driver."""
    return {
        "how": case.how, "target": case.target, "args": case.args, "cwd": here, "ways": ways,
        "env": env, "server_env": server_env, "tensorflow": case.tensorflow,
        "modules": case.modules, "path": here, "deaf": case.deaf, "dump": case.dump, "deadline": DEADLINE,
    }  # fmt: skip
