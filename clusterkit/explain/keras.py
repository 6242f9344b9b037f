"""Rows about names of Keras 2 and 3, the scope of a strategy."""

from __future__ import annotations

from clusterkit.explain.row import Row

ROWS: tuple[Row, ...] = ()
