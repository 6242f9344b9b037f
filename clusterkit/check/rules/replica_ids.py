"""A rule about replica ids, which are numbered across all workers."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from clusterkit.check.case import Case, Hit
from clusterkit.check.rules.replicas import is_gang
from clusterkit.check.source import Source

_ID = "replica_id_in_sync_group"


def replica_id_as_index(case: Case) -> Iterator[Hit]:
    """Find list indexes that are replica ids, to explain an IndexError in one of several workers."""
    for source in case.sources if is_gang(case) and not case.strict else ():
        for node in source.nodes:
            if isinstance(node, ast.Subscript) and _is_id(source, node.slice):
                items = ast.unparse(node.value)[:60]
                what = f"{_ID} counts the replicas of all workers, so in some workers the id is too large for {items}."
                advice = (
                    f"If the list has one element for each replica of this worker, use the index id % len({items}). "
                    "Otherwise give the list strategy.num_replicas_in_sync elements."
                )
                yield Hit(source.location(node), what, advice)


def _is_id(source: Source, index: ast.AST) -> bool:
    """Return whether an index is the id of a replica, unless the program computes with the id."""
    value = source.value(index)
    if any(isinstance(node, ast.BinOp) for each in (index, value) if each for node in ast.walk(each)):
        return False
    return value is not None and any(getattr(node, "attr", "") == _ID for node in ast.walk(value))
