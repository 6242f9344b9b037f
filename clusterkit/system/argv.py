"""Overwrites secrets in this process's own command line, which every user of the machine can read."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Iterable

from clusterkit.system import procfs

HIDDEN = b"*"


def hide_in_command_line(words: Iterable[str], secrets: Iterable[str]) -> None:
    """Overwrite the end of each word of the command line that is one of `words`: the secret at the same place.

    For example, of the word `DB_PASS=hush` with the secret `hush`, other users see `DB_PASS=****` from now on, also in
    forks. Until this call, they could see the word. `sys.argv`, which is a copy, does not change.
    """
    hidden = {os.fsencode(word): os.fsencode(secret) for word, secret in zip(words, secrets, strict=True)}
    begin, end = procfs.argument_area()
    if begin == 0 or not any(hidden.values()):
        return
    at = begin
    for word in ctypes.string_at(begin, end - begin).split(b"\0"):
        secret = hidden.get(word, b"")
        if secret and word.endswith(secret):
            ctypes.memset(at + len(word) - len(secret), HIDDEN[0], len(secret))
        at += len(word) + 1
