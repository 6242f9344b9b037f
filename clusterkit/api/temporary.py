"""A temporary directory that ends with the process that made it, not with a fork of that process."""

from __future__ import annotations

import os
import shutil
import tempfile
import weakref
from pathlib import Path


class Temporary:
    """A temporary directory; `remove` removes it, as does the end of this process.

    Why not `tempfile.TemporaryDirectory`: at its exit a fork would remove the files that its parent's tasks read.
    """

    def __init__(self) -> None:
        self.path = Path(tempfile.mkdtemp(prefix="clusterkit-"))
        self.remove = weakref.finalize(self, _remove, self.path, os.getpid())


def _remove(directory: Path, owner: int) -> None:
    if os.getpid() == owner:
        shutil.rmtree(directory, ignore_errors=True)
