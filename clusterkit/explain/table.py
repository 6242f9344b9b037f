"""The table: every way in which a distributed program goes wrong that clusterkit knows."""

from __future__ import annotations

from clusterkit.explain import data, environment, gangs, keras, loops, peers, program, resolvers, servers
from clusterkit.explain.row import Row

TABLE: tuple[Row, ...] = (
    *program.ROWS,
    *resolvers.ROWS,
    *gangs.ROWS,
    *loops.ROWS,
    *servers.ROWS,
    *keras.ROWS,
    *data.ROWS,
    *environment.ROWS,
    *peers.ROWS,
)
