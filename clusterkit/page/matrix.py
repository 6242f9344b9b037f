"""The matrix of the virtual network: what open faults do to the packets from each task to each other one."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import permutations

from clusterkit.page.entities import Cell
from clusterkit.words import events as ev
from clusterkit.words.errors import BadJob
from clusterkit.words.faults import ON_NETWORK, Fault, FaultAction
from clusterkit.words.grammar import parse_fault
from clusterkit.words.job import JobSpec, Network

MOST_TASKS = 40  # with more, there would be too many cells


@dataclass(frozen=True, slots=True)
class NetworkFault:
    """The effect of one fault on packets."""

    number: int
    action: FaultAction
    amount: float | None


class Matrix:
    """The cells of a run's network, as a fold over its events. `changed` are the cells to send again.

    Without a virtual network, or with too many tasks, it has no cells.
    """

    def __init__(self, job: JobSpec | None) -> None:
        virtual = job is not None and job.network is Network.VIRTUAL and len(job.tasks) <= MOST_TASKS
        self._tasks = [str(task) for task in job.tasks] if job is not None and virtual else []
        self._layers: dict[tuple[str, str], list[NetworkFault]] = {pair: [] for pair in permutations(self._tasks, 2)}
        self.changed = set(self._layers)

    def cell(self, source: str, target: str) -> Cell:
        """The state of the network from one task to another."""
        cell = Cell(source, target, None, None, None, None, False, ())
        for layer in self._layers[source, target]:
            cell = _impaired(cell, layer)
        return cell

    def take(self, event: ev.Event) -> None:
        """Take in an event."""
        match event:
            case ev.FaultInjected(number, text, action, tasks, others) if action in ON_NETWORK:
                if action is FaultAction.RESET:  # it has no lasting effect
                    return
                layer = NetworkFault(number, action, _amount(text))
                far = [str(task) for task in others]
                for a in map(str, tasks):
                    for b in far or self._tasks:
                        self._put((a, b), layer)
                        self._put((b, a), layer)
            case ev.FaultHealed(number) | ev.FaultTook(number, _, False):
                self._remove(number)
            case ev.Continued():
                for open_number in {layer.number for layers in self._layers.values() for layer in layers}:
                    self._remove(open_number)

    def _put(self, key: tuple[str, str], layer: NetworkFault) -> None:
        layers = self._layers.get(key)
        if layers is not None and layer not in layers:
            layers.append(layer)
            self.changed.add(key)

    def _remove(self, number: int) -> None:
        for key, layers in self._layers.items():
            if any(layer.number == number for layer in layers):
                self._layers[key] = [layer for layer in layers if layer.number != number]
                self.changed.add(key)


def _amount(text: str) -> float | None:
    try:
        fault: Fault = parse_fault(text)
    except BadJob:
        return None
    return fault.amount


def _impaired(cell: Cell, layer: NetworkFault) -> Cell:
    faults = (*cell.faults, layer.number)
    match layer.action:
        case FaultAction.PARTITION:
            return replace(cell, cut=True, faults=faults)
        case FaultAction.DELAY:
            return replace(cell, delay=(cell.delay or 0.0) + (layer.amount or 0.0), faults=faults)
        case FaultAction.LOSS:
            kept = (1 - (cell.loss or 0.0)) * (1 - (layer.amount or 0.0))
            return replace(cell, loss=round(1 - kept, 6), faults=faults)
        case FaultAction.RATE:
            rates = [rate for rate in (cell.rate, layer.amount) if rate is not None]
            return replace(cell, rate=min(rates, default=None), faults=faults)
    return replace(cell, faults=faults)
