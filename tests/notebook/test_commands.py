"""What a command prints in a cell: text, and not more than the notebook's file can take."""

from __future__ import annotations

import io
import random

from clusterkit.notebook.running import MOST, copy


def copied(data: bytes) -> str:
    """What comes out of it."""
    written = list[str]()
    copy(io.BytesIO(data), written.append)
    return "".join(written)


def test_lines_come_through() -> None:
    """The last one, too, if it has no end."""
    assert copied("Ü 1\n\tb\nc".encode()) == "Ü 1\n\tb\nc"
    assert copied(b"") == ""


def test_what_is_too_much_is_counted() -> None:
    """The beginning is shown; a line without an end is no way around."""
    lines = copied(b"0123456789\n" * 50_000)
    assert len(lines) < MOST + 200
    assert lines.endswith("bytes more. In a terminal, the command shows everything.\n")
    assert len(copied(b"x" * 5_000_000)) < MOST + 200


def test_hostile_bytes_are_text() -> None:
    """No control character reaches the cell."""
    seed = random.randrange(1 << 32)
    print(f"seed {seed}")
    dice = random.Random(seed)
    for _ in range(200):
        text = copied(dice.randbytes(dice.randrange(400)))
        assert all(
            character.isprintable() or character in "\n\t\xa0\xad" or ord(character) > 0xA0 for character in text
        )
        text.encode()
