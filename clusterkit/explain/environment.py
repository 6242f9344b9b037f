"""Rows about versions, memory, threads, files."""

from __future__ import annotations

from clusterkit.explain.row import Row

ROWS: tuple[Row, ...] = ()
