"""What a main thread does in TensorFlow 1, and in callbacks, from stacks that faulthandler wrote (TensorFlow 2.21)."""

from __future__ import annotations

import pytest

from clusterkit.backends.local.blocked_threads import doing, main_thread
from tests.backends.test_blocked_threads import CHECKOUT, END, FIT, HOME, KERAS, TENSORFLOW, written

RUN = f"{TENSORFLOW}/client/session.py 1483 _call_tf_sessionrun"


@pytest.mark.parametrize(
    ("frames", "text"),
    [
        (
            (RUN, f"{TENSORFLOW}/training/monitored_session.py 778 run", f"{HOME}/train.py 40 <module>"),
            "waits in Session.run",
        ),
        (
            (RUN, f"{TENSORFLOW}/training/session_manager.py 478 wait_for_session", f"{HOME}/train.py 38 <module>"),
            "waits for the chief to initialize variables (wait_for_session)",
        ),
        (
            (
                f"{TENSORFLOW}/eager/context.py 736 ensure_initialized",
                f"{TENSORFLOW}/eager/remote.py 262 connect_to_cluster",
                f"{HOME}/train.py 12 <module>",
            ),
            "waits in tf.config.experimental_connect_to_cluster",
        ),
        (
            (
                f"{TENSORFLOW}/eager/context.py 954 get_config_key_value",
                f"{CHECKOUT}/task/patches/announcements.py 151 is_announced",
                f"{CHECKOUT}/task/patches/announcements.py 59 follow",
                f"{CHECKOUT}/task/patches/announcements.py 117 follow",
                f"{KERAS}/callbacks/model_checkpoint.py 211 on_epoch_end",
                *FIT,
                f"{HOME}/fit.py 12 <module>",
            ),
            "waits for other workers at a callback",
        ),
    ],
)
def test_what_a_task_waits_for(frames: tuple[str, ...], text: str) -> None:
    """It waits for other tasks, not in code of its own."""
    seen = doing(main_thread(written(*frames, *END)))
    assert seen is not None
    assert (seen.text, seen.own, seen.connects) == (text, False, False)
