"""Stacks that a task writes to its file: when a dump is complete."""

from __future__ import annotations

from pathlib import Path

import pytest

from clusterkit.backends.local.stacks import QUIET, QUIET_AT_ANY_LINE, Dump

HEADER = "--- worker:0, attempt 1: request 1\n"
THREAD = 'Thread 0x00007f307ffff6c0 (most recent call first):\n  File "/a/threading.py", line 1002 in _bootstrap\n\n'
BEGUN = 'Current thread 0x00007f309f847b80 (most recent call first):\n  File "/a/train.py", line 5 in step\n'
OUTERMOST = '  File "/a/train.py", line 9 in <module>\n'


def is_complete(path: Path, text: str, quiet: float) -> bool:
    """Whether a dump is, once it has not grown for so long."""
    path.write_text(HEADER + text)
    dump = Dump(path, HEADER.encode())
    assert not dump.read(), "it has just grown"
    dump.grew_at -= quiet
    return dump.read()


@pytest.mark.parametrize("text", ["", THREAD, THREAD + BEGUN, THREAD + BEGUN[:-7]])
def test_a_task_that_rests_in_the_middle_of_its_dump_is_waited_for(tmp_path: Path, text: str) -> None:
    """The main thread comes last, and is the one that is wanted."""
    assert not is_complete(tmp_path / "stacks", text, 2 * QUIET)


@pytest.mark.parametrize("text", [THREAD, BEGUN])
def test_a_dump_may_end_at_any_line(tmp_path: Path, text: str) -> None:
    """At its end Python calls functions from nowhere."""
    assert is_complete(tmp_path / "stacks", text, 2 * QUIET_AT_ANY_LINE)


@pytest.mark.parametrize("end", [BEGUN + OUTERMOST, BEGUN + "  ...\n", "...\n", "  <no Python frame>\n"])
def test_a_dump_with_its_last_line_is_complete_soon(tmp_path: Path, end: str) -> None:
    """The outermost frame, or what stands for what is left out."""
    assert is_complete(tmp_path / "stacks", THREAD + end, 2 * QUIET)


def test_what_a_host_sends_is_waited_for(tmp_path: Path) -> None:
    """Its agent has the header in a file of its own: it comes together with the stacks, after the request's answer."""
    path = tmp_path / "stacks"
    here, remote = Dump(path, HEADER.encode()), Dump(path, HEADER.encode(), remote=True)
    for before in (None, "", "--- worker:0, attempt 1: request 0\n" + BEGUN):
        if before is not None:
            path.write_text(before)
        assert here.read(), "nothing more comes"
        assert not remote.read()
        assert (here.text, remote.text) == ("", ""), "another request's"
        assert "is not a Python program" in here.silence
        assert "its host can't be reached" in remote.silence
    path.write_text(HEADER)
    assert not remote.read()
    assert remote.silence == "does not answer. Is it paused?"
    path.write_text(HEADER + BEGUN + OUTERMOST)
    assert not remote.read()
    remote.grew_at -= 2 * QUIET
    assert remote.read()
    assert remote.text == BEGUN + OUTERMOST
