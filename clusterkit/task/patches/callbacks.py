"""Patches Keras's callbacks to write different files in each worker. Otherwise, all workers write the same files.

Each worker except the chief writes into a directory `workertemp_N` next to the callback's files, and removes the
directory at the end of `fit`. Keras 2 does this too, except for CSVLogger. Every worker has to write, since saving a
model may be a collective operation. All workers restore the chief's backup.

The chief's ModelCheckpoint and BackupAndRestore files are complete or absent at any time. The workers meet where the
chief writes or removes them: see announcements.py.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from typing import Any

CHECKPOINT = "ModelCheckpoint"
PLACES = {CHECKPOINT: "filepath", "CSVLogger": "filename", "TensorBoard": "log_dir"}
BACKUP = "BackupAndRestore"
SAVES = "_save_model"
ENDS = "on_train_end"
WHOLE = (".keras", ".h5")  # formats of a single file, which a rename replaces
BACKUP_PATHS = (
    *("backup_dir", "_weights_path", "_training_metadata_path"),
    *("_prev_weights_path", "_prev_training_metadata_path"),
)


def write_separately(module: Any, load: Any) -> None:
    """Patch the module's callback to write into this worker's own directory. Not used in the chief."""
    meet = load("task/patches/announcements").meet
    if kind := vars(module).get(CHECKPOINT):
        meet(kind, PLACES[CHECKPOINT], (SAVES,), False, load)  # first, since it needs the path before `_move`
    for name, attribute in PLACES.items():
        if kind := vars(module).get(name):
            _move(kind, attribute, load)
    if kind := vars(module).get(BACKUP):
        _back_up_separately(kind, load)
        meet(kind, "backup_dir", (SAVES, ENDS), False, load)


def separate_keras_2(module: Any, load: Any) -> None:
    """Patch Keras 2's callbacks: CSVLogger writes into `workertemp_N_log`, and ModelCheckpoint waits for the chief.

    ModelCheckpoint itself writes into `workertemp_N`, and removes it.
    """
    _move(module.CSVLogger, PLACES["CSVLogger"], load, "_log")
    load("task/patches/announcements").meet(module.ModelCheckpoint, PLACES[CHECKPOINT], (SAVES,), False, load)


def save_atomically(module: Any, load: Any) -> None:
    """Patch the chief's ModelCheckpoint so that its file is complete or absent. The workers meet at each save."""
    kind = getattr(module, CHECKPOINT)
    save = kind._save_model

    def save_whole(self: Any, *args: Any, **kwargs: Any) -> None:
        load("task/patches/told").effect("backup-whole", load)
        with_whole_files(
            self.model, "save_weights" if self.save_weights_only else "save", lambda: save(self, *args, **kwargs)
        )

    load("task/patches/hook").replace(kind, SAVES, save_whole)
    load("task/patches/announcements").meet(kind, PLACES[CHECKPOINT], (SAVES,), True, load)


def back_up_atomically(module: Any, load: Any) -> None:
    """Patch the chief's callback so that a backup is complete or absent, even if the chief is killed during a save.

    The workers meet at each save, and before the backup is removed at the end.
    """
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

    load("task/patches/hook").replace(kind, SAVES, save_atomically)
    load("task/patches/announcements").meet(kind, "backup_dir", (SAVES, ENDS), True, load)


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


def with_whole_files(model: Any, method: str, call: Callable[[], object]) -> None:
    """Call a function. During the call, the model's method saves into a new file that then replaces the old one.

    Keras's own methods alone: a program's own one may write other files beside the file.
    """
    if getattr(type(model), method).__module__.partition(".")[0] not in ("keras", "tf_keras") or method in vars(model):
        call()
        return
    vars(model)[method] = _whole(model, method)  # not by setattr(), of which Keras keeps a record
    try:
        call()
    finally:
        vars(model).pop(method, None)


def _whole(model: Any, name: str) -> Callable[..., None]:
    """Return a function that saves the model with the named method, into a new file that then replaces the old one.

    A link stays a link. Saves of several files are left alone.
    """
    save = getattr(model, name)

    def save_whole(filepath: Any, *args: Any, **kwargs: Any) -> None:
        vars(model).pop(name, None)  # since Keras looks through the model's attributes for what to save
        path = os.path.realpath(filepath) if os.path.islink(filepath) else str(filepath)
        part = f"{path}.part"
        others = args or kwargs.keys() - {"options"} != {"overwrite"} or not kwargs["overwrite"]
        if others or not path.endswith(WHOLE) or _files().isdir(path):
            save(filepath, *args, **kwargs)
            return
        try:
            _files().makedirs(part)
        except Exception:  # the program may write the file, but may not make a directory beside it
            save(filepath, **kwargs)
            return
        new = os.path.join(part, os.path.basename(path))
        save(new, **kwargs)
        _files().rename(new, path, overwrite=True)
        _files().rmtree(part)

    return save_whole


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
