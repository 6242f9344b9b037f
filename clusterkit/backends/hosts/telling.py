"""Telling: an agent that a signal asks to end learns from the engine whether that is for the whole run."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from clusterkit.backends.base import Post
from clusterkit.backends.hosts.allocation import Allocation
from clusterkit.system.barrier import start_thread


def ask(allocation: Allocation, signal: int, answer: Callable[[bool], None], post: Post) -> None:
    """Answer, in the loop's thread, whether the signal is for that agent alone; tell the run if its allocation ends."""

    def find_out() -> None:
        ending = allocation.ending(signal, elsewhere=True)
        post(partial(answer, ending is None))
        if ending is not None:
            post(ending)

    start_thread("notice", find_out, post)
