"""The machine of a run: its versions, and the use of its GPUs, which nvidia-smi reports."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

_NAMES = "tensorflow|tensorflow_cpu|tf_nightly|tf_nightly_cpu|keras|tf_keras"
_DISTRIBUTION = re.compile(rf"({_NAMES})-([\w.+!]+)\.dist-info")
_BUILDS = ("tensorflow_cpu", "tf_nightly", "tf_nightly_cpu")  # other distributions of TensorFlow
TOOL = "nvidia-smi"
QUERY = ("--query-gpu=index,utilization.gpu,memory.used", "--format=csv,noheader,nounits")
ANSWER_WITHIN = 4.0  # seconds; the time limit for nvidia-smi
MEBIBYTE = 1 << 20
MOST_FAILURES = 3  # the number of consecutive failures after which nvidia-smi is not run again


def platform_of(python: str | None) -> dict[str, str]:
    """Return names and versions for users. Omit packages if `python`, the tasks' interpreter, is not this one."""
    found = _versions() if python is None or _is_this_one(python) else {}
    system = os.uname()
    cores, memory = len(os.sched_getaffinity(0)), os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    found["system"] = f"{system.sysname} {system.release} {system.machine}"
    found["machine"] = f"{cores} core{'' if cores == 1 else 's'}, {memory / 2**30:.1f} GiB of memory"
    return found


def _is_this_one(python: str) -> bool:
    # Compare paths without resolving links, since several virtual environments link to the same file.
    return Path(shutil.which(python) or python).absolute() == Path(sys.executable).absolute()


def _versions() -> dict[str, str]:
    # Read versions from the names of directories: importing importlib.metadata alone would take longer than this.
    found = {"python": ".".join(map(str, sys.version_info[:3]))}
    for place in filter(None, sys.path):
        with suppress(OSError):
            for name in os.listdir(place):
                if match := _DISTRIBUTION.fullmatch(name):
                    found.setdefault("tensorflow" if match[1] in _BUILDS else match[1], match[2])
    return found


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
