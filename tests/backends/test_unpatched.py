"""Programs of a command that load TensorFlow without the patches are told, and no others."""

from __future__ import annotations

import os
import queue
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from clusterkit.backends.local.unpatched import UnpatchedPrograms
from clusterkit.job.plan import DESCENDANTS
from clusterkit.words.events import Crashed, Impaired
from tests.histories import task

pytestmark = [pytest.mark.process, pytest.mark.timeout(60)]
WORKER = task("worker:0")
# Maps a file with the name of TensorFlow's library, and then starts what its arguments say.
PROGRAM = """\
import mmap, subprocess, sys
with open(sys.argv[1], "rb") as library:
    kept = mmap.mmap(library.fileno(), 0, prot=mmap.PROT_READ)
print("loaded", flush=True)
if sys.argv[2:]:
    subprocess.run(sys.argv[2:])
sys.stdin.read()
"""
Run = Callable[..., subprocess.Popen[bytes]]


@pytest.fixture
def library(tmp_path: Path) -> Path:
    """A file with the name of TensorFlow's library."""
    path = tmp_path / "libtensorflow_framework.so.2"
    path.write_bytes(b"x")
    return path


@pytest.fixture
def run() -> Iterator[Run]:
    """Start a command, wait until its program has loaded the library, and end it afterwards."""
    with ExitStack() as stack:

        def start(*words: str | Path, **env: str) -> subprocess.Popen[bytes]:
            process = subprocess.Popen(
                [str(word) for word in words],
                stdin=subprocess.PIPE, stdout=subprocess.PIPE, env={**os.environ, **env}, start_new_session=True,
            )  # fmt: skip
            stack.callback(process.communicate)  # closes its input, which ends it
            assert process.stdout is not None
            assert process.stdout.readline() == b"loaded\n"
            return process

        yield start


def told(pid: int, reported: Callable[[int], bool], seconds: float = 20.0) -> str | None:
    """What is told of this command within some seconds."""
    posted = queue.Queue[Impaired | Crashed]()
    programs = UnpatchedPrograms(lambda: {WORKER: pid}, reported, posted.put, every=0.02)
    try:
        event = posted.get(timeout=seconds)
    except queue.Empty:
        return None
    finally:
        programs.stop()
    assert isinstance(event, Impaired)
    return event.what


@pytest.mark.parametrize(
    ("path", "said"),
    [
        ("/mine", "its PYTHONPATH does not have clusterkit's directory"),
        (f"{DESCENDANTS}:/mine", "its Python is older than 3.11, or does not read PYTHONPATH"),
    ],
)
def test_a_program_below_a_script_is_told_with_the_reason(run: Run, library: Path, path: str, said: str) -> None:
    """What the script did to PYTHONPATH is seen in the program's environment."""
    script = f'PYTHONPATH={path} "$@"; true'
    shell = run("sh", "-c", script, "sh", sys.executable, "-c", PROGRAM, library)
    text = told(shell.pid, lambda pid: False)
    assert text is not None
    assert "A program of worker:0 (pid " in text
    assert said in text


def test_a_program_that_reports_is_patched_and_what_it_starts_is_not_on_purpose(run: Run, library: Path) -> None:
    """Nor is one told that has not loaded TensorFlow."""
    child = (sys.executable, "-c", PROGRAM.replace('print("loaded", flush=True)', ""), library)
    program = run(sys.executable, "-c", PROGRAM, library, *child)
    assert told(program.pid, lambda pid: pid == program.pid, 0.5) is None
    other = library.with_name("libother.so")
    other.write_bytes(b"x")
    assert told(run(sys.executable, "-c", PROGRAM, other).pid, lambda pid: False, 0.5) is None


def test_a_program_that_reports_after_a_while_is_not_told(run: Run, library: Path) -> None:
    """TensorFlow's library is there some seconds before its import is over."""
    looks = iter(range(1000))
    program = run(sys.executable, "-c", PROGRAM, library)
    assert told(program.pid, lambda pid: next(looks) >= 2, 0.5) is None
