"""The variables that a program sets for its own imports, from the code of it and its modules."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from clusterkit.check.imports import packages_of, program_files, program_of
from clusterkit.warm.fork_client import Launch
from clusterkit.warm.own_variables import OwnVariables
from clusterkit.warm.python_launch import own_variables_of
from clusterkit.warm.servable import Preload
from clusterkit.words.job import Setup
from clusterkit.words.model import Program, ProgramKind
from tests.histories import job

SET = 'os.environ["KERAS_BACKEND"] = "jax"'
TF = "import tensorflow as tf"
KNOWN: dict[str, tuple[str, dict[str, str | None]]] = {  # lines before the import, and what they come to
    "an item": (SET, {"KERAS_BACKEND": "jax"}),
    "its module under another name": ('import os as o; o.environ["KERAS_BACKEND"] = "jax"', {"KERAS_BACKEND": "jax"}),
    "environ by name": ('from os import environ\nenviron["KERAS_BACKEND"] = "jax"', {"KERAS_BACKEND": "jax"}),
    "environ as e": ('from os import environ as e\ne["KERAS_BACKEND"] = "jax"', {"KERAS_BACKEND": "jax"}),
    "an alias": ('env = os.environ\nenv["KERAS_BACKEND"] = "jax"', {"KERAS_BACKEND": "jax"}),
    "nothing": ('os.environ["KERAS_BACKEND"] = ""  # none', {"KERAS_BACKEND": ""}),
    "setdefault": ('os.environ.setdefault("KERAS_BACKEND", "jax")', {"KERAS_BACKEND": "jax"}),
    "setdefault, used": ('print(os.environ.setdefault("KERAS_BACKEND", "jax"))', {"KERAS_BACKEND": "jax"}),
    "setdefault of what it has set": (SET + '\nos.environ.setdefault("KERAS_BACKEND", "")', {"KERAS_BACKEND": "jax"}),
    "twice": ('os.environ["KERAS_BACKEND"] = "torch"\n' + SET, {"KERAS_BACKEND": "jax"}),
    "update": ('os.environ.update({"KERAS_BACKEND": "jax", "ABC": f()}, OMP_DYNAMIC="0")',
               {"KERAS_BACKEND": "jax", "OMP_DYNAMIC": "0"}),
    "del": ('del os.environ["KERAS_BACKEND"]', {"KERAS_BACKEND": None}),
    "pop": ('old = os.environ.pop("KERAS_BACKEND", None)', {"KERAS_BACKEND": None}),
    "two targets": ('os.environ["A"] = os.environ["KERAS_BACKEND"] = "jax"', {"KERAS_BACKEND": "jax"}),
    "in a try": (f"try:\n    {SET}\nfinally:\n    pass", {"KERAS_BACKEND": "jax"}),
    "under with": (f"with f() as x:\n    {SET}", {"KERAS_BACKEND": "jax"}),
    "in a class": (f"class A:\n    {SET}", {"KERAS_BACKEND": "jax"}),
    "after NumPy, which does not read it": ("import numpy as np\n" + SET, {"KERAS_BACKEND": "jax"}),
    "Keras 2": ('os.environ["TF_USE_LEGACY_KERAS"] = "1"', {"TF_USE_LEGACY_KERAS": "1"}),
    "under __name__, with the import": (f'if __name__ == "__main__":\n    {SET}\n    {TF}', {"KERAS_BACKEND": "jax"}),
    "after what only a checker imports": (f"if TYPE_CHECKING:\n    {TF}\n{SET}", {"KERAS_BACKEND": "jax"}),
}  # fmt: skip
NOTHING = {  # programs that set nothing for their imports
    "a docstring": f'"""\n{SET}\n"""\n{TF}',
    "a comment": f"# {SET}\n{TF}",
    "a text": f"x = '{SET}'\n{TF}",
    "a function that is never called": f"def f():\n    {SET}\n{TF}",
    "a method that is never called": f"class A:\n    def f(self):\n        {SET}\n{TF}",
    "a lambda": f'f = lambda: os.environ.setdefault("KERAS_BACKEND", "jax")\n{TF}',
    "after the import": f"{TF}\n{SET}",
    "after the import of Keras": f"from keras import ops\n{SET}",
    "after an import by its name": f'import importlib\nk = importlib.import_module("tensorflow.keras")\n{SET}\n',
    "after the import in a try": f"try:\n    {TF}\nexcept ImportError:\n    tf = None\n{SET}",
    "after an import in either branch": f"if x:\n    import tensorflow.compat.v1 as tf\nelse:\n    {TF}\n{SET}",
    "after the import in a function": f"def f():\n    {TF}\n    {SET}\nf()\n{SET}",
    "where the import fails": f"try:\n    {TF}\nexcept ImportError:\n    {SET}",
    "read only": f'print(os.environ["KERAS_BACKEND"], os.environ.get("OMP_NUM_THREADS"), os.getenv("HOME"))\n{TF}',
    "asked for": f'if "KERAS_BACKEND" in os.environ:\n    pass\n{TF}',
    "copied": f'env = dict(os.environ)\nenv["KERAS_BACKEND"] = "jax"\nenv = os.environ.copy()\n{TF}',
    "of another table": f'environment["KERAS_BACKEND"] = "jax"\n{TF}',
    "for later": f'os.environ["TF_CONFIG"] = json.dumps(config)\nos.environ["GRPC_FAIL_FAST"] = f()\n{TF}',
    "for another process": f'os.environ["PYTHONPATH"] = f()\nos.environ.update(LD_PRELOAD=f())\n{TF}',
    "under __name__ of a module": f"import module\n{TF}",
    "TensorFlow's own tutorial": f'{TF}\nif tf.x:\n    os.environ["GRPC_FAIL_FAST"] = "use_caller"\n',
    "what no Python reads": f"print 'old'\n{TF}",
}
UNCLEAR = {  # the line that hides something, and what is said of it
    "a computed value": ('os.environ["KERAS_BACKEND"] = str(x)', "KERAS_BACKEND"),
    "an f-string": ('os.environ["KERAS_BACKEND"] = f"{x}"', "KERAS_BACKEND"),
    "another variable's value": ('os.environ["KERAS_BACKEND"] = os.environ["X"]', "KERAS_BACKEND"),
    "added to": ('os.environ["TF_XLA_CACHE"] += "x"', "TF_XLA_CACHE"),
    "update, computed": ('os.environ.update({"KERAS_BACKEND": x})', "KERAS_BACKEND"),
    "update with keywords, computed": ("os.environ.update(KERAS_BACKEND=x)", "KERAS_BACKEND"),
    "putenv": ('os.putenv("KERAS_BACKEND", "jax")', "KERAS_BACKEND"),
    "unsetenv": ('os.unsetenv("KERAS_BACKEND")', "KERAS_BACKEND"),
    "of several targets": ('x, os.environ["KERAS_BACKEND"] = y', "KERAS_BACKEND"),
    "in a branch": (f"if x: {SET}", "KERAS_BACKEND"),
    "in a loop": (f"for x in y: {SET}", "KERAS_BACKEND"),
    "while it loops": (f"while x: {SET}", "KERAS_BACKEND"),
    "in an expression's branch": ('x = y or os.environ.setdefault("KERAS_BACKEND", "jax")', "KERAS_BACKEND"),
    "a choice": ('x = os.environ.pop("KERAS_BACKEND") if y else 0', "KERAS_BACKEND"),
    "in a list": ('x = [os.environ.pop("KERAS_BACKEND") for y in z]', "KERAS_BACKEND"),
    "after NumPy, which reads it": ('import numpy; os.environ["OMP_NUM_THREADS"] = "2"', "OMP_NUM_THREADS"),
    "a computed name": ('os.environ[name] = "1"', None),
    "a table": ("os.environ.update(table)", None),
    "a table in a table": ('os.environ.update({**table, "A": "b"})', None),
    "a table added": ("os.environ |= table", None),
    "everything": ("os.environ.clear()", None),
}
CALLED = {  # where the first line is what is unclear
    "a function": f"def f(): {SET}\nf()\n{TF}",
    "a function that calls it": f"def f(): {SET}\ndef g():\n    f()\ng()\n{TF}",
    "a function that imports, too": f"def f(): {SET}; {TF}\nif __name__ == '__main__':\n    f()",
    "a function that another one is given": f"def f(): {SET}\napp.run(f)\n{TF}",
    "a decorator": f"def f(): {SET}\n@f\ndef g(): pass\n{TF}",
    "a class": f"def f(): {SET}\nclass A:\n  def __init__(self):\n    f()\nA()\n{TF}",
    "a method": f"def f(): {SET}\nclass A:\n  def g(self): f()\nA().g()\n{TF}",
}


def read(place: Path, files: dict[str, str], target: str = "main.py") -> OwnVariables:
    """The variables that a program of these files sets."""
    for name, text in files.items():
        (place / name).parent.mkdir(parents=True, exist_ok=True)
        (place / name).write_text(text)
    kind = ProgramKind.SCRIPT if target.endswith(".py") else ProgramKind.MODULE
    spec = replace(job(workers=1), program=Program(kind, target), setup=Setup(cwd=str(place)))
    file, root = program_of(spec)
    packages = packages_of(spec, root)
    return own_variables_of(program_files(file, root, packages), packages, root)


@pytest.mark.parametrize(("lines", "values"), KNOWN.values(), ids=KNOWN)
def test_a_plain_value_that_is_set_before_the_import(tmp_path: Path, lines: str, values: dict[str, str | None]) -> None:
    """The import sees it, so the fork server has it too."""
    own = read(tmp_path, {"main.py": f"import os\n{lines}\n{TF}\n"})
    assert (own.values, own.unclear) == (values, None)


@pytest.mark.parametrize("text", NOTHING.values(), ids=NOTHING)
def test_writes_after_the_import_and_variables_that_it_does_not_read(tmp_path: Path, text: str) -> None:
    """The program starts warm, and its fork server has the job's environment."""
    module = f'import os\nif __name__ == "__main__":\n    {SET}\n'
    files = {"main.py": f"import os\n{text}\n", "module.py": module, "never.py": f"import os\n{SET}"}
    assert read(tmp_path, files) == OwnVariables({})


@pytest.mark.parametrize(("line", "name"), UNCLEAR.values(), ids=UNCLEAR)
def test_values_that_the_code_does_not_show(tmp_path: Path, line: str, name: str | None) -> None:
    """One sentence names the first such line."""
    own = read(tmp_path, {"main.py": f"import os\n\n{line}\n{TF}\n"})
    what = f"{name}, which is" if name else "variables that are"
    assert own.unclear == f"main.py, line 3, may set {what} read when TensorFlow is imported"
    assert read(tmp_path, {"main.py": f"import os\n{TF}\n{line}\n"}) == OwnVariables({})


@pytest.mark.parametrize("text", CALLED.values(), ids=CALLED)
def test_a_function_that_may_be_called_before_the_import(tmp_path: Path, text: str) -> None:
    """The analysis does not find out whether it returns before that line."""
    own = read(tmp_path, {"main.py": text})
    assert own.unclear == "main.py, line 1, may set KERAS_BACKEND, which is read when TensorFlow is imported"


PLACES: dict[str, tuple[dict[str, str], bool]] = {  # programs of more files, and whether what they set counts
    "a module": ({"main.py": f"import own\n{TF}", "own.py": SET}, True),
    "a module that is imported later": ({"main.py": f"{TF}\nimport own", "own.py": SET}, False),
    "a module that is never imported": ({"main.py": f"def f():\n    import own\n{TF}", "own.py": SET}, False),
    "a module that imports first": ({"main.py": "import own", "own.py": f"{TF}\n{SET}"}, False),
    "behind a module that imports": ({"main.py": f"import own\n{SET}", "own.py": TF}, False),
    "a name of a package": ({"main.py": f"from pkg import own\n{TF}", "pkg/own.py": SET}, True),
    "a package": ({"main.py": f"import pkg.own\n{TF}", "pkg/__init__.py": SET, "pkg/own.py": ""}, True),
    "a sibling": ({"main.py": f"import pkg\n{TF}", "pkg/__init__.py": "from . import own", "pkg/own.py": SET}, True),
    "a module with a name like Keras's": ({"main.py": f"import keras_own\n{TF}", "keras_own.py": SET}, True),
    "a circle": ({"main.py": f"import own\n{TF}", "own.py": f"import own\n{SET}\nimport own"}, True),
}


@pytest.mark.parametrize(("files", "counts"), PLACES.values(), ids=PLACES)
def test_modules_are_read_in_the_order_of_their_imports(tmp_path: Path, files: dict[str, str], counts: bool) -> None:
    """As the interpreter executes them."""
    own = read(tmp_path, {name: f"import os\n{text}\n" for name, text in files.items()})
    assert (own.values, own.unclear) == ({"KERAS_BACKEND": "jax"} if counts else {}, None)


def test_a_line_of_another_file_is_named_as_that_files(tmp_path: Path) -> None:
    """Also if the line is in a function that this file calls by another name."""
    own = read(tmp_path, {"main.py": f"from own import f as g\ng()\n{TF}", "own.py": f"import os\n\ndef f(): {SET}\n"})
    assert own.unclear == "own.py, line 3, may set KERAS_BACKEND, which is read when TensorFlow is imported"


def test_the_packages_of_a_module_are_executed_before_it(tmp_path: Path) -> None:
    """As `python -m` does."""
    files = {"pkg/__init__.py": f"import os\n{SET}", "pkg/main.py": TF}
    assert read(tmp_path, files, "pkg.main").values == {"KERAS_BACKEND": "jax"}


def test_a_value_after_an_import_that_may_not_have_happened(tmp_path: Path) -> None:
    """It may be set in time or not."""
    own = read(tmp_path, {"main.py": f"import os\nif x:\n    {TF}\n{SET}\nimport keras\n"})
    assert own.unclear == "main.py, line 4, may set KERAS_BACKEND, which is read when TensorFlow is imported"


@pytest.mark.parametrize("text", [f"print 'os.environ'\n{TF}", f"os.environ{'(' * 300}", f"x = {'(' * 90}os.environ"])
def test_code_that_this_python_can_not_parse(tmp_path: Path, text: str) -> None:
    """Another Python may, so the variables are unclear."""
    own = read(tmp_path, {"main.py": text})
    assert own.unclear == "main.py, line 1, may set variables that are read when TensorFlow is imported"


def test_a_chain_of_modules_that_is_too_long(tmp_path: Path) -> None:
    """Without a traceback."""
    files = {f"m{number}.py": f"import m{number + 1}" for number in range(290)}
    own = read(tmp_path, {**files, "m290.py": f"import os\n{SET}", "main.py": "import m0"})
    assert own.unclear == "main.py is nested too deeply to see what it sets"


def test_a_default_does_not_replace_a_value() -> None:
    """As `setdefault` does; a deleted variable is not set."""
    own = OwnVariables({"KERAS_BACKEND": "jax", "OMP_DYNAMIC": "0", "TF_X": None}, frozenset({"KERAS_BACKEND"}))
    assert own.effective({"KERAS_BACKEND": "torch", "OMP_DYNAMIC": "1"}) == {"OMP_DYNAMIC": "0", "TF_X": None}
    assert own.effective({}) == {"KERAS_BACKEND": "jax", "OMP_DYNAMIC": "0", "TF_X": None}
    launch = Launch("python", {"TF_X": "1", "A": "b"}, Preload(tensorflow=True), "log", own.effective({}))
    assert launch.whole_env == {"A": "b", "KERAS_BACKEND": "jax", "OMP_DYNAMIC": "0"}
