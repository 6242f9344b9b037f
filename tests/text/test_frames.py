"""Whose code a frame is, in an environment of packages as in a checkout."""

from __future__ import annotations

import pytest

from clusterkit.text.lines import is_own, owner_of

OWNERS = {
    "/home/me/train.py": "",
    "train.py": "",
    "/home/me/clusterkit/task/notes.txt": "",
    "/home/me/venv/lib/python3.11/site-packages/keras/src/layers.py": "keras",
    "/usr/lib64/python3.12/site-packages/six.py": "six",
    "/usr/lib/python3/dist-packages/numpy/core.py": "numpy",
    "/usr/lib/python3.11/threading.py": "Python",
    "/usr/lib64/python3.13/json/decoder.py": "Python",
    "<frozen runpy>": "Python",
    "/tmp/__autograph_generated_filex1.py": "tensorflow",
    "h5py/h5f.pyx": "h5py",
    "numpy/random/mtrand.pyx": "numpy",
    "mine.pyx": "",
    "/home/me/fast/mine.pyx": "",
    "/checkout/clusterkit/task/entry.py": "clusterkit",
    "/checkout/clusterkit/warm/fork_server.py": "clusterkit",
    "/checkout/clusterkit/training/checkpointer.py": "clusterkit",
}


@pytest.mark.parametrize("file", OWNERS)
def test_a_file_has_its_owner(file: str) -> None:
    """Without one, it is the program's own."""
    assert owner_of(file) == OWNERS[file]
    assert is_own(file) is (not OWNERS[file])


def test_text_that_was_executed_is_nobodys_file() -> None:
    """No line of a file can be named for it."""
    assert (owner_of("<string>"), is_own("<string>")) == ("", False)
