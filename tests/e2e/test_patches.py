"""What was patched is told: by the log of each task, by the journal, and by `show --patches`."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest

from clusterkit.words.repairs import REPAIRS
from tests.commands import Clusterkit
from tests.support import CHILDREN, Up
from tests.task.test_keras_tensorflow import OLD_KERAS

pytestmark = [
    pytest.mark.tensorflow,
    pytest.mark.timeout(150),
    pytest.mark.skipif(OLD_KERAS, reason="fit on several workers is refused with so old a Keras"),
]
IN_BOTH = ["keras-fit", "order"]


def patched(run: Up) -> dict[str, list[str]]:
    """The patches that took effect in each task, apart from that which depends on who is faster."""
    found: dict[str, list[str]] = {}
    for event in run.events("Repaired"):
        found.setdefault(event["task"], []).append(event["repair"])
    return {task: sorted({*names} - {"leader-first"}) for task, names in found.items()}


def lines(run: Up, task: str) -> set[str]:
    """What the task's log says that was patched."""
    return set(re.findall(r"^clusterkit: patched (.*?)(?: of Keras|, which| \()", run.log(task).decode(), re.M))


def test_a_task_tells_what_was_patched_in_it(up: Callable[..., Up], home: Path, tmp_path: Path) -> None:
    """The leader writes its log where the program said, so its callbacks' paths are not patched."""
    run = up("--workers", "2", "--restart", "never", CHILDREN / "patched.py", tmp_path / "log.csv")
    assert run.wait(100) == 0, run.output[-4000:]
    assert patched(run) == {"worker:0": IN_BOTH, "worker:1": sorted([*IN_BOTH, "callbacks-apart"])}
    assert lines(run, "worker:0") == {"fit, evaluate and predict", "shuffles without a seed"}
    assert lines(run, "worker:1") == {"shuffles without a seed", "the paths of callbacks' files"}
    assert run.output.count("clusterkit: patched shuffles") == 1, "the console shows what several workers say once"
    clusterkit = Clusterkit(home)
    tasks, _, explained = clusterkit("show", "--patches").out.partition("\n\n")
    assert re.findall(r"^(worker:\d)  keras-fit, order(, callbacks-apart)?(?:, leader-first)?$", tasks, re.M) == [
        ("worker:0", ""),
        ("worker:1", ", callbacks-apart"),
    ]
    for name in patched(run)["worker:1"]:
        assert f"\n{name} " in f"\n{explained}"
        assert str(REPAIRS[name]) in explained
    assert [(one["task"], one["attempt"]) for one in clusterkit.json("show", "--patches")] == [
        ("worker:0", 1),
        ("worker:1", 1),
    ]


@pytest.mark.long
def test_a_seeded_program_without_callbacks_has_one_patch(up: Callable[..., Up], home: Path) -> None:
    """Which is of `fit`; without patches there is none."""
    seeded = (CHILDREN / "patched.py", "-")
    run = up("--workers", "2", "--restart", "never", *seeded)
    assert run.wait(100) == 0, run.output[-4000:]
    assert patched(run) == {"worker:0": ["keras-fit"], "worker:1": ["keras-fit"]}


@pytest.mark.long
def test_a_coordinator_tells_that_servers_add(up: Callable[..., Up], home: Path) -> None:
    """Only the chief is patched, since it traces the step."""
    run = up("--workers", "1", "--ps", "1", "--restart", "never", CHILDREN / "ps_counts.py", "10")
    assert run.wait(100) == 0, run.output[-4000:]
    assert patched(run).keys() == {"chief:0"}
    assert "keras-ps" in patched(run)["chief:0"]
    assert lines(run, "chief:0") == {"additions to Keras's variables"}
    shown = Clusterkit(home)("show", "--patches").out
    assert shown.startswith("chief:0            keras-ps")
    assert "\nworker:0 and ps:0  no patch\n" in shown
