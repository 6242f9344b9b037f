"""Resets: ends every TCP connection between two hosts, even if it is idle or uses a cable."""

from __future__ import annotations

import functools
import itertools
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence

from clusterkit.network.switch.cables import Pair
from clusterkit.network.switch.flows import local_flows, probe, reverse
from clusterkit.network.switch.system import enter
from clusterkit.network.switch.ways import Ways

PROBE_EVERY = 0.6  # seconds; the kernel answers such probes at most twice a second
PROBES = 3
Flows = Mapping[Pair, set[bytes]]


class Resets:
    """The resets in progress. Their flows are `doomed` in `ways`: an end that sends anything gets a reset back.

    A probe makes an idle end send something. It is repeated, since data that arrives between the end's reply and the
    reset makes the reset's sequence number stale. An end that is closed by then only replies with a reset.
    """

    def __init__(
        self,
        namespaces: Sequence[int],
        ways: Ways,
        inject: Callable[[bytes], None],
        call_at: Callable[[float, Callable[[float], None]], None],
    ) -> None:
        self._namespaces = namespaces
        self._ways = ways
        self._inject = inject
        self._call_at = call_at

    def begin(self, pairs: Iterable[Pair]) -> int:
        """Reset all TCP connections between the hosts of each pair; return their number. Raises NotPossible."""
        begun = dict[Pair, set[bytes]]()
        for pair, flows in self._flows({(min(pair), max(pair)) for pair in pairs}).items():
            doomed = self._ways.way(*pair).doomed
            if new := flows - doomed:
                begun[pair] = new
                doomed |= new
        if begun:
            self._probe(begun, PROBES, time.monotonic())
        return sum(map(len, begun.values())) // 2

    def _probe(self, begun: Flows, left: int, now: float) -> None:
        if left:
            self._call_at(now + PROBE_EVERY, functools.partial(self._probe, begun, left - 1))
        else:
            for pair, flows in begun.items():
                self._ways.way(*pair).doomed.difference_update(flows)
        self._ways.update_routes(self._ways.both_ways(begun))
        for pair, flows in begun.items():
            for flow in flows & self._ways.way(*pair).doomed:  # not those whose ports have a new connection
                self._inject(probe(flow))

    def _flows(self, pairs: set[Pair]) -> Flows:
        """Return both flows of each connection between the hosts of each pair, from the list of one of the two."""
        frequency = Counter(itertools.chain.from_iterable(pairs))  # to list the connections of few hosts
        listed = {pair: max(pair, key=lambda host: (frequency[host], host)) for pair in pairs}
        found = defaultdict[bytes, set[bytes]](set)
        for host in set(listed.values()):
            enter(self._namespaces[host])
            for flow in local_flows():
                found[flow[:8]].add(flow)
        return {pair: self._between(*pair, found) for pair in sorted(pairs)}

    def _between(self, a: int, b: int, found: Mapping[bytes, set[bytes]]) -> set[bytes]:
        here, there = self._ways.addresses[a], self._ways.addresses[b]
        one_way = found.get(here + there, set()) | found.get(there + here, set())
        return {flow for each in one_way for flow in (each, reverse(each))}
