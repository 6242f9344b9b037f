"""The exam accuses no program that is right: programs as guides write them, and those of workloads/."""

from __future__ import annotations

import ast
import json
import random
import subprocess
import sys
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tests.environment import clean_environment
from tests.support import CHILDREN, ROOT

pytestmark = [pytest.mark.tensorflow, pytest.mark.timeout(400)]
RIGHT = CHILDREN / "right"
EQUALITY, KILLED, EXPORT = "equality/1-against-2", "resume/killed-between-checkpoints", "survival/interrupted/exporting"
SECONDS = 360


class Program(NamedTuple):
    """A program below tests/children/right, which takes a name as its argument."""

    file: str
    name: str

    def __str__(self) -> str:
        return f"{self.file}-{self.name}"


UNREPORTED = {Program("loops", "counted")}  # it reports no step, so that it can't be killed after one


def names_in(file: str) -> list[str]:
    """The names that a program knows: its functions with the mark `program`, and those in its tables."""
    tree = ast.parse((RIGHT / f"{file}.py").read_text())
    found = []
    for node in ast.walk(tree):
        match node:
            case ast.FunctionDef(name=name, decorator_list=[ast.Name("program")]):
                found.append(name)
            case ast.Call(func=ast.Name("optimized"), args=[ast.Constant(str(name)), _]):
                found.append(f"optimizer_{name}")
            case ast.Assign(targets=[ast.Name("CALLBACKS")], value=ast.Dict(keys=keys)):
                found += [ast.literal_eval(key) for key in keys if key is not None]
            case ast.Assign(targets=[ast.Name("NAMES")], value=ast.Tuple(elts=parts)):
                for part in parts:
                    found += ast.literal_eval(part.value) if isinstance(part, ast.Starred) else [ast.literal_eval(part)]
    return found


PROGRAMS = tuple(Program(file, name) for file in ("fits", "loops", "served") for name in names_in(file))


def examined(home: Path, *args: str, seconds: float = SECONDS) -> dict[str, Any]:
    """Examine a program on two workers, and return the exam as JSON."""
    done = subprocess.run(
        [sys.executable, "-m", "clusterkit", "exam", "--json", "--seed=7", "--workers=2", *args],
        env=clean_environment(home),
        cwd=ROOT, capture_output=True, text=True, check=False, timeout=seconds,
    )  # fmt: skip
    assert done.stdout, done.stderr
    report: dict[str, Any] = json.loads(done.stdout)
    return report


def assert_nobody_is_accused(report: dict[str, Any]) -> None:
    """No cell has a finding, and the program could be examined."""
    accused = {one["cell"]: one["findings"] for one in report["cells"] if one["findings"]}
    assert not accused, json.dumps(report, indent=1)
    assert not report["why_not_examined"], report["why_not_examined"]


def assert_is_right(program: Program, home: Path) -> None:
    """Assert that the exam finds nothing, and that it has compared what comes after a restart."""
    chosen = [f"--cell={cell}" for cell in (EQUALITY, KILLED, EXPORT)]
    servers = ["--ps=1"] if program.file == "served" else []
    report = examined(home, *servers, *chosen, str(RIGHT / f"{program.file}.py"), program.name)
    assert_nobody_is_accused(report)
    grades = {one["cell"]: one["grade"] for one in report["cells"]}
    expected = "not reached" if program in UNREPORTED else "passed"
    assert grades[KILLED] == expected, json.dumps(report, indent=1)


def test_there_are_many_programs() -> None:
    """The names are read without running the programs."""
    assert len(PROGRAMS) == len(set(PROGRAMS)) >= 60
    assert Program("fits", "optimizer_lion") in PROGRAMS
    assert Program("fits", "best_model_kept") in PROGRAMS
    assert Program("loops", "accumulated") in PROGRAMS
    assert Program("served", "saved_while_it_trains") in PROGRAMS


@pytest.mark.table
@pytest.mark.parametrize("program", PROGRAMS, ids=str)
def test_a_right_program_is_not_accused(program: Program, tmp_path: Path) -> None:
    """Nor restarts to something else."""
    assert_is_right(program, tmp_path)


@pytest.mark.long
def test_a_convolution_before_a_normalization_is_not_accused(tmp_path: Path) -> None:
    """Its bias has no gradient but rounding, along which Adam takes whole steps."""
    report = examined(tmp_path, f"--cell={EQUALITY}", str(RIGHT / "fits.py"), "normalized_convolution")
    assert {one["grade"] for one in report["cells"]} == {"passed"}, json.dumps(report, indent=1)


@pytest.mark.long
def test_keras_2_continues_shuffled_data_where_it_was(tmp_path: Path) -> None:
    """In the order of the epoch in which it was interrupted."""
    report = examined(tmp_path, "--keras=2", f"--cell={KILLED}", str(RIGHT / "fits.py"), "dropped_out")
    assert {one["grade"] for one in report["cells"]} == {"passed"}, json.dumps(report, indent=1)


@pytest.mark.long
def test_a_layer_that_draws_is_equal_in_fit_and_named_in_a_loop(tmp_path: Path) -> None:
    """In a step of fit it draws what one process draws. In a loop the cell can't be compared, which is no failure."""
    chosen = f"--cell={EQUALITY}"
    report = examined(tmp_path / "fit", chosen, str(RIGHT / "fits.py"), "noisy_layer")
    assert {one["grade"] for one in report["cells"]} == {"passed"}, json.dumps(report, indent=1)
    report = examined(tmp_path / "loop", chosen, str(RIGHT / "loops.py"), "noisy")
    (reason,) = (one["reason"] for one in report["cells"] if one["cell"] == EQUALITY)
    assert reason.startswith("not comparable: "), json.dumps(report, indent=1)
    assert " draws at random in the " in reason
    assert report["exit_code"] == 3  # nothing of the cell was seen


@pytest.mark.long
@pytest.mark.parametrize("flaw", ["", "regularizer_of_each_replica", "uneven_batch"])
def test_a_slight_difference_is_found_in_the_first_step(flaw: str, tmp_path: Path) -> None:
    """Of one in a thousand; and none in the same program without the flaw."""
    report = examined(tmp_path, f"--cell={EQUALITY}", str(CHILDREN / "slight.py"), *([flaw] if flaw else []))
    (cell,) = (one for one in report["cells"] if one["cell"] == EQUALITY)
    codes = {"": [], "regularizer_of_each_replica": ["differs"], "uneven_batch": ["uneven-rows"]}
    assert [finding["code"] for finding in cell["findings"]] == codes[flaw], json.dumps(report, indent=1)
    assert all("step 1" in finding["text"] for finding in cell["findings"])


@pytest.mark.long
def test_a_batch_that_grows_is_compared_where_one_worker_gets_arguments(tmp_path: Path) -> None:
    """The workload's learning rate follows the batch, as TensorFlow's tutorial teaches it."""
    program = (str(ROOT / "workloads" / "mwms_fit.py"), "--epochs=4")
    chosen = f"--cell={EQUALITY}"
    report = examined(tmp_path / "first", chosen, *program)
    assert_nobody_is_accused(report)
    assert "the learning rate changes with it, 0.05 and 0.1" in report["cells"][1]["reason"]
    alike = "--one-worker-args=--batch-size 64 --learning-rate 0.1"
    report = examined(tmp_path / "second", chosen, alike, *program)
    assert report["cells"][1]["grade"] == "passed", json.dumps(report, indent=1)
    assert alike in report["cells"][1]["command"].replace("'", "")


# The workloads with the options of their jobs and arguments that make them short, but longer than a checkpoint.
WORKLOADS: dict[str, tuple[list[str], list[str]]] = {
    "ps_train.py": (["--ps=1"], ["--steps=200", "--checkpoint-every=40"]),
    "ps_fit.py": (["--ps=1", "--keras=2"], ["--epochs=2", "--steps=60"]),
    "news_text.py": (["--ps=2"], ["--steps=200", "--checkpoint-every=40"]),
    "mwms_train.py": ([], ["--steps=60", "--checkpoint-every=20"]),
    "mwms_fit.py": ([], ["--epochs=4"]),
    "mnist_cnn.py": ([], ["--epochs=2", "--steps-per-epoch=20", "--checkpoint-every=10"]),
    "cifar10_cnn.py": ([], ["--steps=24", "--checkpoint-every=8"]),
    "tfrecords.py": ([], ["--steps=60", "--records=400", "--checkpoint-every=20"]),
    "imdb_text.py": ([], ["--epochs=3", "--steps=14"]),
}


@pytest.mark.long
def test_a_workload_is_not_accused(tmp_path: Path) -> None:
    """One that is drawn by chance, in the cells that tell the most. A whole exam of each takes most of an hour."""
    seed = random.randrange(2**32)
    name = random.Random(seed).choice(sorted(WORKLOADS))
    print("seed", seed, name)
    options, args = WORKLOADS[name]
    leader = "chief:0" if any(option.startswith("--ps") for option in options) else "worker:0"
    killed = f"survival/kill/{leader}/step"
    chosen = [f"--cell={cell}" for cell in (EQUALITY, KILLED, killed)]
    report = examined(tmp_path, *options, *chosen, str(ROOT / "workloads" / name), *args)
    assert_nobody_is_accused(report)
    grades = {one["cell"]: one["grade"] for one in report["cells"]}
    assert grades[KILLED] == grades[killed] == "passed", json.dumps(report, indent=1)


@pytest.mark.soak  # each takes the six minutes of a whole exam
@pytest.mark.timeout(600)
@pytest.mark.parametrize("name", WORKLOADS)
def test_a_workload_passes_its_own_exam(name: str, tmp_path: Path) -> None:
    """Whole: all chapters, until the time is up."""
    options, args = WORKLOADS[name]
    report = examined(tmp_path, *options, str(ROOT / "workloads" / name), *args, seconds=540)
    assert_nobody_is_accused(report)
    assert report["chapters"]["survival"]["passed"] > 0, json.dumps(report, indent=1)
