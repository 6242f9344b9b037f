"""Every command of workloads/README.md, for a few steps, and in `make soak` to the accuracy that it states."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from clusterkit.api.cluster import Cluster
from clusterkit.cli.commands.up import command as up
from clusterkit.cli.options import given
from clusterkit.pytest_plugin import Clusters
from clusterkit.words.events import Progressed
from tests.support import WORKLOADS

pytestmark = [pytest.mark.tensorflow, pytest.mark.timeout(240), pytest.mark.cluster(timeout=200)]

README = (WORKLOADS / "README.md").read_text()
# What makes each of them short, and how far it then gets.
QUICK: dict[str, tuple[list[str], int]] = {
    "ps_train.py": (["--steps", "60"], 60),
    "ps_fit.py": (["--epochs", "2", "--steps", "20"], 40),
    "news_text.py": (["--steps", "60"], 60),
    "mwms_train.py": (["--steps", "30"], 30),
    "mwms_fit.py": (["--epochs", "2", "--steps-per-epoch", "5"], 10),
    "mnist_cnn.py": (["--epochs", "1", "--steps-per-epoch", "5"], 5),
    "cifar10_cnn.py": (["--steps", "6"], 6),
    "one_process.py": (["--steps", "20", "--checkpoint-every", "10"], 20),
    "tfrecords.py": (["--steps", "30", "--records", "200"], 30),
    "imdb_text.py": (["--epochs", "1", "--steps", "10"], 10),
    "all_reduce.py": (["--steps", "200"], 200),
    "sync_async.py": (["--examples", "3200", "--points", "4"], 50),  # of two workers; 100 of one at a time
    "jax_train.py": (["--steps", "20"], 20),
    "keras_jax.py": (["--epochs", "2", "--steps-per-epoch", "10"], 20),
    "evaluator.py": (["--steps", "60", "--checkpoint-every", "20"], 60),
}


class Shown(NamedTuple):
    """A command of the README, and the accuracy that stands beside it."""

    words: list[str]
    accuracy: float | None

    @property
    def program(self) -> str:
        """The file that it runs."""
        return next(Path(word).name for word in self.words if word.endswith(".py"))

    @property
    def is_async(self) -> bool:
        """Whether its steps are single workers', though it counts examples."""
        return self.program == "sync_async.py" and "--ps" in self.words


def shown() -> Iterator[Shown]:
    """All of them, in their order."""
    for section in README.split("\n## ")[1:]:
        told = re.search(r"accuracy (0\.\d+)", section)
        for line in re.findall(r"^    clusterkit up (.*)$", section, re.M):
            yield Shown(shlex.split(line), float(told[1]) if told else None)


COMMANDS = list(shown())
NAMES = [" ".join(command.words).replace("workloads/", "") for command in COMMANDS]
# `make test-long` runs the other commands of a program, and programs that are in other tests or take long.
LONG = {
    *("ps_train.py", "mwms_train.py", "jax_train.py", "keras_jax.py", "cifar10_cnn.py", "imdb_text.py", "news_text.py"),
    "tfrecords.py",
}


def brief() -> Iterator[Any]:
    """All of them, with their names, as cases of a test for `make test` and `make test-long`."""
    seen = set(LONG)
    for command, name in zip(COMMANDS, NAMES, strict=True):
        yield pytest.param(command, id=name, marks=pytest.mark.long if command.program in seen else ())
        seen.add(command.program)


def keywords(words: list[str]) -> dict[str, Any]:
    """What `Cluster` takes, for what `up` takes."""
    with up.make_context("up", list(words)) as context:
        return {**given(context.params).options}


def test_every_workload_has_a_section() -> None:
    """With a command that runs it; what is only imported has none."""
    programs = {path.name for path in WORKLOADS.glob("*.py") if "__main__" in path.read_text()}
    assert {command.program for command in COMMANDS} == programs == set(QUICK)


@pytest.mark.parametrize("path", sorted(WORKLOADS.glob("*.py")), ids=lambda path: path.name)
def test_a_workload_is_short(path: Path) -> None:
    """Something to read in a sitting."""
    assert len(path.read_text().splitlines()) <= 150


@pytest.mark.parametrize("command", [*brief()])
def test_a_few_steps(cluster: Clusters, command: Shown, tmp_path: Path) -> None:
    """It comes to its end, with the last step that was asked for, without a restart."""
    needs_jax(command)
    few, last_step = QUICK[command.program]
    run = cluster(**keywords([*command.words, *few, *places(command, tmp_path)]))
    result = run.wait()
    assert result.last_step == last_step * (2 if command.is_async else 1)
    assert result.restarts == 0
    assert (accuracy_of(run) is None) == (command.accuracy is None)


@pytest.mark.soak
@pytest.mark.timeout(900)
@pytest.mark.cluster(timeout=850)
@pytest.mark.parametrize("command", COMMANDS, ids=NAMES)
def test_the_accuracy_that_is_stated(cluster: Clusters, command: Shown, tmp_path: Path) -> None:
    """Also when one task is killed on the way, whichever it is."""
    needs_jax(command)
    run = cluster(**keywords([*command.words, *places(command, tmp_path)]), fault="kill any @ checkpoint")
    result = run.wait()
    assert result.restarts >= 1
    if command.accuracy is not None:
        assert (accuracy_of(run) or 0.0) >= command.accuracy - 0.02


def needs_jax(command: Shown) -> None:
    """Skip the command if it is JAX's, and that is not installed."""
    if "--convention" in command.words:
        pytest.importorskip("jax", reason="JAX is not installed: pip install 'tf-clusterkit[jax]'")


def accuracy_of(run: Cluster) -> float | None:
    """The one that was reported last."""
    told = [
        event.metrics["accuracy"]
        for event in run.events()
        if isinstance(event, Progressed) and "accuracy" in event.metrics
    ]
    return told[-1] if told else None


def places(command: Shown, tmp_path: Path) -> list[str]:
    """Where a program that writes beside the run is to do so; and the data for which accuracies are stated."""
    if command.program == "sync_async.py":
        return ["--out", str(tmp_path)]
    return ["--data", "stand-in"] if command.program in ("mnist_cnn.py", "cifar10_cnn.py") else []
