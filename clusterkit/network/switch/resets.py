"""Resets: how every connection between two hosts is ended, also one that is idle, and that the switch never saw."""

from __future__ import annotations

import functools
import itertools
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence

from clusterkit.network.switch.cables import Pair
from clusterkit.network.switch.flows import own_flows, question
from clusterkit.network.switch.packets import reverse
from clusterkit.network.switch.system import enter
from clusterkit.network.switch.ways import Ways

AGAIN = 0.6  # seconds until each end is asked again: it does not answer more often than twice a second
TIMES = 3  # that it is asked
Flows = Mapping[Pair, set[bytes]]


class Resets:
    """Those that go on. A connection of them is doomed: to all that its ends send, they get an answer that ends it.

    So that an idle end sends something, it is asked. It is again, since something may have come to it between what it
    sent and the answer; one that is gone by then has nothing but a reset to say.
    """

    def __init__(
        self,
        namespaces: Sequence[int],
        ways: Ways,
        inject: Callable[[bytes], None],
        later: Callable[[float, Callable[[float], None]], None],
    ) -> None:
        self._namespaces = namespaces
        self._ways = ways
        self._inject = inject
        self._later = later

    def begin(self, pairs: Iterable[Pair]) -> int:
        """Reset what there is between the two of each pair; return how many connections that is. Raises NotPossible."""
        begun = dict[Pair, set[bytes]]()
        for pair, flows in self._flows({(min(pair), max(pair)) for pair in pairs}).items():
            doomed = self._ways.way(*pair).doomed
            if new := flows - doomed:
                begun[pair] = new
                doomed |= new
        if begun:
            self._go_on(begun, TIMES, time.monotonic())
        return sum(map(len, begun.values())) // 2

    def _go_on(self, begun: Flows, times: int, now: float) -> None:
        if times:
            self._later(now + AGAIN, functools.partial(self._go_on, begun, times - 1))
        else:
            for pair, flows in begun.items():
                self._ways.way(*pair).doomed.difference_update(flows)
        self._ways.arrange(self._ways.there_and_back(begun))
        for pair, flows in begun.items():
            for flow in flows & self._ways.way(*pair).doomed:  # else its ports have begun anew
                self._inject(question(flow))

    def _flows(self, pairs: set[Pair]) -> Flows:
        """Both directions of what there is between the two of each pair, as one of the two knows it."""
        often = Counter(itertools.chain.from_iterable(pairs))
        asked = {pair: max(pair, key=lambda host: (often[host], host)) for pair in pairs}
        found = defaultdict[bytes, set[bytes]](set)
        for host in set(asked.values()):
            enter(self._namespaces[host])
            for flow in own_flows():
                found[flow[:8]].add(flow)
        return {pair: self._between(*pair, found) for pair in sorted(pairs)}

    def _between(self, a: int, b: int, found: Mapping[bytes, set[bytes]]) -> set[bytes]:
        here, there = self._ways.addresses[a], self._ways.addresses[b]
        one_way = found.get(here + there, set()) | found.get(there + here, set())
        return {flow for each in one_way for flow in (each, reverse(each))}
