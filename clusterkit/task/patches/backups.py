"""Prints a notice, and tells the exam, if two calls of `fit` share the directory of Keras's BackupAndRestore.

While the second one trains, the directory holds its backup. After a restart, the first one resumes from that backup,
and the second one begins with what the first has trained again.
"""

from __future__ import annotations

import os
import sys
from functools import partial
from typing import Any

_epochs: dict[str, int] = {}  # maps each directory to the number of epochs that a completed `fit` has trained with it


def watch(module: Any, load: Any) -> None:
    """Patch BackupAndRestore to print the notice when the second `fit` begins. Used in one task of a job."""
    kind, hook = module.BackupAndRestore, load("task/patches/hook")
    if os.environ.get("CLUSTERKIT_RECORD"):
        hook.after(kind, "on_train_begin", partial(_record, load, "backup"))
    hook.after(kind, "on_train_end", _note_end)
    hook.after(kind, "on_epoch_begin", partial(_look, load))


def _note_end(callback: Any, logs: Any = None) -> None:
    path = os.path.normpath(str(callback.backup_dir))
    _epochs[path] = max(_epochs.get(path, 0), int(callback.params.get("epochs", 0)))


def _look(load: Any, callback: Any, epoch: int, logs: Any = None) -> None:
    # A `fit` whose `initial_epoch` continues the earlier one may use the same directory.
    path = os.path.normpath(str(callback.backup_dir))
    if epoch < _epochs.pop(path, 0):
        print(
            f"clusterkit: two calls of fit share the directory {callback.backup_dir} of BackupAndRestore. If the job "
            f"is restarted during the second one, the first one will resume from the second one's backup, and epochs "
            f"are trained again. Give each call a directory of its own.",
            file=sys.stderr,
            flush=True,
        )
        if os.environ.get("CLUSTERKIT_RECORD"):
            _record(load, "shared-backup", callback)


def _record(load: Any, kind: str, callback: Any, logs: Any = None) -> None:
    """Tell the exam of a `fit` that saves backups, and the step at which it begins."""
    recorder = load("task/patches/recorder/recorder").recorder_of(load)
    recorder.output.write(kind, path=os.path.normpath(str(callback.backup_dir)), step=recorder.step)
