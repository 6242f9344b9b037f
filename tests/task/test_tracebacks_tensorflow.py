"""What TensorFlow and Keras print of an error is the same in a task and in a plain run."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from clusterkit.task.entry import ENTRY
from clusterkit.text.lines import last_traceback
from clusterkit.text.noise import NoiseFilter
from tests.support import CHILDREN
from tests.task.test_keras_tensorflow import OLD_KERAS

pytestmark = [
    pytest.mark.tensorflow,
    pytest.mark.timeout(150),
    pytest.mark.skipif(OLD_KERAS, reason="so old a Keras has other frames"),
]
PROGRAM = str(CHILDREN / "raises_in_tensorflow.py")
PATCHES = "sigterm,steps,stages,distribution,breakpoints,tracebacks"


def traceback_of(*command: str, env: dict[str, str], stacks: int | None = None) -> list[str]:
    """What a program prints of the error that ends it, without what no two runs have in common."""
    ended = subprocess.run(
        [sys.executable, *command], stderr=subprocess.PIPE, env=os.environ | env, text=True, check=False, timeout=120,
        pass_fds=() if stacks is None else (stacks,),
    )  # fmt: skip
    noise = NoiseFilter()
    lines = [line for line in ended.stderr.splitlines() if not noise.is_noise(line)]
    assert ended.returncode == 1, ended.stderr[-4000:]
    start = last_traceback(lines)
    assert start is not None, ended.stderr[-4000:]
    return [re.sub(r"__autograph_generated_file\w+|0x[0-9a-f]+|(?<=_)\d+(?=\])", "…", line) for line in lines[start:]]


def test_errors_of_graphs_autograph_and_keras_are_those_of_a_plain_run(tmp_path: Path) -> None:
    """To the character, but for the names of files that AutoGraph makes, and the numbers of functions."""
    plain = traceback_of(PROGRAM, env={})
    with (tmp_path / "stacks.txt").open("wb") as file:
        command = (ENTRY, "0", str(file.fileno()), "script", PROGRAM)
        task = traceback_of(*command, env={"CLUSTERKIT_PATCHES": PATCHES}, stacks=file.fileno())
    assert "".join(plain).count("in user code:") == 1
    assert "".join(plain).count("Detected at node") == 2
    assert task == plain
