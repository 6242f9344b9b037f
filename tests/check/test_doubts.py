"""What `up` says about a program with which a run succeeds, but with wrong numbers: at the start, and in the result."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from pathlib import Path

import pytest

from clusterkit.check.reading import foresee
from clusterkit.check.rules.all_rules import RULES, SILENT
from clusterkit.explain.rows import silent
from clusterkit.words.job import JobSpec
from clusterkit.words.model import ProgramKind
from tests.commands import Clusterkit
from tests.histories import build_job
from tests.support import Command

# In the place of TensorFlow: every attribute and every call returns the same object.
TENSORFLOW = """
class Any:
    def __getattr__(self, name):
        return self

    def __call__(self, *args, **kwargs):
        return self

    def __enter__(self):
        return self

    def __exit__(self, *raised):
        pass


distribute = keras = random = data = Any()
"""
SHUFFLED = """import random
import tensorflow as tf

strategy = tf.distribute.MultiWorkerMirroredStrategy()
x = [1, 2, 3]
random.shuffle(x)
data = strategy.experimental_distribute_dataset(tf.data.Dataset.from_tensor_slices(x))
"""
SEEDED = SHUFFLED.replace("x = [", "random.seed(1)\nx = [")
WHAT = "main.py:6: Each of the tasks (2 workers) shuffles the rows in its own order"
FIX = "Call keras.utils.set_random_seed(1), with the same seed in all workers"


@pytest.fixture
def program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], Path]:
    """Write a program with this text, beside something that it can import as TensorFlow."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "tensorflow.py").write_text(TENSORFLOW)

    def write(text: str) -> Path:
        (tmp_path / "main.py").write_text(text)
        return tmp_path / "main.py"

    return write


def job(program: Path, workers: int = 2) -> JobSpec:
    """A job with this program."""
    return build_job({"workers": workers, "program": str(program)}, ProgramKind.SCRIPT)


def test_only_mistakes_with_which_runs_succeed_are_doubts(program: Callable[[str], Path]) -> None:
    """Not those with which runs fail, which `up` explains when that happens; each has a row that explains it."""
    assert set(SILENT) < set(RULES)
    assert {row.id for row in silent.ROWS} == {*SILENT, "data-ran-out"}
    (doubt,) = foresee(job(program(f"{SHUFFLED}prnt(1)\n"))).doubts
    assert doubt.id == "unseeded-rows"
    assert f"{doubt.location}: {doubt.what}".startswith(WHAT)
    assert doubt.advice.startswith(FIX)
    assert foresee(job(program(SEEDED))).doubts == []
    assert foresee(job(program(SHUFFLED), workers=1)).doubts == []


@pytest.mark.parametrize("seed", range(40))
def test_whatever_is_in_a_program_there_is_an_answer(program: Callable[[str], Path], seed: int) -> None:
    """Random edits of a program raise nothing, whether or not the text is still Python."""
    chance, text = random.Random(f"doubts {seed}"), SHUFFLED
    for _ in range(chance.randint(1, 8)):
        at = chance.randrange(len(text))
        text = (
            text[:at]
            + chance.choice(["\0", "(", "\n", " " * 9, "\udc80", "é", "lambda: ", text[: at // 2]])
            + text[at:]
        )
    path = program("")
    path.write_bytes(text.encode(errors="surrogateescape"))
    assert len(foresee(job(path)).doubts) <= 1


@pytest.mark.timeout(120)
def test_long_chains_of_attributes_take_no_time(program: Callable[[str], Path]) -> None:
    """A file whose names have hundreds of parts is checked long before the deadline; a larger one is not checked."""
    chains = ("x" + ".y" * 900 + "\n") * 50
    assert len(foresee(job(program(f"{chains}{SHUFFLED}"))).doubts) == 1
    assert foresee(job(program(f"{chains * 2}{SHUFFLED}"))).doubts == []


@pytest.mark.process
@pytest.mark.slow
@pytest.mark.timeout(60)
def test_up_doubts_the_numbers_of_a_run_that_succeeded(
    clusterkit: Callable[..., Command], ck: Clusterkit, program: Callable[[str], Path]
) -> None:
    """Before the tasks start, in the report, in result.json, and wherever the run is looked at; the exit code is 0."""
    up = ("up", "--workers", "2", "--start", "cold", "--run-id", "doubted")
    command = clusterkit(*up, program(SHUFFLED))
    assert command.wait(40) == 0
    before, _, after = command.output.partition("worker:0 is started")
    assert WHAT in " ".join(before.replace("clusterkit │", "").split())
    headline, _, rest = after.partition("! run doubted succeeded")
    assert "✔" not in headline + rest
    said = " ".join(rest.split())
    assert WHAT in said
    assert f"Fix: {FIX}" in said
    run = Path(command.output.rpartition("Everything of this run is in ")[2].strip())
    (doubt,) = json.loads((run / "result.json").read_text())["explanations"]
    assert doubt["row"] == "unseeded-rows"
    assert WHAT in " ".join(ck("explain", "doubted").out.split())
    assert WHAT in " ".join(ck("show", "doubted").out.split())
    timeline = json.loads(ck("show", "doubted", "--json").out)["timeline"]
    assert WHAT in timeline[0]["text"] + timeline[1]["text"]  # so the page shows a mark where the run begins


@pytest.mark.process
@pytest.mark.slow
@pytest.mark.timeout(60)
def test_up_doubts_nothing_about_a_seeded_program(
    clusterkit: Callable[..., Command], program: Callable[[str], Path]
) -> None:
    """The run ends with a check mark."""
    command = clusterkit("up", "--workers", "2", "--start", "cold", program(SEEDED))
    assert command.wait(40) == 0
    assert "✔" in command.output
    assert "Why:" not in command.output
