"""Python programs that a task's command starts are patched when they import TensorFlow, and run as usual otherwise."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from clusterkit.job.plan import DESCENDANTS, TaskPlan, attempt_environment
from clusterkit.words.model import ProgramKind, Task, TaskType

pytestmark = [pytest.mark.process, pytest.mark.timeout(60)]

LATER = "when TensorFlow is imported"
SHOW = """
import json, os, subprocess, sys
early = getattr(sys, "clusterkit_patched", None)
{imports}
own = "print(json.dumps([getattr(sys, 'clusterkit_patched', None), os.environ.get('PYTHONPATH')]))"
child = subprocess.run([sys.executable, "-c", "import json, os, sys, keras; " + own], capture_output=True, text=True)
print(json.dumps({{
    "early": early, "patched": getattr(sys, "clusterkit_patched", None), "finders": [*map(repr, sys.meta_path)],
    "path": sys.path, "child": json.loads(child.stdout),
    "variables": [os.environ.get(name) for name in ("CLUSTERKIT_PATCHES", "PYTHONPATH")],
    "own": getattr(sys.modules.get("sitecustomize"), "MINE", None),
}}))
"""


@pytest.fixture
def here(tmp_path: Path) -> Path:
    """A directory with packages that have the names of TensorFlow and Keras, and a program's directory."""
    for name in ("packages/tensorflow", "packages/keras", "program", "mine"):
        (tmp_path / name).mkdir(parents=True)
    for name in ("tensorflow", "keras"):
        (tmp_path / "packages" / name / "__init__.py").touch()
    return tmp_path


def shown(
    here: Path, imports: str, *flags: str, path: str = "", patches: str = "tracebacks,stages"
) -> dict[str, object]:
    """What a program reports of itself if a command starts it in a task."""
    (here / "program" / "train.py").write_text(SHOW.format(imports=imports))
    own = {"PYTHONPATH": ":".join(filter(None, [path, str(here / "packages")])), "CLUSTERKIT_PATCHES": patches}
    env = {**own, "CLUSTERKIT_RECORD": str(here), "CLUSTERKIT_RECORD_STEPS": "", "CLUSTERKIT_SEED": "7"}
    plan = TaskPlan(Task(TaskType.WORKER, 0), ProgramKind.COMMAND, sys.executable, "sh", (), None, env)
    inherited = {name: value for name, value in os.environ.items() if name not in env}
    words = [sys.executable, *flags, str(here / "program" / "train.py")]
    done = subprocess.run(
        words, env=attempt_environment(inherited, plan, 1, ""), capture_output=True, text=True, timeout=50
    )
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    report: dict[str, object] = json.loads(done.stdout)
    return report


@pytest.mark.parametrize("name", ["tensorflow", "keras"])
def test_the_first_program_that_imports_tensorflow_is_patched(here: Path, name: str) -> None:
    """At the import, and without the programs that it starts, which see the variables of the user."""
    packages = str(here / "packages")
    found = shown(here, f"import {name}")
    assert (found["early"], found["patched"]) == (LATER, True)
    assert found["variables"] == [None, packages]
    assert found["child"] == [None, packages]
    assert "FirstImport" not in str(found["finders"])
    assert DESCENDANTS not in found["path"]  # type: ignore[operator]


def test_a_program_without_tensorflow_is_not_patched(here: Path) -> None:
    """It may be a launcher: the program that it starts is patched, here when that one imports Keras."""
    found = shown(here, "")
    assert (found["early"], found["patched"], found["child"]) == (LATER, LATER, [True, str(here / "packages")])
    assert DESCENDANTS not in found["path"]  # type: ignore[operator]


def test_a_search_for_tensorflow_does_not_use_the_patches_up(here: Path) -> None:
    """A launcher may look whether the package is installed, and then start the program that trains."""
    found = shown(here, "import importlib.util; importlib.util.find_spec('tensorflow')")
    assert found["child"] == [True, str(here / "packages")]


def test_patches_are_applied_once(here: Path) -> None:
    """Although the program asks for them, and although two threads import the packages at the same time."""
    both = "threading.Thread(target=importlib.import_module, args=(name,)) for name in ('tensorflow', 'keras')"
    imports = (
        f"sys.path.insert(0, {str(Path(__file__).parents[2])!r}); from clusterkit import patches; patches.apply()\n"
        f"import importlib, threading; threads = [{both}]\n"
        "[one.start() for one in threads]; [one.join() for one in threads]"
    )
    found = shown(here, imports, patches="tracebacks,stages,keras-fit")
    assert (found["patched"], found["variables"]) == (True, [None, str(here / "packages")])
    assert str(found["finders"]).count(".Finder") == 1


def test_an_uncaught_exception_shows_no_frame_of_clusterkits(here: Path) -> None:
    """A patched function is in the program's stack."""
    (here / "packages" / "tensorflow" / "__init__.py").write_text("def fail(): raise ValueError('no rows')\n")
    imports = (
        "import tensorflow\n"
        "from importlib.util import spec_from_file_location, module_from_spec\n"
        f"spec = spec_from_file_location('hook', {str(Path(DESCENDANTS).parent / 'patches' / 'hook.py')!r})\n"
        "module = module_from_spec(spec); spec.loader.exec_module(module)\n"
        "module.before(tensorflow, 'fail', print)\ntensorflow.fail()"
    )
    with pytest.raises(AssertionError, match="ValueError: no rows") as caught:
        shown(here, imports)
    assert "hook.py" not in str(caught.value)


def test_random_numbers_are_seeded_from_the_start_of_a_recorded_program(here: Path) -> None:
    """An exam compares runs, and the program may draw numbers before it imports TensorFlow."""
    found = shown(here, "", patches="recorder,steps")
    assert found["early"] is True


def test_the_users_own_sitecustomize_runs(here: Path) -> None:
    """The interpreter finds only the first module of this name."""
    (here / "mine" / "sitecustomize.py").write_text("MINE = 'imported'\n")
    found = shown(here, "import tensorflow", path=str(here / "mine"))
    assert (found["own"], found["patched"]) == ("imported", True)


def test_a_faulty_sitecustomize_of_the_users_is_reported_as_usual(here: Path) -> None:
    """By the interpreter, and the program runs."""
    (here / "mine" / "sitecustomize.py").write_text("import nosuchmodule\n")
    with pytest.raises(AssertionError, match=r"(?s)Error in sitecustomize.*ModuleNotFoundError: No module named"):
        shown(here, "import tensorflow", path=str(here / "mine"))


def test_an_isolated_interpreter_is_not_patched(here: Path) -> None:
    """It reads no variables."""
    found = shown(here, "", "-I")
    assert (found["early"], found["patched"]) == (None, None)


def test_python_tasks_and_commands_without_patches_have_the_users_paths() -> None:
    """A Python task is patched by entry.py, also if PYTHONPATH is set."""
    for kind, patches in ((ProgramKind.SCRIPT, {"CLUSTERKIT_PATCHES": "steps"}), (ProgramKind.COMMAND, {})):
        plan = TaskPlan(Task(TaskType.WORKER, 0), kind, "python", "train", (), None, patches)
        assert "PYTHONPATH" not in attempt_environment({}, plan, 1, "")
        assert attempt_environment({"PYTHONPATH": "/mine"}, plan, 1, "")["PYTHONPATH"] == "/mine"
