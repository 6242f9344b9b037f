"""Telling: an agent that a signal asks to end learns from the engine whether that is for the whole run."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from clusterkit.backends.agents.engine import Engine
from clusterkit.backends.agents.messages import Leave, Stay
from clusterkit.backends.base import Post
from clusterkit.system.barrier import start_thread


def ask(engine: Engine, signal: int, answer: Callable[[Stay | Leave], None], post: Post) -> None:
    """Have the agent answered, in the loop's thread, and the run told if its allocation ends."""

    def find_out() -> None:
        ending = engine.ending(signal, elsewhere=True)
        post(partial(answer, Leave() if ending is None else Stay()))
        if ending is not None:
            post(ending)

    start_thread("notice", find_out, post)
