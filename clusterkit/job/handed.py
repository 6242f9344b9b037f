"""What a Python process gives to the `clusterkit up` that it starts, beside a command line that every user can read."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from clusterkit.words.errors import BadJob


class Handed(NamedTuple):
    """Environment variables for the tasks, and problems with the job that were found already."""

    env: Mapping[str, str]
    problems: Sequence[str] = ()


def hand(given: Handed) -> int:
    """A descriptor from which `take` reads it in a child process. Nobody else can open it. Raises OSError."""
    descriptor = os.memfd_create("clusterkit-handed", os.MFD_CLOEXEC)
    with open(descriptor, "wb", closefd=False) as file:
        file.write(json.dumps(given._asdict()).encode())
    os.lseek(descriptor, 0, os.SEEK_SET)
    return descriptor


def take(descriptor: int) -> Handed:
    """Read it, and close the descriptor, so that no task inherits it. Raises BadJob."""
    try:
        with os.fdopen(descriptor, "rb") as file:
            return Handed(**json.load(file))
    except (OSError, OverflowError, ValueError, TypeError):
        raise BadJob([f"--handed {descriptor} is not a descriptor that a Python process hands over."]) from None
