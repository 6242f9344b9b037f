"""Hostile input: random bytes, and what is nearly right, from a seed."""

from __future__ import annotations

import json
import random
from typing import Any, TypeVar

HUGE: list[Any] = [
    2**70, -(2**70), 2**63, 2**63 - 1, -1, 0, 10**400, 10**4000, 1e308, float("inf"), float("nan"), True, None,
    "", "\0", "\ud800", "\x1b[2J", "é" * 300, "x" * 5000, [], {}, [[]], {"a": {"b": [1]}}, "worker:0",
    "worker:" + "9" * 30, "nan", "7", 7, 1.5,
]  # fmt: skip
RAW = [
    b"1e999", b"-1e999", b"9" * 5000, b"[" * 3000, b'{"a":' * 2000, b"NaN", b'"\\ud800"', b'"\\u0000"', b"\xff\xfe",
    b"", b"tru", b'"' + b"\\" * 99,
]  # fmt: skip


T = TypeVar("T")


class Noise:
    """Makes inputs, the same ones of the same seed."""

    def __init__(self, seed: int) -> None:
        print(f"the seed of the hostile inputs is {seed}")
        self.random = random.Random(seed)

    def value(self) -> Any:
        """A value for a field: often one that no reader expects."""
        kind = self.random.random()
        if kind < 0.6:
            return self.random.choice(HUGE)
        if kind < 0.8:
            return self.random.randrange(-10, 1000)
        return [self.random.choice(HUGE) for _ in range(self.random.randrange(3))]

    def fields(self, **some: Any) -> bytes:
        """A JSON object with these fields, some of them hostile, left out, or no JSON at all."""
        message = {name: self.value() if self.random.random() < 0.3 else value for name, value in some.items()}
        if self.random.random() < 0.2:
            message.pop(self.random.choice(list(message)))
        line = json.dumps(message).encode()
        if self.random.random() < 0.2:
            line = line.replace(self.random.choice([b"1", b'"x"', b"null"]), self.random.choice(RAW), 1)
        return self.mangled(line) if self.random.random() < 0.2 else line

    def mangled(self, line: bytes) -> bytes:
        """Cut, repeated, or with other bytes in it; no newline."""
        at = self.random.randrange(len(line) + 1)
        kind = self.random.randrange(4)
        if kind == 0:
            return line[:at]
        if kind == 1:
            return line[:at] + line
        return (line[:at] + self.bytes(20) + line[at + self.random.randrange(20) :]).replace(b"\n", b"")

    def bytes(self, most: int) -> bytes:
        """Random ones."""
        return self.random.randbytes(self.random.randrange(1, most))

    def pick(self, *some: T) -> T:
        """One of them."""
        return self.random.choice(some)
