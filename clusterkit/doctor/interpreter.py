"""Examines an interpreter and its packages by running census.py with it; tasks may use another one than clusterkit."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Mapping
from pathlib import Path

from clusterkit.doctor.python_rules import Interpreter, Unmet

CENSUS = str(Path(__file__).with_name("census.py"))
WITHIN = 60.0  # seconds; it takes some tenths of one


def ask_interpreter(python: str, env: Mapping[str, str], cwd: str | None) -> Interpreter:
    """Run the census with the interpreter, in the tasks' environment and directory."""
    try:
        ran = subprocess.run(
            [python, CENSUS], stdin=subprocess.DEVNULL, capture_output=True, timeout=WITHIN, env=env, cwd=cwd
        )
    except OSError as error:
        return Interpreter(python, error.strerror or str(error))
    except subprocess.TimeoutExpired:
        return Interpreter(python, f"it did not answer within {WITHIN:g} s")
    try:
        # The last line, since sitecustomize and the like may print before it.
        answer = json.loads(ran.stdout.splitlines()[-1])
        unmet = tuple(Unmet(**one) for one in answer.pop("unmet"))
        return Interpreter(path=python, tensorflows=tuple(answer.pop("tensorflows")), unmet=unmet, **answer)
    except (IndexError, ValueError, KeyError, TypeError, AttributeError):
        last = ran.stderr.decode(errors="replace").strip().splitlines()[-1:]
        return Interpreter(python, f"it exited with code {ran.returncode}" + "".join(f" ({line})" for line in last))
