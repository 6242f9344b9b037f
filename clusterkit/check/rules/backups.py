"""A rule about backups of several `fit` calls in one directory."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from clusterkit.check.case import Case, Hit
from clusterkit.check.source import Source, argument

_BACKUPS = ("keras.callbacks.BackupAndRestore", "keras.callbacks.experimental.BackupAndRestore")
_CALLBACKS = 5  # the position of `callbacks` among the arguments of fit


def shared_backup(case: Case) -> Iterator[Hit]:
    """Find a `fit` whose BackupAndRestore directory an earlier `fit` has, too."""
    first: dict[str, int] = {}
    for source, fit in case.fits():
        for place in {*_backup_places(source, fit)}:
            line = source.location(fit).line
            if first.setdefault(place, line) != line:
                what = (
                    f"This fit and that of line {first[place]} have the same backup directory, {place}: after a "
                    "restart during this fit, the earlier one restores this one's backup."
                )
                yield Hit(source.location(fit), what, "Give each fit a backup directory of its own.", place)


def _backup_places(source: Source, fit: ast.Call) -> Iterator[str]:
    """Yield the constant directories of the BackupAndRestore callbacks that are passed to a `fit`.

    Leave out those that keep their backup (`delete_checkpoint`), with which a later `fit` may be meant to continue.
    """
    callbacks = source.value(argument(fit, _CALLBACKS, "callbacks"))
    items = callbacks.elts if isinstance(callbacks, ast.List | ast.Tuple) else [callbacks]
    for call in map(source.value, items):
        if isinstance(call, ast.Call) and source.dotted(call.func) in _BACKUPS:
            texts = source.constant_texts(argument(call, 0, "backup_dir"))
            keeps = any(keyword.arg in ("delete_checkpoint", None) for keyword in call.keywords)
            if texts and not keeps:
                yield texts[0]
