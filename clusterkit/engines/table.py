"""Finds an engine by its name in engines/options.py, or by a run of its."""

from __future__ import annotations

from importlib import import_module
from typing import get_args

from clusterkit.engines.base import Engine
from clusterkit.engines.options import EngineName
from clusterkit.store.directory import RunDirectory
from clusterkit.text.printable import printable
from clusterkit.words.errors import ClusterkitError


def engine_named(name: str) -> Engine:
    """Import an engine, and no other one. Raises ClusterkitError if the name is unknown."""
    if name not in get_args(EngineName):
        raise ClusterkitError(
            f"Unknown engine {printable(name)!r:.60}. The engines are {', '.join(get_args(EngineName))}."
        )
    engine: Engine = import_module(f"clusterkit.engines.{name}.engine").ENGINE
    return engine


def continues(run: RunDirectory) -> bool:
    """Wait until a run that its engine may continue has a supervisor again; return False if it will get none."""
    info = run.info()
    return info is not None and bool(info.allocation) and engine_named(info.job.hosts.engine).continues(run)


def may_continue(run: RunDirectory) -> bool:
    """Whether a run without a supervisor has an allocation that may get one, and was not ended for good."""
    info, result = run.info(), run.result()
    return info is not None and bool(info.allocation) and (result is None or not result.final)
