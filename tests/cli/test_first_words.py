"""The commands that people type first, in their order, and what each says first: a table of one sitting.

They are typed one after the other in a directory with `train.py`, `fails.py`, a job file and a notebook.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.support import Command

pytestmark = [pytest.mark.process, pytest.mark.slow]

USAGE = re.compile(r"Usage: |Try '|\s*$")
RUN_ID = re.compile(r"\d{8}-\d{6}-[0-9a-f]{4}")

# What is typed, the exit code, and the first line of the answer; of a usage error, the line that says what is wrong.
# `…` stands for what is left out, and a line may go on after what stands here.
FRESH = """
                                | 2 | Run a real multi-process TensorFlow cluster on this machine.
help                            | 0 | Run a real multi-process TensorFlow cluster on this machine.
--help                          | 0 | Run a real multi-process TensorFlow cluster on this machine.
--version                       | 0 | 0.
ps                              | 2 | clusterkit: No run is live. Start one: clusterkit up PROGRAM
ls                              | 0 | RUN   STATE
logs                            | 2 | clusterkit: There is no run in HOME/runs. Start one: clusterkit up PROGRAM
explain                         | 2 | clusterkit: No run in HOME/runs has succeeded or failed.
stop                            | 2 | clusterkit: `stop` is called `down` here: clusterkit down
prune                           | 2 | Error: Select runs with --older-than 7d, --keep 10, or both.
clean                           | 2 | Error: No such command 'clean'.
up trian.py                     | 2 | clusterkit: There is no program trian.py. … Did you mean train.py?
up train                        | 2 | clusterkit: There is no program train. … Did you mean train.py?
up train.ipynb                  | 2 | clusterkit: train.ipynb is a notebook. … jupyter nbconvert
up .                            | 2 | clusterkit: . is a directory.
up -n 2 train.py                | 2 | Error: No such option '-n'. It is called --workers here.
up -np 2 train.py               | 2 | Error: No such option '-np'. It is called --workers here.
up --worker 2 train.py          | 2 | Error: No such option '--worker'. It is called --workers here.
up --nproc_per_node=2 train.py  | 2 | Error: No such option '--nproc_per_node'. It is called --workers here.
up --workers two train.py       | 2 | clusterkit: --workers: 'two' is not a valid integer.
up --workers 0 train.py         | 2 | clusterkit: The job has no task that trains. Add --workers 1.
up --ps 1 train.py              | 2 | clusterkit: There are parameter servers but no workers to train. Add --workers 2.
up --gpus 1 train.py            | 2 | Error: No such option '--gpus'. It is called --gpus-per-task here.
up --epochs 3 train.py          | 2 | Error: No such option '--epochs'. Leave it to the program: what comes
up --background train.py        | 2 | Error: No such option '--background'. It is called --detach here.
up --dry-run train.py           | 2 | Error: No such option '--dry-run'. Leave it out: `clusterkit config --tasks`
up --host a train.py            | 2 | clusterkit: --host is for SSH. Add --engine ssh.
check train.py                  | 0 | No findings.
config train.py                 | 0 | # single process; the leader is worker:0
init .                          | 2 | clusterkit: job.toml, train.py already exist.
train.py                        | 0 | clusterkit: A program is run with `up`: clusterkit up train.py
run train.py                    | 0 | clusterkit: `run` is called `up` here: clusterkit up train.py
up                              | 0 | clusterkit: No program is given, so job.toml is read: clusterkit up -f job.toml
up job.toml                     | 0 | clusterkit: job.toml is a job file: clusterkit up -f job.toml
up python train.py              | 0 | clusterkit │
up train.py --workers 2         | 0 | clusterkit │ --workers comes after train.py, which … Write options of `up` before
up --workers 2 train.py         | 0 | clusterkit │ run RUN: train.py as 2 workers … HOME/runs/RUN/tasks
status                          | 2 | clusterkit: `status` is called `ps` here: clusterkit ps
ps                              | 2 | clusterkit: No run is live. The newest, RUN, is over: see `clusterkit show`.
show                            | 0 | ✔ run RUN succeeded after
list                            | 0 | clusterkit: `list` is called `ls` here: clusterkit ls
logs                            | 0 | worker:0 │ trained
logs worker1                    | 2 | clusterkit: There is no run 'worker1' … Did you mean worker:1?
logs worker:7                   | 2 | clusterkit: The run RUN has no task worker:7.
kill worker1                    | 2 | Error: No task is named. A task is … Did you mean worker:1?
up fails.py                     | 1 | clusterkit │ run RUN: fails.py as 1 worker (single process).
explain                         | 0 | The run RUN failed: worker:0 exited with code 1 (attempt 2).
report                          | 0 | Wrote report.html
""".strip("\n")
FILES = {
    "train.py": "print('trained')\n",
    "fails.py": "raise KeyError('label')\n",
    "train.ipynb": "{}",
    "job.toml": 'program = "train.py"\nworkers = 2\n',
}
TABLE = [tuple(cell.strip() for cell in row.split("|", 2)) for row in FRESH.splitlines()]


def test_what_is_typed_first(home: Path, tmp_path: Path) -> None:
    """Each answer does what is meant, or names what to type instead; none is a traceback."""
    assert len(TABLE) >= 40
    (place := tmp_path / "place").mkdir()
    for name, text in FILES.items():
        (place / name).write_text(text)
    said = [answer(home, place, typed) for typed, _, _ in TABLE]
    pairs = [(row, found) for row, found in zip(TABLE, said, strict=True) if not is_as_told(row, found)]
    assert pairs == []


def is_as_told(row: tuple[str, ...], found: tuple[str, str]) -> bool:
    """Whether the exit code is that of the row, and the line begins as it does."""
    pattern = ".*".join(map(re.escape, row[2].split("…")))
    return found[0] == row[1] and re.match(pattern, found[1]) is not None


def answer(home: Path, place: Path, typed: str) -> tuple[str, str]:
    """The exit code and the first line that says something, with words for what differs each time."""
    command = Command(home, tuple(typed.split()), cwd=place)
    code = command.wait(60)
    assert "\nTraceback" not in command.output
    said = next((line.strip() for line in command.output.splitlines() if not USAGE.match(line)), "")
    for what, word in ((str(place), "PLACE"), (str(home), "HOME")):
        said = said.replace(what, word)
    return str(code), RUN_ID.sub("RUN", said)
