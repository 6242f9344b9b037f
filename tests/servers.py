"""What the tests of warm servers share: servers with a stand-in for TensorFlow, and runs that come from them."""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.support import CHILDREN, ROOT, Command, Up, wait_until

STUB = CHILDREN / "stub"
WORLD = CHILDREN / "world.py"
Start = Callable[..., Up]
Commands = Callable[..., Command]


class Warm:
    """A warm server, and what comes from it."""

    def __init__(self, home: Path, up: Start, commands: Commands, stub: bool = True) -> None:
        self.home, self._up, self._commands = home, up, commands
        self.library = home.parent / "library"
        if stub:
            shutil.copytree(STUB, self.library)
        self.env = {"PYTHONPATH": f"{self.library}{os.pathsep}{ROOT}"}

    def __call__(self, *args: str, code: int = 0, **env: str) -> str:
        """What a `clusterkit warm` command prints."""
        command = self._commands("warm", *args, env={**self.env, **env})
        assert command.wait(30) == code, command.output
        return command.output

    def start(self, *args: str) -> int:
        """Start the server; its pid."""
        return int(self("start", *args).partition("(pid ")[2].partition(";")[0])

    def up(self, *args: str | Path, **options: Any) -> Up:
        """A run with the server's environment."""
        return self._up(*args, env={**self.env, **options.pop("env", {})}, **options)


def world(run: Up, task: str = "worker:0") -> dict[str, Any]:
    """What a task tells of its world in a line of JSON."""

    def found() -> dict[str, Any] | None:
        path = run.run / "tasks" / task / "attempt-1.log"
        text = path.read_text() if path.exists() else ""
        return json.loads(text) if text.endswith("}\n") else None

    told: dict[str, Any] = wait_until(found, 20, lambda: f"{task} tells; {run.output}")
    return told


def parent(pid: int) -> int:
    """Of a process."""
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])


@contextmanager
def short_home() -> Iterator[Path]:
    """A state directory whose path is short enough for sockets in it."""
    with tempfile.TemporaryDirectory(prefix="ck-") as name:
        yield Path(name, "home")
