"""What is used of the GPUs of this machine, as nvidia-smi tells it."""

from __future__ import annotations

import shutil
import subprocess

TOOL = "nvidia-smi"
QUERY = ("--query-gpu=index,utilization.gpu,memory.used", "--format=csv,noheader,nounits")
ANSWER_WITHIN = 4.0  # seconds
MEBIBYTE = 1 << 20
MOST_FAILURES = 3  # in a row, after which the tool is not asked again


class Gpus:
    """Asks nvidia-smi; without it there are no GPUs."""

    def __init__(self) -> None:
        self._tool = shutil.which(TOOL)
        self._failures = 0

    def sample(self) -> dict[int, tuple[float, int]]:
        """The percent of time in use, and the bytes of memory, of each GPU by its index."""
        if self._tool is None or self._failures >= MOST_FAILURES:
            return {}
        try:
            done = subprocess.run(
                [self._tool, *QUERY],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                timeout=ANSWER_WITHIN,
                check=True,
            )
        except (OSError, subprocess.SubprocessError):
            self._failures += 1
            return {}
        self._failures = 0
        return parsed(done.stdout.decode(errors="replace"))


def parsed(answer: str) -> dict[int, tuple[float, int]]:
    """The lines `0, 35, 1024` of an answer; others, such as `[N/A]` instead of a number, are left out."""
    found = {}
    for line in answer.splitlines():
        fields = [field.strip() for field in line.split(",")]
        if len(fields) == 3 and all(field.isascii() and field.isdecimal() and len(field) < 10 for field in fields):
            number, used, memory = map(int, fields)
            found[number] = float(used), memory * MEBIBYTE
    return found
