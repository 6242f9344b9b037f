"""Reports repairs that have taken effect: code that has changed something for this program, not code that could.

This file imports only standard modules that entry.py has already imported.
"""

from __future__ import annotations

import sys
from typing import Any

HOW = " (clusterkit show --patches)"
_effects: set[str] = set()  # the repairs that this process has reported


def effect(name: str, load: Any) -> None:
    """Report, only the first time in this process, that a repair has taken effect; print a line if it needs one.

    Called wherever a repair changes something, also in a destructor. Never raises an exception.
    """
    if name in _effects:
        return
    _effects.add(name)
    try:
        steps = load("task/patches/steps").steps
        steps.write("repair", f'"repair":"{name}"')
        line = load("words/repairs").REPAIRS[name].line
        # Outside a run, where `patches.apply` is used, there is no option and no record.
        how = "" if steps.path is None else HOW
        if line:
            print(f"clusterkit: patched {line}{how}.", file=sys.stderr, flush=True)
    except Exception:  # such as a closed stderr: a report that fails must not stop the training
        return


# AutoGraph does not convert this function, which is also called while a graph is built.
effect.autograph_info__ = None  # type: ignore[attr-defined]
