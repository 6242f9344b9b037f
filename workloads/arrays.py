"""For JAX's programs: how they end, and checkpoints without TensorFlow, written whole or not at all."""

from __future__ import annotations

import os
import traceback
import zipfile
from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np
import numpy.typing as npt

from clusterkit import training
from clusterkit.training.progress import channel

Arrays = Mapping[str, npt.NDArray[np.generic]]
KEEP = 3


def run(main: Callable[[], None]) -> None:
    """Run a program; if it raises, end its process at once. JAX would wait for the others first, for five minutes."""
    try:
        main()
    except BaseException:
        traceback.print_exc()
        os._exit(1)


def save(step: int, arrays: Arrays) -> None:
    """Write the checkpoint of a step and report it, in the chief only; remove old ones."""
    if not training.is_chief():
        return
    directory = Path(training.checkpoint_dir())
    directory.mkdir(parents=True, exist_ok=True)
    path, part = directory / f"ckpt-{step:08d}.npz", directory / ".ckpt.part"
    with part.open("wb") as file:
        np.savez(file, allow_pickle=False, **arrays)
        file.flush()
        os.fsync(file.fileno())
    part.replace(path)
    channel().send("checkpoint", step=step, path=str(path))
    for old in sorted(directory.glob("ckpt-*.npz"))[:-KEEP]:
        old.unlink()


def newest() -> tuple[int, dict[str, npt.NDArray[np.generic]]]:
    """Return the step and the arrays of the newest checkpoint that can be read; step 0 and none if there is none.

    No task of a gang writes while another one begins, so all of them read the same.
    """
    for path in sorted(Path(training.checkpoint_dir()).glob("ckpt-*.npz"), reverse=True):
        try:
            with np.load(path) as file:
                arrays = {name: file[name] for name in file.files}
        except (OSError, ValueError, EOFError, zipfile.BadZipFile):
            print(f"{path} can't be read and is skipped", flush=True)
            continue
        step = int(path.stem.partition("-")[2])
        channel().send("resumed", step=step, path=str(path))
        return step, arrays
    channel().send("resumed", step=0, path=None)
    return 0, {}
