"""Packages: what an interpreter has installed, asked of that interpreter, since clusterkit may run with another."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from clusterkit.hands import census
from clusterkit.words.doctor import Interpreter, Unmet

CENSUS = str(Path(census.__file__).resolve())
WITHIN = 60.0  # seconds; it takes some tenths of one
ROOTS = ("tensorflow", "tf-", "keras", "tensorboard")
MODULES = ("tensorflow", "keras", "tf_keras", "tensorboard", "sklearn", "clusterkit", "numpy", "google.protobuf")


def ask_interpreter(
    python: str, env: Mapping[str, str], tensorflows: Sequence[str], beside: str | None, cwd: str | None
) -> Interpreter:
    """What the interpreter tells of itself, with the environment and in the directory that tasks have.

    `tensorflows` are distributions that hold TensorFlow; `beside` is the program's directory.
    """
    wanted = {"modules": MODULES, "beside": beside, "roots": ROOTS, "tensorflows": tensorflows}
    try:
        asked = subprocess.run(
            [python, CENSUS, json.dumps(wanted)],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=WITHIN,
            env=env,
            cwd=cwd,
        )
    except OSError as error:
        return Interpreter(python, error.strerror or str(error))
    except subprocess.TimeoutExpired:
        return Interpreter(python, f"it did not answer within {WITHIN:g} s")
    try:
        # The last line: what sitecustomize and the like print comes before it.
        told = json.loads(asked.stdout.splitlines()[-1])
    except (IndexError, ValueError):
        last = asked.stderr.decode(errors="replace").strip().splitlines()[-1:]
        return Interpreter(python, f"it ends with code {asked.returncode}" + "".join(f" ({line})" for line in last))
    return _interpreter(python, told, beside)


def _interpreter(python: str, told: Mapping[str, Any], beside: str | None) -> Interpreter:
    return Interpreter(
        path=python,
        version=tuple(told["version"]),
        implementation=told["implementation"],
        libc=told["libc"],
        arch=told["arch"],
        packages=told["packages"],
        twice={name: tuple(versions) for name, versions in told["twice"].items()},
        modules=told["modules"],
        beside=None if beside is None else os.path.realpath(beside),
        unmet=tuple(Unmet(**one) for one in told["unmet"]),
        checked=told["checked"],
        is_own=python == sys.executable,
    )
