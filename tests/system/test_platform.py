"""What a run runs on."""

from __future__ import annotations

import platform
import sys
from importlib import metadata
from pathlib import Path

import pytest

from clusterkit.system.platform import platform_of


def test_the_versions_are_those_of_the_tasks_interpreter() -> None:
    """Of another one nothing is claimed, also where it is a link to the same file, as in another environment."""
    own, other = platform_of(None), platform_of("/usr/bin/other-python")
    assert own["python"] == platform.python_version()
    assert platform_of(sys.executable) == own
    assert set(other) == {"system", "machine"}
    assert other["system"].startswith("Linux ")
    assert "GiB of memory" in other["machine"]


def test_an_environment_that_links_to_the_same_interpreter_is_another_one(tmp_path: Path) -> None:
    """Its packages are others."""
    (tmp_path / "python").symlink_to(Path(sys.executable).resolve())
    assert "python" not in platform_of(str(tmp_path / "python"))


def test_the_versions_are_those_that_python_knows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first one on the path counts; a nightly is TensorFlow, too."""
    for name in ("tf_nightly-2.99.0.dev1", "keras-9.9"):
        (tmp_path / f"{name}.dist-info").mkdir()
        (tmp_path / f"{name}.dist-info/METADATA").write_text(f"Name: {name}\nVersion: {name.partition('-')[2]}\n")
    monkeypatch.setattr(sys, "path", [str(tmp_path), str(tmp_path / "gone"), *sys.path])
    found = platform_of(None)
    assert found["tensorflow"] == metadata.version("tf_nightly") == "2.99.0.dev1"
    assert found["keras"] == metadata.version("keras") == "9.9"
