"""Patches Keras's callbacks to write different files in each worker. Otherwise, all workers write the same files.

Each worker except the chief writes into a directory `workertemp_N` next to the callback's files, and removes the
directory at the end of `fit`. Keras 2 does this too, except for CSVLogger. Every worker has to write, since saving a
model may be a collective operation. All workers restore the chief's backup.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from typing import Any

PLACES = {"ModelCheckpoint": "filepath", "CSVLogger": "filename", "TensorBoard": "log_dir"}
BACKUP = "BackupAndRestore"
BACKUP_PATHS = (
    *("backup_dir", "_weights_path", "_training_metadata_path"),
    *("_prev_weights_path", "_prev_training_metadata_path"),
)


def write_separately(module: Any, load: Any) -> None:
    """Patch the module's callback to write into this worker's own directory. Not used in the chief."""
    for name, attribute in PLACES.items():
        if kind := vars(module).get(name):
            _move(kind, attribute, load)
    if kind := vars(module).get(BACKUP):
        _back_up_separately(kind, load)


def log_separately(module: Any, load: Any) -> None:
    """Patch Keras 2's CSVLogger to write into `workertemp_N_log`, since other callbacks remove `workertemp_N`."""
    _move(module.CSVLogger, PLACES["CSVLogger"], load, "_log")


def back_up_atomically(module: Any, load: Any) -> None:
    """Patch the chief's callback so that a backup is complete or absent, even if the chief is killed during a save."""
    kind = getattr(module, BACKUP)
    save = kind._save_model

    def save_atomically(self: Any) -> None:
        if self.double_checkpoint:  # in this case, Keras itself keeps the old backup until the new one is complete
            save(self)
            return
        load("task/patches/told").effect("backup-whole", load)
        part = f"{os.path.normpath(self.backup_dir)}.part"
        with_paths(self, part, save)
        _files().makedirs(self.backup_dir)
        for path in (self._weights_path, self._training_metadata_path):
            _files().rename(os.path.join(part, os.path.basename(path)), path, overwrite=True)
        _files().rmtree(part)

    load("task/patches/hook").replace(kind, "_save_model", save_atomically)


def own_directory() -> str:
    """Return the name of this worker's directory, which is the name that Keras 2 uses."""
    return f"workertemp_{json.loads(os.environ['TF_CONFIG'])['task']['index']}"


def separate_path(path: str, suffix: str = "") -> tuple[str, str]:
    """Return this worker's directory, and the path in this directory that replaces `path`.

    The directory is next to the first component of `path` that contains a placeholder such as `{epoch}`. Without a
    placeholder, the directory is next to the file.
    """
    fixed, brace, rest = path.rstrip("/").partition("{")
    parent, name = os.path.split(fixed)
    directory = os.path.join(parent, own_directory() + suffix)
    return directory, os.path.join(directory, name + brace + rest)


def with_paths(callback: Any, directory: str, call: Callable[[Any], object]) -> None:
    """Call a method of a backup callback. During the call, the callback's paths point into `directory`."""
    before = {name: getattr(callback, name) for name in BACKUP_PATHS if hasattr(callback, name)}
    for name, path in before.items():
        setattr(callback, name, directory if name == "backup_dir" else os.path.join(directory, os.path.basename(path)))
    try:
        call(callback)
    finally:
        for name, path in before.items():
            setattr(callback, name, path)


def _move(kind: Any, attribute: str, load: Any, suffix: str = "") -> None:
    def move(self: Any, *args: Any, **kwargs: Any) -> None:
        self._own_directory, path = separate_path(str(getattr(self, attribute)), suffix)
        setattr(self, attribute, path)
        _files().makedirs(self._own_directory)
        load("task/patches/told").effect("callbacks-apart", load)

    hook = load("task/patches/hook")
    hook.after(kind, "__init__", move)
    hook.after(kind, "on_train_end", lambda self, logs=None: _remove(self._own_directory))


def _back_up_separately(kind: Any, load: Any) -> None:
    # Use a directory next to the chief's backup, not in it: the chief may remove its backup while a worker still saves.
    hook = load("task/patches/hook")
    save = kind._save_model
    hook.replace(kind, "_save_model", lambda self: with_paths(self, separate_path(self.backup_dir)[1], save))
    hook.before(kind, "_save_model", lambda self: load("task/patches/told").effect("callbacks-apart", load))
    hook.replace(kind, "on_train_end", lambda self, logs=None: _remove(separate_path(self.backup_dir)[0]))


def _files() -> Any:
    """Return TensorFlow's file functions, which support remote files too."""
    return sys.modules["tensorflow"].io.gfile


def _remove(directory: str) -> None:
    try:
        _files().rmtree(directory)
    except Exception:  # another callback has already removed the directory
        return
