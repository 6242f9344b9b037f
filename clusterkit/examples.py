"""Where the example programs are: those of workloads/, which the wheel ships."""

from __future__ import annotations

from pathlib import Path

_SHIPPED = Path(__file__).parent / "_examples"
_CHECKOUT = Path(__file__).parent.parent / "workloads"


def example_directory() -> Path:
    """Return the directory of the example programs: `ps_train.py`, its data loaders, README.md and the others."""
    return _SHIPPED if _SHIPPED.is_dir() else _CHECKOUT
