"""What nvidia-smi tells of the GPUs, by programs that stand in for it."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from clusterkit.system.gpus import Gpus, parsed


def stand_in(place: Path, script: str) -> None:
    """Put an `nvidia-smi` there."""
    tool = place / "nvidia-smi"
    tool.write_text(f"#!/bin/sh\n{script}\n")
    tool.chmod(0o755)


def test_the_tool_is_asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """For each GPU; one that does not tell its use is left out."""
    stand_in(tmp_path, "echo '0, 35, 1024'; echo '1, [N/A], 12'; echo '2, 0, 0'")
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    assert Gpus().sample() == {"0": (35.0, 1 << 30), "2": (0.0, 0)}


def test_a_tool_that_fails_is_left_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """After three failures in a row; without the tool nothing is started."""
    stand_in(tmp_path, f"echo x >> {tmp_path}/asked; exit 9")
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    gpus = Gpus()
    assert [gpus.sample() for _ in range(5)] == [{}] * 5
    assert (tmp_path / "asked").read_text() == "x\n" * 3
    monkeypatch.setenv("PATH", str(tmp_path / "nowhere"))
    assert Gpus().sample() == {}


def test_any_answer_is_read() -> None:
    """Random text gives numbers within bounds, or none."""
    seed = random.randrange(1 << 32)
    print(f"seed {seed}")
    chance = random.Random(seed)
    for _ in range(500):
        text = "".join(chance.choices("0123456789, .-\n\x00é٣[N/A]", k=chance.randrange(60)))
        assert all(0 <= used < 1e9 and 0 <= memory < 1e9 * (1 << 20) for used, memory in parsed(text).values())
