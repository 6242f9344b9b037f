"""The battery: the subject of each program, how it is started, and whether it succeeds."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from tests.warm.parity import ends, looks, many, tensorflows, writes


@dataclass(frozen=True)
class Case:
    """A program. `fails` says whether its exit code is not 0, however it is started."""

    about: str
    source: str = ""
    fails: bool = False
    plain: bool = True  # a plain start has to give the same
    cold: bool = True  # so has a cold one: not asked again where the tests of the entry ask
    warm: bool = True
    buffered: bool = False  # PYTHONUNBUFFERED is not set, neither in the server nor in the task
    tensorflow: bool = True  # the server has imported it
    deaf: bool = False  # nobody reads the output
    dump: bool = False  # its stacks are asked for
    differs: bool = False  # each start has to give something else
    how: str = "script"
    target: str = "program.py"
    args: tuple[str, ...] = ("--flag", "a word", "", "-m")
    modules: tuple[str, ...] = ()  # preloaded
    env: Mapping[str, str] = field(default_factory=dict)
    server: Mapping[str, str] = field(default_factory=dict)  # variables that the fork server has beside the usual ones


_HEAD = re.compile(r"(.*?)((?: \[[a-z ]+\])*)")


def table(text: str) -> Iterator[Case]:
    """The cases of a table: `### subject [option] [no option]`, then the program."""
    for part in text.split("### ")[1:]:
        head, _, source = part.partition("\n")
        match = _HEAD.fullmatch(head)
        assert match is not None
        words = [word.split() for word in re.findall(r"\[(.*?)\]", match[2])]
        options: dict[str, Any] = {name: not negated for *negated, name in words}
        yield Case(match[1], source, **options)


CASES = [case for module in (looks, ends, writes, many, tensorflows) for case in table(module.TEXT)]

# What they find beside them.
BESIDE = """
import warnings
x = 5
def fail(n):
    return 1 / n
def warn(kind):
    warnings.warn('beside', kind)
"""
MORE_FILES = {
    "beside.py": BESIDE,
    "exits.py": "import sys\nsys.exit(6)\n",
    "program2.py": "import sys\nprint(sys.argv, sys.path[0], __name__)\n",
    "sub/inside.py": "x = 6\n",
    "app/__main__.py": "import sys, near\nprint(near.x, __file__, __package__, __spec__.name, sys.argv)\n1 / 0\n",
    "app/near.py": "x = 7\n",
}
