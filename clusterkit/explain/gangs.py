"""Rows about strategies, collectives and uneven work of gangs."""

from __future__ import annotations

from clusterkit.explain.row import Row

ROWS: tuple[Row, ...] = ()
