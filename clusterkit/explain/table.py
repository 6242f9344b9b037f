"""The table of all failures of distributed programs that clusterkit can explain."""

from __future__ import annotations

from types import ModuleType

from clusterkit.explain.row import Row
from clusterkit.explain.rows import (
    addresses,
    checkpoints,
    combinations,
    data,
    environment,
    gangs,
    keras,
    loops,
    migration,
    names,
    own_clusters,
    peers,
    program,
    replicas,
    resolvers,
    servers,
    sessions,
    shared,
    silent,
    waiting,
    warned,
)

FILES: tuple[ModuleType, ...] = (
    program,
    resolvers,
    addresses,
    own_clusters,
    waiting,
    gangs,
    loops,
    replicas,
    servers,
    keras,
    names,
    migration,
    sessions,
    combinations,
    data,
    shared,
    checkpoints,
    environment,
    peers,
    silent,
    warned,
)
TABLE: tuple[Row, ...] = tuple(row for file in FILES for row in file.ROWS)
