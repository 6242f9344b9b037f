"""Reach: whether a path can be looked at. pathlib raises where a name is too long, or a directory can't be entered."""

from __future__ import annotations

from pathlib import Path


def why_not_reached(path: Path) -> str:
    """Why nobody can see what is at a path, as a clause; empty if that can be seen, or if nothing is there."""
    try:
        path.stat()
    except (FileNotFoundError, NotADirectoryError):
        return ""
    except OSError as error:
        return str(error.strerror).lower()
    return ""
