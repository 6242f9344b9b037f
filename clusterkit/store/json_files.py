"""Files that hold one JSON object: written atomically, and read even if damaged."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from clusterkit.system.files import write_whole


def write_json(path: Path, value: Any) -> None:
    """Write a file atomically. Raises OSError."""
    write_whole(path, (_lines(value, 2) + "\n").encode())


def read_json(path: Path) -> dict[str, Any]:
    """The JSON object in a file; an empty one if it cannot be read."""
    try:
        value = json.loads(path.read_bytes())
    except (OSError, ValueError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}


def _lines(value: Any, depth: int, indent: str = "") -> str:
    """JSON with a line for each entry down to that depth; `json.dumps` with an indent is slow."""
    below = indent + "  "
    if depth and value and isinstance(value, dict):
        entries = [f"{json.dumps(str(name))}: {_lines(one, depth - 1, below)}" for name, one in value.items()]
        opening, closing = "{}"
    elif depth and value and isinstance(value, list | tuple):
        entries = [_lines(one, depth - 1, below) for one in value]
        opening, closing = "[]"
    else:
        return json.dumps(value)
    return f"{opening}\n{below}" + f",\n{below}".join(entries) + f"\n{indent}{closing}"
