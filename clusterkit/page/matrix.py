"""The matrix of the virtual network: what open faults do to the packets from each task to each other one."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import replace
from itertools import permutations

from clusterkit.page.entities import Cell
from clusterkit.words.errors import BadJob
from clusterkit.words.events import FaultInjected
from clusterkit.words.faults import ON_NETWORK, FaultAction
from clusterkit.words.grammar import parse_fault
from clusterkit.words.job import JobSpec, Network

MOST_TASKS = 40  # with more, there would be too many cells


def cells(job: JobSpec | None, faults: Iterable[FaultInjected]) -> Iterator[Cell]:
    """The cells while these faults are open; none without a virtual network, or with too many tasks."""
    if job is None or job.network is not Network.VIRTUAL or len(job.tasks) > MOST_TASKS:
        return
    names = list(map(str, job.tasks))
    layers = dict[tuple[str, str], dict[int, FaultInjected]]((pair, {}) for pair in permutations(names, 2))
    for fault in faults:
        for a in map(str, fault.tasks) if fault.action in ON_NETWORK else ():
            for b in list(map(str, fault.others)) or names:
                for pair in layers.keys() & {(a, b), (b, a)}:
                    layers[pair][fault.number] = fault
    for (source, target), found in layers.items():
        cell = Cell(source, target, None, None, None, None, False, ())
        for fault in found.values():
            cell = _impaired(cell, fault)
        yield cell


def _impaired(cell: Cell, fault: FaultInjected) -> Cell:
    faults = (*cell.faults, fault.number)
    amount: float | None = None
    with suppress(BadJob):
        amount = parse_fault(fault.fault).amount
    match fault.action:
        case FaultAction.PARTITION:
            return replace(cell, cut=True, faults=faults)
        case FaultAction.DELAY:
            return replace(cell, delay=(cell.delay or 0.0) + (amount or 0.0), faults=faults)
        case FaultAction.LOSS:
            kept = (1 - (cell.loss or 0.0)) * (1 - (amount or 0.0))
            return replace(cell, loss=round(1 - kept, 6), faults=faults)
        case FaultAction.RATE:
            rates = [rate for rate in (cell.rate, amount) if rate is not None]
            return replace(cell, rate=min(rates, default=None), faults=faults)
    return replace(cell, faults=faults)
