"""The injector: carries out the faults that the state machine decides on, and heals them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import PurePath
from typing import TYPE_CHECKING

from clusterkit.faults.memory import MemoryLimits, NoProcess
from clusterkit.faults.throttle import Throttle
from clusterkit.store.checkpoints import corrupt
from clusterkit.text.spelling import listed
from clusterkit.words.errors import ClusterkitError
from clusterkit.words.events import FaultTook
from clusterkit.words.faults import AMOUNTS, Fault, FaultAction, plain
from clusterkit.words.model import Task

if TYPE_CHECKING:
    from clusterkit.network.virtual import VirtualNetwork


class _CannotInject(ClusterkitError):
    """The fault could not be injected; the message is a clause that gives the reason."""


class Injector:
    """Injects and heals faults. A number identifies each fault; a second injection with the same number extends it.

    Args:
        throttle: slows tasks. The owner of the throttle stops it after the injector.
        network: the virtual network, which also fills up the disk; None if the run needs neither.
        checkpoints: the directory in which `corrupt-checkpoint` and `disk-full` act.
        seed: determines which bytes of a checkpoint are corrupted.
        post: receives FaultTook for each injection.
    """

    def __init__(
        self,
        throttle: Throttle,
        network: VirtualNetwork | None,
        checkpoints: PurePath,
        seed: int,
        post: Callable[[FaultTook], None],
    ) -> None:
        self._network = network
        self._checkpoints = checkpoints
        self._seed = seed
        self._post = post
        self._throttle = throttle
        self._memory = MemoryLimits(throttle.child_of)
        self._network_faults: set[int] = set()

    def inject(self, number: int, fault: Fault, tasks: Sequence[Task], others: Sequence[Task]) -> None:
        """Inject a fault, and post FaultTook with a description of the effect or with the reason for the failure."""
        try:
            if fault.action is FaultAction.CORRUPT:
                effect = self._corrupt(number, fault)
            else:
                effect = FaultTook(number, self._do(number, fault, tasks, others))
        except (ClusterkitError, OSError) as error:
            effect = FaultTook(number, getattr(error, "strerror", None) or str(error), done=False)
        self._post(effect)
        if not effect.done:  # the injection may have failed halfway, or have succeeded after the deadline
            self._heal_in_network(number)

    def heal(self, number: int) -> None:
        """Heal the fault with this number in all affected processes that are still alive."""
        self._throttle.heal(number)
        self._memory.heal(number)
        self._heal_in_network(number)

    def stop(self) -> None:
        """Heal all faults except those of the throttle, which its owner stops."""
        self._memory.heal_all()
        for number in list(self._network_faults):
            self.heal(number)

    def _heal_in_network(self, number: int) -> None:
        if self._network is not None and number in self._network_faults:
            self._network_faults.discard(number)
            try:
                self._network.heal(number)
            except ClusterkitError as error:  # the virtual network has failed, which ends the run
                self._post(FaultTook(number, str(error), done=False))

    def _do(self, number: int, fault: Fault, tasks: Sequence[Task], others: Sequence[Task]) -> str:
        match fault.action:
            case FaultAction.SLOW:
                share = _amount(fault)
                self._throttle.slow(number, tasks, share)
                return f"{listed(tasks)} can run at most {plain(100 * share)} % of the time"
            case FaultAction.MEMORY:
                return self._limit_memory(number, fault, tasks)
            case FaultAction.DISK_FULL:
                return self._fill_disk(number)
            case FaultAction.RESET:
                return self._reset(tasks, others)
            case FaultAction.PARTITION | FaultAction.DELAY | FaultAction.LOSS | FaultAction.RATE:
                return self._impair(number, fault, tasks, others)
            case action:
                raise _CannotInject(f"the injector does not support {action}")

    def _limit_memory(self, number: int, fault: Fault, tasks: Sequence[Task]) -> str:
        size = None if fault.amount is None else int(fault.amount)
        limited, failed = list[str](), list[str]()
        for task in tasks:
            try:
                limited.append(self._memory.limit(number, task, size))
            except NoProcess as error:
                failed.append(str(error))
        if not limited:
            raise _CannotInject("; ".join(failed))
        return "; ".join(limited + failed)

    def _corrupt(self, number: int, fault: Fault) -> FaultTook:
        # The seed includes the fault's number: flipping the same bytes a second time would repair them.
        done = corrupt(self._checkpoints, fault.how or "flip", f"{self._seed}/{number}")
        if done is None:
            raise _CannotInject(f"there is no checkpoint in {self._checkpoints}")
        how, file = done
        return FaultTook(number, f"{how} {file}", file=file)

    def _fill_disk(self, number: int) -> str:
        if self._network is None:
            raise _CannotInject("the run must be started with a disk-full fault or with --network virtual")
        self._network_faults.add(number)
        self._network.fill_disk(number)
        return f"every write of the tasks into {self._checkpoints} fails: no space left on device"

    def _reset(self, tasks: Sequence[Task], others: Sequence[Task]) -> str:
        count = self._links().reset(tasks, others)
        if not count:
            raise _CannotInject(f"there is no connection between {listed(tasks)} and {listed(others)}")
        were = "connection was" if count == 1 else "connections were"
        return f"{count} {were} reset between {listed(tasks)} and {listed(others)}"

    def _impair(self, number: int, fault: Fault, tasks: Sequence[Task], others: Sequence[Task]) -> str:
        from clusterkit.network.switch.links import Layer

        network = self._links()
        self._network_faults.add(number)  # before `impair`, which may fail halfway and then has to be healed
        match fault.action:
            case FaultAction.PARTITION:
                layer = Layer(cut=True)
                what = "all packets are dropped"
            case FaultAction.DELAY:
                layer = Layer(delay=_amount(fault), jitter=fault.jitter)
                jitter = f" ± {plain(1000 * fault.jitter)} ms" if fault.jitter else ""
                what = f"each packet takes {plain(1000 * _amount(fault))} ms{jitter} longer"
            case FaultAction.LOSS:
                layer = Layer(loss=_amount(fault))
                what = f"{plain(100 * _amount(fault))} % of the packets are lost"
            case _:
                layer = Layer(rate=_amount(fault))
                what = f"the rate is limited to {plain(_amount(fault))} bytes/s"
        network.impair(number, tasks, others, layer)
        return f"{what} between {listed(tasks)} and {listed(others)}"

    def _links(self) -> VirtualNetwork:
        if self._network is None:
            raise _CannotInject("the run uses the host's network; network faults need --network virtual")
        return self._network


def _amount(fault: Fault) -> float:
    value = fault.amount if fault.amount is not None else AMOUNTS[fault.action].usual
    assert value is not None, f"{fault} has no amount"
    return value
