"""Which TensorFlow and Keras are beside this interpreter, as their directories say: nothing is imported."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterable, Mapping

from clusterkit.rules.keras import LEGACY, YES
from clusterkit.words.findings import Versions

_PACKAGE = re.compile(r"(tensorflow(?:_cpu|_intel|_macos|_gpu)?|tf_nightly|keras)-(\d+)\.(\d+)\S*\.dist-info")
_KERAS_3_SINCE = (2, 16)  # of TensorFlow


def installed(env: Mapping[str, str], path: Iterable[str] | None = None) -> Versions:
    """What a task with this environment imports; `path` is where, as in `sys.path`."""
    found: dict[str, tuple[int, int]] = {}
    for directory in sys.path if path is None else path:
        for name in _names(directory or "."):
            if match := _PACKAGE.fullmatch(name):
                package = "keras" if match[1] == "keras" else "tensorflow"
                found.setdefault(package, (int(match[2]), int(match[3])))
    tensorflow, keras = found.get("tensorflow"), found.get("keras", (None,))[0]
    if env.get(LEGACY) in YES or (tensorflow is not None and tensorflow < _KERAS_3_SINCE):
        keras = 2
    return Versions(tensorflow, keras)


def _names(directory: str) -> list[str]:
    try:
        return os.listdir(directory)
    except OSError:
        return []
