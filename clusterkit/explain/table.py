"""The table: every way in which a distributed program goes wrong that clusterkit knows."""

from __future__ import annotations

from clusterkit.explain import (
    addresses,
    checkpoints,
    data,
    environment,
    gangs,
    keras,
    loops,
    migration,
    peers,
    program,
    resolvers,
    servers,
)
from clusterkit.explain.row import Row

TABLE: tuple[Row, ...] = (
    *program.ROWS,
    *resolvers.ROWS,
    *addresses.ROWS,
    *gangs.ROWS,
    *loops.ROWS,
    *servers.ROWS,
    *keras.ROWS,
    *migration.ROWS,
    *data.ROWS,
    *checkpoints.ROWS,
    *environment.ROWS,
    *peers.ROWS,
)
