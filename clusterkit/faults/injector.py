"""The injector: breaks what the machine tells it to break, by the hand that can, and mends it again."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import PurePath

from clusterkit.client.checkpoints import corrupt
from clusterkit.faults.memory import MemoryLimits, NoProcess
from clusterkit.faults.throttle import Throttle
from clusterkit.network.virtual import Layer, VirtualNetwork
from clusterkit.system.process import Child
from clusterkit.words.errors import ClusterkitError
from clusterkit.words.events import Crashed, FaultTook
from clusterkit.words.faults import AMOUNTS, Fault, FaultAction, plain
from clusterkit.words.model import Task


class _NotDone(Exception):
    """Nothing could be broken; the message is a clause that says why."""


class Injector:
    """Each fault has a number, by which it is healed; what is injected again under a number is added to it."""

    def __init__(
        self,
        child_of: Callable[[Task], Child | None],
        network: VirtualNetwork | None,
        checkpoints: PurePath,
        seed: int,
        post: Callable[[FaultTook | Crashed], None],
    ) -> None:
        self._network = network
        self._checkpoints = checkpoints
        self._seed = seed
        self._post = post
        self._throttle = Throttle(child_of, post)
        self._memory = MemoryLimits(child_of)
        self._in_network: set[int] = set()

    def inject(self, number: int, fault: Fault, tasks: Sequence[Task], others: Sequence[Task]) -> None:
        """Break something: FaultTook."""
        try:
            took = FaultTook(number, self._do(number, fault, tasks, others))
        except (_NotDone, ClusterkitError) as error:
            took = FaultTook(number, str(error), done=False)
        except OSError as error:
            took = FaultTook(number, error.strerror or str(error), done=False)
        self._post(took)

    def heal(self, number: int) -> None:
        """Mend what was broken under this number, as far as it still is there."""
        self._throttle.heal(number)
        self._memory.heal(number)
        if self._network is not None and number in self._in_network:
            self._in_network.discard(number)
            try:
                self._network.heal(number)
            except ClusterkitError as error:  # the network is gone, which ends the run
                self._post(FaultTook(number, str(error), done=False))

    def signal(self, task: Task, child: Child, number: int) -> None:
        """Signal every process of a task's group; one that is stopped by a signal stays so, also where it is slowed."""
        self._throttle.signal(task, child, number)

    def forget(self, task: Task) -> None:
        """The task's process is about to be reaped, and `child_of` does not know it any more."""
        self._throttle.forget(task)

    def stop(self) -> None:
        """Mend everything, and end the thread."""
        self._throttle.stop()
        self._memory.heal_all()
        for number in list(self._in_network):
            self.heal(number)

    def _do(self, number: int, fault: Fault, tasks: Sequence[Task], others: Sequence[Task]) -> str:
        match fault.action:
            case FaultAction.SLOW:
                return self._slow(number, fault, tasks)
            case FaultAction.MEMORY:
                return self._limit_memory(number, fault, tasks)
            case FaultAction.CORRUPT:
                return self._corrupt(number, fault)
            case FaultAction.DISK_FULL:
                return self._fill_disk(number)
            case FaultAction.RESET:
                return self._reset(tasks, others)
            case FaultAction.PARTITION | FaultAction.DELAY | FaultAction.LOSS | FaultAction.RATE:
                return self._impair(number, fault, tasks, others)
            case action:
                raise _NotDone(f"{action} is nothing that an injector does")

    def _slow(self, number: int, fault: Fault, tasks: Sequence[Task]) -> str:
        share = _amount(fault)
        self._throttle.slow(number, tasks, share)
        return f"{_names(tasks)} may run for {plain(100 * share)} % of the time"

    def _limit_memory(self, number: int, fault: Fault, tasks: Sequence[Task]) -> str:
        size = None if fault.amount is None else int(fault.amount)
        done, not_done = list[str](), list[str]()
        for task in tasks:
            try:
                done.append(self._memory.limit(number, task, size))
            except NoProcess as error:
                not_done.append(str(error))
        if not done:
            raise _NotDone("; ".join(not_done))
        return "; ".join(done + not_done)

    def _corrupt(self, number: int, fault: Fault) -> str:
        # With the number, since the same bytes flipped twice are whole again.
        done = corrupt(self._checkpoints, fault.how or "flip", f"{self._seed}/{number}")
        if done is None:
            raise _NotDone(f"there is no checkpoint in {self._checkpoints}")
        return done

    def _fill_disk(self, number: int) -> str:
        if self._network is None:
            raise _NotDone("the tasks' disk can be filled only in a run that begins with a disk-full fault")
        self._in_network.add(number)
        self._network.fill_disk(number)
        return f"every write of the tasks into {self._checkpoints} fails: no space left on device"

    def _reset(self, tasks: Sequence[Task], others: Sequence[Task]) -> str:
        count = self._links().reset(tasks, others)
        if not count:
            raise _NotDone(f"there is no connection between {_names(tasks)} and {_names(others)}")
        were = "connection was" if count == 1 else "connections were"
        return f"{count} {were} reset between {_names(tasks)} and {_names(others)}"

    def _impair(self, number: int, fault: Fault, tasks: Sequence[Task], others: Sequence[Task]) -> str:
        network = self._links()
        self._in_network.add(number)  # also where it fails: some of it may be done
        match fault.action:
            case FaultAction.PARTITION:
                layer = Layer(cut=True)
                what = "no packet passes"
            case FaultAction.DELAY:
                layer = Layer(delay=_amount(fault), jitter=fault.jitter)
                around = f" ± {plain(1000 * fault.jitter)} ms" if fault.jitter else ""
                what = f"each packet takes {plain(1000 * _amount(fault))} ms{around} longer"
            case FaultAction.LOSS:
                layer = Layer(loss=_amount(fault))
                what = f"{plain(100 * _amount(fault))} % of the packets are lost"
            case _:
                layer = Layer(rate=_amount(fault))
                what = f"at most {plain(_amount(fault))} bytes a second pass"
        network.impair(number, tasks, others, layer)
        return f"{what} between {_names(tasks)} and {_names(others)}"

    def _links(self) -> VirtualNetwork:
        if self._network is None:
            raise _NotDone("the run is on the host's network, and nothing can come between its tasks")
        return self._network


def _amount(fault: Fault) -> float:
    value = fault.amount if fault.amount is not None else AMOUNTS[fault.action].usual
    assert value is not None, f"{fault} has no amount"
    return value


def _names(tasks: Sequence[Task]) -> str:
    return " and ".join(", ".join(map(str, tasks)).rsplit(", ", 1))
