"""Rows about own resolvers and flags, TF_CONFIG, ports."""

from __future__ import annotations

from clusterkit.explain.row import Row

ROWS: tuple[Row, ...] = ()
