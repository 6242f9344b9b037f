"""A changed program: which fork servers are replaced, and the removal of stale bytecode."""

from __future__ import annotations

import py_compile
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from clusterkit.warm import starter
from clusterkit.warm.fork_client import Launch
from clusterkit.warm.servable import Preload
from clusterkit.warm.starter import _remove_bytecode

PLAIN = Launch("python", {"A": "1"}, Preload(tensorflow=True, modules=("ours",)), "log")


@pytest.mark.parametrize(
    ("old", "new", "renewed"),
    [
        (None, None, False),
        (PLAIN, PLAIN, False),
        (PLAIN, Launch("python", {"A": "2"}, PLAIN.preload, "log"), False),
        (None, PLAIN, True),
        (PLAIN, None, True),
        (PLAIN, Launch("python", {}, PLAIN.preload, "log", {"TF_USE_LEGACY_KERAS": "1"}), True),
        (PLAIN, Launch("python", {}, Preload(tensorflow=False), "log"), True),
    ],
)
def test_a_server_is_replaced_if_the_program_needs_another_one(
    old: Launch | None, new: Launch | None, renewed: bool
) -> None:
    """Variables that the program sets before its imports count; the run's environment does not change."""
    assert bool(starter._why_outdated(old, new)) is renewed


@pytest.mark.parametrize(
    ("ready", "changed", "renewed"),
    [
        (True, ["/p/ours.py"], True),
        (True, ["/p/package/deep/data.py"], True),
        (True, ["/p/train.py", "/p/other.py"], False),
        (True, ["/elsewhere/ours.py"], False),
        (True, ["/p/ours.pyi", "/p/packages/data.py"], False),
        (False, ["/p/train.py"], True),
    ],
)
def test_a_server_is_replaced_if_it_has_imported_what_changed(ready: bool, changed: list[str], renewed: bool) -> None:
    """Before it is ready, its imports are unknown."""
    server: Any = SimpleNamespace(ready=ready, modules={"ours": "/p", "package": "/p", "builtins": ""} if ready else {})
    assert bool(starter._why_imported(server, list(map(Path, changed)), PLAIN)) is renewed


def test_bytecode_of_a_changed_module_is_removed(tmp_path: Path) -> None:
    """For every interpreter, and of no other module; a missing file is not an error."""
    for name in ("part.py", "parts.py"):
        (tmp_path / name).write_text("")
        py_compile.compile(str(tmp_path / name))
    kept = [path.name for path in (tmp_path / "__pycache__").glob("parts.*")]
    (tmp_path / "__pycache__" / "part.cpython-399.pyc").write_bytes(b"")
    _remove_bytecode(tmp_path / "part.py")
    _remove_bytecode(tmp_path / "nowhere" / "part.py")
    assert [path.name for path in (tmp_path / "__pycache__").iterdir()] == kept
