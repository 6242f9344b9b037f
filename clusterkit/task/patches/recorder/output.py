"""Writes the record of a task for `clusterkit exam`: a file of JSON lines, and files with the values of variables.

Every line is written at once, so the record of a killed task is complete up to the kill. If the recorder raises an
exception, the program continues and the record contains a note.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any

PATIENCE, NAP = 20.0, 0.005  # seconds; how long a task that ends waits for its peers, and the pause between looks
MOST_STATES = 40
MOST_ROWS = 200_000


def steps_of(text: str) -> frozenset[int]:
    """Return the steps to record, given a text such as `0,1,50,no-dropout`; ignore words that are not numbers."""
    return frozenset(int(step) for step in text.split(",") if step.strip().isdecimal())


def held_of(text: str, task: str) -> frozenset[int]:
    """Return the steps after which `task` has to pause: `hold=worker-1/7` in `text` means after step 7 of worker-1."""
    words = [word.removeprefix("hold=").partition("/") for word in text.split(",") if word.startswith("hold=")]
    return frozenset(int(step) for name, _, step in words if name == task and step.isdecimal())


def stop_of(text: str) -> int | None:
    """Return the step after which the task has to end: `stop=5` in `text`; None if there is no such word."""
    words = [word.removeprefix("stop=") for word in text.split(",") if word.startswith("stop=")]
    return next((int(word) for word in words if word.isdecimal()), None)


def last_of(text: str) -> int | None:
    """Return the step after which a run of an exam has shown enough: `until=50` in `text`; None if it has no end.

    Unlike after `stop`, which --verify uses, the callbacks that write files are kept: the run may have to save.
    """
    words = [word.removeprefix("until=") for word in text.split(",") if word.startswith("until=")]
    return next((int(word) for word in words if word.isdecimal()), None)


def gang_of(tf_config: str) -> list[str]:
    """Return the names of the records of the tasks that train together, such as `worker-0`; empty for one task."""
    try:
        cluster = json.loads(tf_config)["cluster"]
        return [f"{kind}-{index}" for kind in ("chief", "worker") for index in range(len(cluster.get(kind, ())))]
    except (ValueError, LookupError, TypeError, AttributeError):
        return []


class RecordOutput:
    """Writes the record of this attempt. In child processes, `write` does nothing."""

    def __init__(self, env: Mapping[str, str]) -> None:
        self.pid = os.getpid()
        self.directory = env.get("CLUSTERKIT_RECORD", "")
        task, attempt = env.get("CLUSTERKIT_TASK", "alone"), env.get("CLUSTERKIT_ATTEMPT", "1")
        self.task = task.replace(":", "-")
        self.name = f"{self.task}.{attempt}"
        self.notes: set[str] = set()
        self.states = 0
        self.rows = 0

    @property
    def is_open(self) -> bool:
        """Return whether the task is recorded and this is the process that loaded this file, not a fork of it."""
        return bool(self.directory) and os.getpid() == self.pid

    def write(self, kind: str, **fields: object) -> None:
        """Append a line to the record; keep no descriptor open."""
        if self.is_open:
            with suppress(OSError):  # a full disk, for example, must not stop the training
                os.makedirs(self.directory, mode=0o700, exist_ok=True)
                with open(os.path.join(self.directory, f"{self.name}.jsonl"), "a", encoding="utf-8") as file:
                    file.write(json.dumps({"kind": kind, **fields}, default=str) + "\n")

    def await_peers(self, names: Sequence[str]) -> None:
        """Wait, for a limited time, until all tasks with these names have called this method."""
        with suppress(OSError):
            os.makedirs(self.directory, mode=0o700, exist_ok=True)
            with open(self.mark_of(self.task), "w", encoding="utf-8"):
                pass
        until = time.monotonic() + PATIENCE
        paths = [self.mark_of(name) for name in names]
        while not all(map(os.path.exists, paths)) and time.monotonic() < until:
            time.sleep(NAP)

    def is_first(self, what: str) -> bool:
        """Return whether no attempt of this task has called this method with the same text before."""
        with suppress(OSError):
            os.makedirs(self.directory, mode=0o700, exist_ok=True)
        try:
            os.close(os.open(os.path.join(self.directory, f"{self.task}.{what}"), os.O_CREAT | os.O_EXCL, 0o600))
        except FileExistsError:
            return False
        except OSError:  # as on a full disk
            return True
        return True

    def mark_of(self, task: str) -> str:
        """Return the path of the file with which a task says that it has made the last step."""
        return os.path.join(self.directory, f"{task}.stopped")

    def note(self, text: str) -> None:
        """Add a note to the record about missing data and the reason, unless the record already has this note."""
        if text not in self.notes:
            self.notes.add(text)
            self.write("note", text=text)

    def guarded(self, what: str, call: Callable[[], object]) -> Any:
        """Return the call's result; if the call fails, add a note to the record and return None."""
        try:
            return call()
        except Exception as error:
            self.note(f"{what}: {type(error).__name__}: {error}"[:500])
            return None

    def write_rows(self, step: int, rows: Sequence[str]) -> None:
        if rows:
            self.write("rows", step=step, rows=list(rows))

    def has_room_for_rows(self, count: int) -> bool:
        """Return whether `count` more rows may be recorded. If so, count them as recorded."""
        if self.rows + count > MOST_ROWS:
            self.note(f"Only the first {self.rows} rows are recorded.")
            return False
        self.rows += count
        return True

    def write_state(self, moment: str, step: int, values: Sequence[tuple[Mapping[str, object], Any]]) -> None:
        """Write the variables with their values. Of MOST_STATES states, the last one is reserved for the end."""
        if not self.is_open or (moment != "end" and self.states >= MOST_STATES - 1):
            self.note(f"Only {MOST_STATES} states are recorded: that of step {step} and later ones are left out.")
            return
        self.states += 1
        self.write_values("state", "end" if moment == "end" else str(step), values, moment=moment, step=step)

    def write_values(
        self, kind: str, place: str, values: Sequence[tuple[Mapping[str, object], Any]], **fields: object
    ) -> None:
        """Write variables with their values to a file, and a line that names it. `place` tells the files apart."""
        if not self.is_open:
            return
        file = f"{self.name}.{place}.npz"
        path = os.path.join(self.directory, file)
        os.makedirs(self.directory, mode=0o700, exist_ok=True)
        with open(f"{path}.part", "wb") as part:
            sys.modules["numpy"].savez(part, **{str(place): value for place, (_, value) in enumerate(values)})
        os.replace(f"{path}.part", path)
        variables = [dict(about) for about, _ in values]
        self.write(kind, **fields, file=file, variables=variables)

    def remove_values(self, place: str) -> None:
        """Remove a file that `write_values` has written. Its line is then ignored."""
        with suppress(OSError):
            os.remove(os.path.join(self.directory, f"{self.name}.{place}.npz"))


output = RecordOutput(os.environ)
