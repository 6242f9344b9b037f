"""What the check reads of a job: the program's files, and which TensorFlow its tasks will import."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

from clusterkit.hands.installed import installed
from clusterkit.rules.spec import build_job
from clusterkit.supervisor import checking
from clusterkit.supervisor.checking import NotChecked, findings_of, refuse_errors
from clusterkit.words.errors import BadJob
from clusterkit.words.findings import Versions
from clusterkit.words.model import JobSpec, ProgramKind

LATE = "import tensorflow as tf\nx = tf.zeros(1)\ns = tf.distribute.MultiWorkerMirroredStrategy()\n"
NO_PYTHON = "print 'old'\n"


def job(place: Path, text: str, kind: ProgramKind = ProgramKind.SCRIPT, **options: Any) -> JobSpec:
    """A job of two workers with that program."""
    (place / "main.py").write_text(text)
    program = (
        {"module": "main", "cwd": str(place)} if kind is ProgramKind.MODULE else {"program": str(place / "main.py")}
    )
    return build_job({"workers": 2, **program, **options}, kind)


@pytest.mark.parametrize("kind", [ProgramKind.SCRIPT, ProgramKind.MODULE])
def test_a_file_is_named_as_it_is_from_here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: ProgramKind) -> None:
    """Below the directory shortly, elsewhere wholly; a module as well as a file."""
    (found,) = findings_of(job(tmp_path, LATE, kind))
    assert str(found.place) == f"{tmp_path}/main.py:3"
    monkeypatch.chdir(tmp_path)
    (found,) = findings_of(job(tmp_path, LATE, kind))
    assert str(found.place) == "main.py:3"


def test_only_errors_stop_a_job(tmp_path: Path) -> None:
    """All of them at once, and the way round them."""
    refuse_errors(job(tmp_path, "import tensorflow\n"))
    with pytest.raises(BadJob) as raised:
        refuse_errors(job(tmp_path, LATE))
    assert [problem.partition(" [")[2] for problem in raised.value.problems] == ["strategy-after-operations]", ""]
    assert "--force" in raised.value.problems[-1]


def test_what_another_python_reads_may_be_good_python(tmp_path: Path) -> None:
    """It is refused where clusterkit's own is to run it, and not judged where another one is."""
    with pytest.raises(BadJob, match="syntax-error"):
        refuse_errors(job(tmp_path, NO_PYTHON))
    theirs = job(tmp_path, NO_PYTHON, python="/usr/bin/python2")
    refuse_errors(theirs)
    with pytest.raises(NotChecked, match="another Python"):
        findings_of(theirs)


def test_a_command_is_not_checked(tmp_path: Path) -> None:
    """Nor does it stop a job."""
    command = job(tmp_path, LATE, ProgramKind.COMMAND)
    refuse_errors(command)
    with pytest.raises(NotChecked, match="Only Python programs"):
        findings_of(command)


def test_a_program_of_too_much_text_is_judged_by_its_beginning(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is left out may serve, for all that is known."""
    text = "import tensorflow as tf, other\ns = tf.distribute.ParameterServerStrategy(resolver)\n"
    (tmp_path / "other.py").write_text("x = 1\n" * 100)
    assert {found.id for found in findings_of(job(tmp_path, text, ps=1))} == {"nobody-serves"}
    monkeypatch.setattr(checking, "MOST", 500)
    assert findings_of(job(tmp_path, text, ps=1)) == []


@pytest.mark.parametrize(
    ("packages", "env", "expected"),
    [
        (["tensorflow-2.21.0", "keras-3.15.1"], {}, Versions((2, 21), 3)),
        (["tensorflow_cpu-2.20.0rc0", "keras-3.9.0"], {}, Versions((2, 20), 3)),
        (["tensorflow-2.15.1", "keras-2.15.0"], {}, Versions((2, 15), 2)),
        (["tensorflow-2.15.1", "keras-3.0.0"], {}, Versions((2, 15), 2)),  # tf.keras is its own there
        (["tensorflow-2.21.0", "keras-3.15.1"], {"TF_USE_LEGACY_KERAS": "1"}, Versions((2, 21), 2)),
        (["tensorflow-2.21.0", "keras-3.15.1"], {"TF_USE_LEGACY_KERAS": "0"}, Versions((2, 21), 3)),
        (["tensorflow_datasets-4.9.0", "keras_tuner-1.4.0"], {}, Versions()),
        ([], {}, Versions()),
    ],
)
def test_versions_are_read_from_the_names_of_directories(
    tmp_path: Path, packages: list[str], env: dict[str, str], expected: Versions
) -> None:
    """Nothing is imported, and what is not there is not known."""
    for package in packages:
        (tmp_path / f"{package}.dist-info").mkdir()
    assert installed(env, [str(tmp_path / "gone"), str(tmp_path)]) == expected


def test_nothing_is_known_of_what_another_interpreter_has(tmp_path: Path) -> None:
    """So nothing is said to be missing in it."""
    text = "import tensorflow as tf\nx = tf.estimator.RunConfig()\n"
    assert installed({}).tensorflow is not None
    assert {found.id for found in findings_of(job(tmp_path, text))} == {"removed"}
    assert findings_of(job(tmp_path, text, python=sys.executable)) == []
