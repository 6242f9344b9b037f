"""Control groups, of both versions, tell how much of the machine there is for tasks."""

from __future__ import annotations

from pathlib import Path

import pytest

from clusterkit.doctor import machine
from clusterkit.doctor.diagnosis import Rating
from clusterkit.doctor.machine import collect_machine, try_state
from clusterkit.doctor.machine_rules import judge_state

GB = 1 << 30


def groups(monkeypatch: pytest.MonkeyPatch, place: Path, own: str, files: dict[str, str]) -> None:
    """A system with these control groups, of which this process is in `own`."""
    for name, text in files.items():
        (place / name).parent.mkdir(parents=True, exist_ok=True)
        (place / name).write_text(text + "\n")
    (place / "own").write_text(own + "\n")
    monkeypatch.setattr(machine, "GROUPS", place)
    monkeypatch.setattr(machine, "OWN_GROUPS", place / "own")


@pytest.mark.parametrize(
    ("own", "files"),
    [
        (
            "0::/user/job",
            {"user/job/memory.max": "max", "user/memory.max": str(GB), "user/job/cpu.max": "150000 100000",
             "user/job/pids.max": "70", "user/pids.max": "max"},
        ),
        ("0::/of/the/host", {"memory.max": str(GB), "cpu.max": "150000 100000", "pids.max": "70"}),  # in a container
        (
            "4:memory:/job\n3:cpu,cpuacct:/job\n2:pids:/\n0::/",
            {"memory/job/memory.limit_in_bytes": str(GB), "memory/memory.limit_in_bytes": "9223372036854771712",
             "cpu,cpuacct/job/cpu.cfs_quota_us": "150000", "cpu,cpuacct/job/cpu.cfs_period_us": "100000",
             "pids/pids.max": "70"},
        ),
    ],
    ids=["version 2", "a container", "version 1"],
)  # fmt: skip
def test_the_smallest_limit_counts(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, own: str, files: dict[str, str]
) -> None:
    """Of the group that the process is in and of those above it."""
    groups(monkeypatch, tmp_path, own, files)
    found = collect_machine({"CUDA_VISIBLE_DEVICES": ""})
    assert (found.group_memory, found.quota, found.group_tasks) == (GB, 1.5, 70)


def test_no_limit_is_none(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """As on a machine that is nobody's container."""
    groups(monkeypatch, tmp_path, "0::/", {"memory.max": "max", "cpu.max": "max 100000"})
    found = collect_machine({"CUDA_VISIBLE_DEVICES": "0, 2"})
    assert (found.group_memory, found.quota, found.group_tasks) == (None, None, None)
    assert found.gpus == ("0", "2")
    assert found.cores > 0
    assert 0 < found.free <= found.memory


def test_a_state_directory_that_others_can_write_to_is_wrong(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every other command refuses it, so the doctor says why, and looks at nothing in it."""
    monkeypatch.setenv("CLUSTERKIT_HOME", str(tmp_path))
    tmp_path.chmod(0o777)
    state = try_state()
    [(_, rating, text)] = judge_state(state)
    assert rating is Rating.WRONG
    assert f"Other users can write to the directory {tmp_path}" in text
    tmp_path.chmod(0o700)
    assert try_state().untrusted == ""
