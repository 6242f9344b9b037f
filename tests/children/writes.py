"""Writes bytes that a test can make too: `writes.py KIND...`; the task of index n writes the nth kind.

Every task ends when its bytes are written; worker:0, whose end is the job's, waits for the others.
"""

import json
import os
import sys
import time
from collections.abc import Iterator
from pathlib import Path

LINE = 1000  # bytes of a line of `flood`, with its newline


def content(kind: str, index: int) -> Iterator[bytes]:
    """What the task of that index writes.

    Kinds: `long`, `unended`, `bars`, `invalid`, `nul`, `plain`, `colored`, `flood-MB`.
    """
    name = f"worker:{index}".encode()
    if kind == "long":
        for n in range(20):
            yield name + b" %d " % n + bytes([97 + n]) * 70_000 + b"\n"
    elif kind == "unended":
        yield b"first\nlast, without an end"
    elif kind == "bars":
        for n in range(1000):
            yield b"\r%d/1000 [%s]" % (n, b"=" * (n // 50))
        yield b"\r1000/1000 done".ljust(40) + b"\nafter the bar\r\n"
    elif kind == "invalid":
        yield b"\xff\xfe broken \xc3\n\xe2\x82 half a euro\n\xe2"
        yield b"\x82\xac a whole one\n\xe2"
    elif kind == "nul":
        yield b"a\0b\0\0c\n\0\n" + bytes(5000) + b"\n"
    elif kind == "plain":
        yield name + b" says this\n"
    elif kind == "colored":
        yield b"\x1b[35m" + name + b" says this\x1b[0m\n"
    else:
        yield from flood(name, int(kind.removeprefix("flood-")))


def flood(name: bytes, megabytes: int) -> Iterator[bytes]:
    """So many millions of bytes, in numbered lines."""
    for n in range(megabytes * 1000):
        head = name + b" %09d " % n
        yield head + b"." * (LINE - 1 - len(head)) + b"\n"


def main() -> None:
    """See the module's docstring."""
    index = int(os.environ["CLUSTERKIT_TASK"].partition(":")[2])
    for piece in content(sys.argv[1 + index], index):
        sys.stdout.buffer.write(piece)
    sys.stdout.flush()
    done = Path(os.environ["CLUSTERKIT_CHECKPOINT_DIR"])
    (done / f"done-{index}").touch()
    others = len(json.loads(os.environ.get("TF_CONFIG", '{"cluster": {"worker": [""]}}'))["cluster"]["worker"])
    while index == 0 and len(list(done.glob("done-*"))) < others:
        time.sleep(0.01)


if __name__ == "__main__":
    main()
