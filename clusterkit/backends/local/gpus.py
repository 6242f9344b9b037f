"""The GPUs of this machine, as nvidia-smi lists them or CUDA_VISIBLE_DEVICES names them."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Mapping
from typing import NamedTuple

from clusterkit.job.devices import GPUS

TOOL = ("nvidia-smi", "--query-gpu=index,uuid", "--format=csv,noheader")
ANSWER_WITHIN = 20.0  # seconds; without nvidia-persistenced the driver first has to wake up the GPUs


class Found(NamedTuple):
    """The GPUs, by the names that CUDA_VISIBLE_DEVICES takes; without any, the reason."""

    names: tuple[str, ...]
    why_none: str | None = None


def gpus_here(env: Mapping[str, str] = os.environ) -> Found:
    """Return the GPUs that this process may use, by UUID, since CUDA may number them differently from the tool."""
    if (named := env.get(GPUS)) is not None:
        names = visible(named)
        return Found(names, None if names else f"{GPUS}={named} hides every GPU from clusterkit")
    tool = TOOL[0]
    if shutil.which(tool, path=env.get("PATH")) is None:  # saves a process on most machines
        return Found((), f"{tool}, which lists GPUs, was not found")
    try:
        asked = subprocess.run(
            TOOL, stdin=subprocess.DEVNULL, capture_output=True, timeout=ANSWER_WITHIN, env=dict(env)
        )
    except OSError as error:
        return Found((), f"{tool} can't be run: {error.strerror}")
    except subprocess.TimeoutExpired:
        return Found((), f"{tool} did not answer within {ANSWER_WITHIN:g} s")
    said = asked.stdout.decode(errors="replace").strip()
    if asked.returncode != 0:
        said = (said or asked.stderr.decode(errors="replace").strip()).partition("\n")[0]
        return Found((), f"{tool} ends with code {asked.returncode}" + (f" ({said.rstrip('.')})" if said else ""))
    rows = [line.split(",") for line in said.splitlines()]
    names = tuple(row[1].strip() for row in rows if len(row) == 2 and row[0].strip().isdecimal())
    return Found(names, None if names else f"{tool} lists no GPU")


def visible(named: str) -> tuple[str, ...]:
    """Return the GPUs that CUDA finds in CUDA_VISIBLE_DEVICES: those before the first invalid one, each once."""
    names = list[str]()
    for name in map(str.strip, named.split(",")):
        if not name or name.startswith("-"):
            break
        names.append(name)
    return tuple(dict.fromkeys(names))
