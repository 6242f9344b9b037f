"""Values as JSON, which can be read without running code: what functions return from other hosts.

A pickle can run any code in the process that reads it. JSON alone has neither tuples, sets, bytes nor arrays, so these
are objects with one key that names the type: `{"tuple": [1, 2]}`. A dict is a list of pairs: `{"dict": [["a", 1]]}`.
"""

from __future__ import annotations

import base64
import io
import json
import sys
from importlib import import_module
from pathlib import Path, PurePath
from typing import Any

KINDS = "None, numbers, text, bytes, lists, tuples, sets, dicts, paths and NumPy arrays"
LARGEST = 1 << 30  # bytes; larger files are not read


class NotPlain(TypeError):
    """The value contains an object that is none of KINDS."""


def dumps(value: object) -> bytes:
    """Encode a value. Raises NotPlain, which names the type, or RecursionError."""
    return json.dumps(encoded(value)).encode()


def loads(data: bytes) -> Any:
    """Decode a value. Raises ValueError for anything that `dumps` does not write, MemoryError and RecursionError."""
    return decoded(json.loads(data))


def encoded(value: Any) -> Any:
    """Return a value that JSON has. Subclasses are not plain, since they would come back as something else."""
    kind = type(value)
    if value is None or kind in (bool, int, float, str):
        return value
    if kind is list:
        return [*map(encoded, value)]
    if kind in (tuple, set, frozenset):
        return {kind.__name__: [*map(encoded, value)]}
    if kind is dict:
        return {"dict": [[encoded(key), encoded(one)] for key, one in value.items()]}
    if kind is bytes:
        return {"bytes": base64.b64encode(value).decode()}
    if kind is complex:
        return {"complex": [value.real, value.imag]}
    if isinstance(value, PurePath):
        return {"path": str(value)}
    numpy: Any = sys.modules.get("numpy")
    if numpy is not None and kind is numpy.ndarray and not value.dtype.hasobject:
        return {"array": _array(numpy, value)}
    if numpy is not None and isinstance(value, numpy.generic) and not value.dtype.hasobject:
        return {"scalar": _array(numpy, value)}
    raise NotPlain(f"{kind.__module__}.{kind.__qualname__}")


def _array(numpy: Any, value: Any) -> str:
    file = io.BytesIO()
    numpy.save(file, value, allow_pickle=False)
    return base64.b64encode(file.getvalue()).decode()


def decoded(value: Any) -> Any:
    """Return the value that `encoded` was given. Raises ValueError."""
    if isinstance(value, list):
        return [*map(decoded, value)]
    if not isinstance(value, dict):
        return value
    if len(value) != 1:
        raise ValueError("an object has one key")
    [(kind, content)] = value.items()
    try:
        return _of_kind(kind, content)
    except (TypeError, OverflowError) as error:
        raise ValueError(f"{kind}: {error}") from None


def _of_kind(kind: str, content: Any) -> Any:
    if kind in ("tuple", "set", "frozenset"):
        make = {"tuple": tuple, "set": set, "frozenset": frozenset}[kind]
        return make(map(decoded, _list(content)))
    if kind == "dict":
        return {decoded(key): decoded(one) for key, one in map(_list, _list(content))}
    if kind == "complex":
        real, imaginary = _list(content)
        return complex(float(real), float(imaginary))
    if not isinstance(content, str):
        raise TypeError("its content is no text")
    if kind == "path":
        return Path(content)
    data = base64.b64decode(content, validate=True)
    if kind == "bytes":
        return data
    if kind not in ("array", "scalar"):
        raise ValueError(f"there is no kind {kind[:40]!r}")
    np: Any = import_module("numpy")  # only here, since few functions return arrays
    try:
        found = np.load(io.BytesIO(data), allow_pickle=False)
    except MemoryError:
        raise
    except Exception as error:  # the header is parsed as Python's literals, whose errors are many
        raise ValueError(f"it is no array: {type(error).__name__}: {error}") from None
    if not isinstance(found, np.ndarray):  # an archive of several
        raise TypeError("it is no array")
    return found if kind == "array" else found[()]


def _list(content: Any) -> list[Any]:
    if not isinstance(content, list):
        raise TypeError("its content is no list")
    return content
