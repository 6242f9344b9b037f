"""Random numbers that depend on a seed."""

from __future__ import annotations

import hashlib


def seeded_uniform(seed: int, key: str, nth: int) -> float:
    """A number in [0, 1) that depends only on its arguments, so that a journal can be replayed."""
    digest = hashlib.blake2b(f"{seed}/{key}/{nth}".encode(), digest_size=8).digest()
    return int.from_bytes(digest) / 2**64
