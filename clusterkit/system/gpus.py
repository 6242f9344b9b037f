"""The use of this machine's GPUs, as reported by nvidia-smi."""

from __future__ import annotations

import shutil
import subprocess

TOOL = "nvidia-smi"
QUERY = ("--query-gpu=index,utilization.gpu,memory.used", "--format=csv,noheader,nounits")
ANSWER_WITHIN = 4.0  # seconds; the time limit for nvidia-smi
MEBIBYTE = 1 << 20
MOST_FAILURES = 3  # the number of consecutive failures after which nvidia-smi is not run again


class Gpus:
    """Runs nvidia-smi; if the tool is missing, no GPUs are reported."""

    def __init__(self) -> None:
        self._tool = shutil.which(TOOL)
        self._failures = 0

    def sample(self) -> dict[int, tuple[float, int]]:
        """Return the percent of time and the bytes of memory in use, by the index of the GPU."""
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
    """Parse lines such as `0, 35, 1024`; skip others, such as lines with `[N/A]` in place of a number."""
    found = {}
    for line in answer.splitlines():
        fields = [field.strip() for field in line.split(",")]
        if len(fields) == 3 and all(field.isascii() and field.isdecimal() and len(field) < 10 for field in fields):
            number, used, memory = map(int, fields)
            found[number] = float(used), memory * MEBIBYTE
    return found
