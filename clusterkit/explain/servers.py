"""Rows about parameter servers and their coordinator."""

from __future__ import annotations

from clusterkit.explain.row import Row

ROWS: tuple[Row, ...] = ()
