"""Values as JSON: what comes back is what was sent, and whatever else arrives is refused without running code."""

from __future__ import annotations

import base64
import io
import json
import math
import pickle
import random
from collections import OrderedDict, defaultdict
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from clusterkit.task.plain_values import NotPlain, dumps, loads

keys = st.none() | st.booleans() | st.integers() | st.text() | st.binary() | st.tuples(st.integers(), st.text())
leaves = keys | st.floats(allow_nan=False) | st.complex_numbers(allow_nan=False) | st.just(Path("a/b"))
values = st.recursive(
    leaves,
    lambda inner: st.lists(inner) | st.tuples(inner, inner) | st.dictionaries(keys, inner) | st.sets(keys),
    max_leaves=20,
)


@given(values)
def test_a_value_comes_back(value: Any) -> None:
    """With its types: a tuple is no list, and the keys of a dict stay numbers."""
    found = loads(dumps(value))
    assert found == value
    assert repr(type(found)) == repr(type(value))


@pytest.mark.parametrize(
    "value",
    [
        np.arange(6.0).reshape(2, 3),
        np.array([], dtype=np.int8),
        np.float32(1.5),
        np.bool_(True),
        np.array("text"),
        np.array([(1, 2.0)], dtype=[("a", "i4"), ("b", "f8")]),
        np.asfortranarray(np.ones((2, 2))),
    ],
)
def test_an_array_comes_back(value: Any) -> None:
    """With its shape and type."""
    found = loads(dumps({"weights": (value,)}))["weights"][0]
    assert type(found) is type(value)
    assert found.dtype == value.dtype
    assert np.array_equal(found, value)


def test_nan_comes_back() -> None:
    """As infinity does."""
    assert math.isnan(loads(dumps(math.nan)))
    assert loads(dumps(-math.inf)) == -math.inf


class Own(int):
    """A subclass of something plain."""


@pytest.mark.parametrize(
    "value",
    [Own(3), object(), OrderedDict(a=1), defaultdict(list), np.array([object()]), print, {1: [Own(1)]}, Own],
)
def test_objects_of_classes_are_not_plain(value: object) -> None:
    """They would come back as something else, or run code."""
    with pytest.raises(NotPlain):
        dumps(value)


def archive() -> str:
    """Several arrays in a file."""
    file = io.BytesIO()
    np.savez(file, a=np.ones(1))
    return base64.b64encode(file.getvalue()).decode()


def pickled_array() -> str:
    """An array of objects, which is pickled."""
    file = io.BytesIO()
    np.save(file, np.array([print], dtype=object), allow_pickle=True)
    return base64.b64encode(file.getvalue()).decode()


def huge_array() -> str:
    """A header that claims a petabyte."""
    header = b"{'descr': '<f8', 'fortran_order': False, 'shape': (1099511627776, 1024), }\n"
    return base64.b64encode(b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header).decode()


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\xff",
        b"[",
        pickle.dumps([1, 2]),
        b'{"a": 1, "b": 2}',
        b"{}",
        b'{"unknown": "eA=="}',
        b'{"tuple": 3}',
        b'{"set": [[1]]}',
        b'{"dict": [1]}',
        b'{"dict": [[1]]}',
        b'{"dict": [[[], 1]]}',
        b'{"bytes": 3}',
        b'{"bytes": "%"}',
        b'{"path": 3}',
        b'{"complex": "12"}',
        b'{"complex": [1]}',
        b'{"complex": [1, {}]}',
        b'{"array": "AAAA"}',
        b'{"array": [1]}',
        b"9" * 5000,
        *(json.dumps({"array": one()}).encode() for one in (archive, pickled_array)),
    ],
)
def test_what_is_no_value_is_refused(data: bytes) -> None:
    """With one kind of error."""
    with pytest.raises(ValueError, match=r"\S"):
        loads(data)


@pytest.mark.parametrize("data", [b"[" * 100_000, json.dumps({"array": huge_array()}).encode()])
def test_a_value_without_end(data: bytes) -> None:
    """Depth and size end with an error, too."""
    with pytest.raises((ValueError, RecursionError, MemoryError)):
        loads(data)


def test_random_bytes() -> None:
    """A value, or one of the errors."""
    seed = random.randrange(1 << 32)
    print("seed", seed)
    chance = random.Random(seed)
    whole = dumps({"a": (1, b"x", np.arange(3)), 2: {3.5, None}, "p": Path("a")})
    for _ in range(2000):
        data = bytearray(whole)
        for _ in range(chance.randrange(1, 6)):
            data[chance.randrange(len(data))] = chance.randrange(256)
        try:
            loads(bytes(data))
        except (ValueError, RecursionError, MemoryError):
            continue
