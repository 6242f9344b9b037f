"""This machine's GPUs and their use, as reported by nvidia-smi."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Mapping

TOOL = "nvidia-smi"
USE = "index,utilization.gpu,memory.used"
ANSWER_WITHIN = 4.0  # seconds; the time limit for a sample
MEBIBYTE = 1 << 20
MOST_FAILURES = 3  # the number of consecutive failures after which nvidia-smi is not run again


class NoGpus(Exception):
    """nvidia-smi gave no answer; the message is a clause with the reason."""


def ask(fields: str, within: float, env: Mapping[str, str] = os.environ) -> str:
    """Return what nvidia-smi prints for these fields, one line per GPU. `within` is in seconds. Raises NoGpus."""
    # Only in absolute directories: a tool in the working directory may be anybody's.
    places = [place for place in env.get("PATH", os.defpath).split(os.pathsep) if os.path.isabs(place)]
    tool = shutil.which(TOOL, path=os.pathsep.join(places)) if places else None
    if tool is None:  # most machines lack the tool
        raise NoGpus(f"{TOOL}, which lists GPUs, was not found")
    command = [tool, f"--query-gpu={fields}", "--format=csv,noheader,nounits"]
    try:
        done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, timeout=within, env=dict(env))
    except OSError as error:
        raise NoGpus(f"{TOOL} can't be run: {error.strerror}") from None
    except subprocess.TimeoutExpired:
        raise NoGpus(f"{TOOL} did not answer within {within:g} s") from None
    output = done.stdout.decode(errors="replace").strip()
    if done.returncode != 0:
        said = (output or done.stderr.decode(errors="replace").strip()).partition("\n")[0].rstrip(".")
        raise NoGpus(f"{TOOL} ends with code {done.returncode}" + (f" ({said})" if said else ""))
    return output


class Gpus:
    """Samples the use of GPUs; reports no GPUs if nvidia-smi is missing or has failed several times in a row."""

    def __init__(self) -> None:
        self._failures = 0 if shutil.which(TOOL) else MOST_FAILURES

    def sample(self) -> dict[str, tuple[float, int]]:
        """Return each GPU's utilization in percent and its used memory in bytes, by the GPU's index."""
        if self._failures >= MOST_FAILURES:
            return {}
        try:
            answer = ask(USE, ANSWER_WITHIN)
        except NoGpus:
            self._failures += 1
            return {}
        self._failures = 0
        return parsed(answer)


def parsed(answer: str) -> dict[str, tuple[float, int]]:
    """Parse lines such as `0, 35, 1024`; skip others, such as lines with `[N/A]` in place of a number."""
    found = {}
    for line in answer.splitlines():
        fields = [field.strip() for field in line.split(",")]
        if len(fields) == 3 and all(field.isascii() and field.isdecimal() and len(field) < 10 for field in fields):
            number, used, memory = map(int, fields)
            found[str(number)] = float(used), memory * MEBIBYTE
    return found
