"""Finds the example programs, which are in workloads/ of the repository and are included in the wheel."""

from __future__ import annotations

from pathlib import Path

_SHIPPED = Path(__file__).parent / "_examples"
_CHECKOUT = Path(__file__).parent.parent / "workloads"


def example_directory() -> Path:
    """Return the directory of the example programs, with `ps_train.py`, data loaders and README.md."""
    return _SHIPPED if _SHIPPED.is_dir() else _CHECKOUT
