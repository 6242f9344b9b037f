"""Gives a task the variables that another run recorded after a step, so that the two runs continue from equal values.

Two runs that are equal but for rounding drift apart, and some programs amplify rounding errors until they can't be told
from mistakes. If one of the runs takes over the other's variables after each recorded step, only the steps between
two records are compared, each time from equal values.
"""

from __future__ import annotations

import json
import os
import sys
from typing import Any

WORD = "follow="  # begins the word in CLUSTERKIT_RECORD_STEPS: `follow=RUN/worker-0.1` names the record to follow
TAKEN = ("weight", "optimizer", "batch-norm", "other")


def followed_of(text: str, directory: str) -> FollowedRecord | None:
    """Return the record to follow, given the words in `text` and this run's directory of records; None without one."""
    for word in text.split(","):
        run, slash, name = word.removeprefix(WORD).partition("/")
        if word.startswith(WORD) and slash:
            records = os.path.join(os.path.dirname(os.path.dirname(directory)), run, os.path.basename(directory))
            return FollowedRecord(os.path.join(records, name))
    return None


class FollowedRecord:
    """The record of another run's task. `path` is that of the record's files without their ends."""

    def __init__(self, path: str) -> None:
        self.states: dict[int, dict[str, Any]] = {}  # maps a step to the line that describes the variables after it
        self.directory = os.path.dirname(path)
        with open(f"{path}.jsonl", encoding="utf-8") as file:
            for line in map(json.loads, file):
                if line["kind"] == "state" and line["moment"] == "step":
                    self.states[line["step"]] = line

    def values(self, step: int) -> dict[str, Any]:
        """Return the values of the variables after a step, by name; empty if that step was not recorded."""
        line = self.states.get(step)
        if line is None:
            return {}
        path = os.path.join(self.directory, os.path.basename(line["file"]))
        with sys.modules["numpy"].load(path, allow_pickle=False) as file:
            return {
                about["name"]: file[str(number)]
                for number, about in enumerate(line["variables"])
                if about["kind"] in TAKEN and file[str(number)].dtype.kind == "f"
            }
