"""The strangers of the tests find what is open: else a test in which they find nothing would prove nothing."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.backends.link import leaks
from tests.backends.link.knocking import attempts, who_let_in
from tests.backends.link.wires import both_ends

pytestmark = pytest.mark.process


def test_a_stranger_with_the_key_would_be_let_in(tmp_path: Path) -> None:
    """And is seen to be."""
    with both_ends(tmp_path) as ends:
        let_in = who_let_in(*ends.address, ends.pem)
    assert any("welcome" in answer for answer in let_in)
    assert len(list(attempts(ends.pem))) > 40


def test_what_is_open_to_others_is_found(tmp_path: Path) -> None:
    """In directories that others may enter, and in no other."""
    for directory, mode in (("open", 0o755), ("open/further", 0o701), ("open/closed", 0o700)):
        (tmp_path / directory).mkdir()
        (tmp_path / directory / "secret").write_bytes(b"hunter2")
        (tmp_path / directory / "mine").touch(mode=0o600)
        (tmp_path / directory).chmod(mode)
    assert sorted(leaks.open_to_others(tmp_path / "open")) == [
        str(tmp_path / "open/further/secret"),
        str(tmp_path / "open/secret"),
    ]
    assert leaks.open_to_others(tmp_path / "open/closed") == []
    assert len(leaks.holding(leaks.files(tmp_path), [b"hunter2"])) == 3
