"""Whether a program imports TensorFlow, as its text says."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from clusterkit.check import imports
from clusterkit.check.imports import imports_tensorflow, module_file, program_files
from tests.support import WORKLOADS

FINDS = {  # what a program says, for which a fork server imports TensorFlow
    "plain": "import tensorflow",
    "under a name": "import tensorflow as tf",
    "a module of it": "import tensorflow.compat.v1 as tf",
    "from": "from tensorflow import keras",
    "from a module of it": "from tensorflow.python.eager import context",
    "its own Keras": "import keras",
    "Keras 2": "import tf_keras as keras",
    "what is built on it": "import tensorflow_probability as tfp",
    "second of two": "import os, tensorflow as tf",
    "third, with a name before": "import os, json as j, tensorflow",
    "with spaces": "import\ttensorflow  as  tf",
    "in a function": "def main():\n    import tensorflow as tf\n",
    "in a try on one line": "try: import tensorflow as tf\nexcept ImportError: tf = None\n",
    "behind a semicolon": "import os; import tensorflow as tf",
    "on the next line": "import os, \\\n    tensorflow as tf\n",
    "from, on the next line": "from tensorflow \\\n    import keras\n",
    "in Windows' lines": "import os\r\nimport tensorflow as tf\r\n",
    "after a byte order mark": "\ufeffimport tensorflow as tf\n",
    "in a file that this Python can't parse": "print 'old'\nimport tensorflow as tf\nmatch = = 1\n",
    "in a text, which is wrong and does no harm": '"""Try:\n\nimport tensorflow\n"""\n',
}
FINDS_NOT = {
    "nothing": "",
    "other modules": "import os, sys\nfrom pathlib import Path\n",
    "a comment": "# import tensorflow\nx = 1  # import tensorflow\n",
    "a name in a text": "print('import tensorflow')\n",
    "a name that begins so": "import tensorflowjs, kerastuner\n",
    "a name of an installed module": "from sklearn import keras_like\n",
    "an attribute": "x.tensorflow = 1\n",
    "a name of its own": "import os as tensorflow\n",
    "a name that is too long for a file": f"import {'a' * 300}\n",
    "a relative import above everything": f"from {'.' * 60} import x\n",
}


def program(place: Path, files: dict[str, str], main: str = "main.py") -> bool:
    """Whether a program with these files is found to import TensorFlow."""
    for name, text in files.items():
        (place / name).parent.mkdir(parents=True, exist_ok=True)
        (place / name).write_bytes(text.encode())
    return imports_tensorflow(program_files(place / main, place))


@pytest.mark.parametrize("text", FINDS.values(), ids=FINDS)
def test_what_a_program_imports_is_found(tmp_path: Path, text: str) -> None:
    """Every way to write an import is found."""
    assert program(tmp_path, {"main.py": text})


@pytest.mark.parametrize("text", FINDS_NOT.values(), ids=FINDS_NOT)
def test_what_a_program_does_not_import_is_not_found(tmp_path: Path, text: str) -> None:
    """A fork server would cost seconds for nothing."""
    assert not program(tmp_path, {"main.py": text})


TF = "import tensorflow as tf"
FOLLOWED = {  # what stands between a program and its import of TensorFlow
    "a module": {"main.py": "import net", "net.py": TF},
    "a module in a function": {"main.py": "def f():\n  from net import g", "net.py": TF},
    "a chain": {"main.py": "import a", "a.py": "import b", "b.py": "import c", "c.py": TF},
    "a package": {"main.py": "import pkg", "pkg/__init__.py": TF},
    "a package's module": {"main.py": "import pkg.net", "pkg/__init__.py": "", "pkg/net.py": TF},
    "a package above a module": {"main.py": "import pkg.net", "pkg/__init__.py": TF, "pkg/net.py": ""},
    "a module as a name of its package": {"main.py": "from pkg import net", "pkg/__init__.py": "", "pkg/net.py": TF},
    "a second name": {"main.py": "from pkg import x as y, net as n", "pkg/__init__.py": "", "pkg/net.py": TF},
    "a package without __init__": {"main.py": "from pkg.sub import net", "pkg/sub/net.py": TF},
    "names in parentheses": {"main.py": "from pkg import (x, net)", "pkg/net.py": TF},
    "names on lines of their own": {
        "main.py": "from pkg import (\n    x,  # (the first)\n    net as n,\n)\n",
        "pkg/net.py": TF,
    },
    "names on the next line": {"main.py": "from pkg import x, \\\n    net\n", "pkg/net.py": TF},
    "a sibling": {"main.py": "import pkg", "pkg/__init__.py": "from . import net", "pkg/net.py": TF},
    "siblings in lines": {"main.py": "import pkg", "pkg/__init__.py": "from . import (\n  net,\n)", "pkg/net.py": TF},
    "a sibling's name": {"main.py": "import pkg", "pkg/__init__.py": "from .net import f", "pkg/net.py": TF},
    "an aunt": {"main.py": "import p.q", "p/q/__init__.py": "from ..net import f", "p/net.py": TF},
    "everything of a module": {"main.py": "from net import *", "net.py": TF},
    "a circle": {"main.py": "import a", "a.py": "import b, main", "b.py": "import a\nimport c", "c.py": TF},
}


@pytest.mark.parametrize("files", FOLLOWED.values(), ids=FOLLOWED)
def test_a_programs_own_modules_are_followed(tmp_path: Path, files: dict[str, str]) -> None:
    """TensorFlow may be imported in any of them."""
    assert program(tmp_path, files)
    assert not program(tmp_path / "other", {name: text.replace(TF, "") for name, text in files.items()})


def test_circular_imports_end(tmp_path: Path) -> None:
    """Each file is read once."""
    assert not program(tmp_path, {"main.py": "import a, main", "a.py": "from . import main, a"})


def test_the_number_of_files_is_limited(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A program with thousands of modules does not delay the start."""
    monkeypatch.setattr(imports, "MOST_FILES", 10)
    files = {f"m{number}.py": f"import m{number + 1}" for number in range(20)}
    assert not program(tmp_path, {**files, "m20.py": TF}, main="m0.py")


def test_an_open_parenthesis_costs_no_time(tmp_path: Path) -> None:
    """The pattern does not backtrack, which would take years."""
    comments = "".join(f"    # a comment, the {number}th\n" for number in range(2000))
    assert not program(tmp_path, {"main.py": "from pkg import (\n" + comments * 2})


def test_modules_in_pythonpath_are_the_programs_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Modules elsewhere are installed packages, and are not followed."""
    main, library = tmp_path / "program", tmp_path / "library"
    for directory in (main, library):
        directory.mkdir()
    (main / "main.py").write_text("import net")
    (library / "net.py").write_text(TF)
    monkeypatch.delenv("PYTHONPATH", raising=False)
    assert not imports_tensorflow(program_files(main / "main.py", main))
    monkeypatch.setenv("PYTHONPATH", f"/no/where{os.pathsep}{os.pathsep}{library}")
    assert imports_tensorflow(program_files(main / "main.py", main))


@pytest.mark.parametrize("what", ["nothing", "a directory", "a pipe", "no name"])
def test_what_can_not_be_read_imports_nothing(tmp_path: Path, what: str) -> None:
    """Other checks decide if the program can run."""
    path = tmp_path / "main.py"
    if what == "a directory":
        path.mkdir()
    elif what == "a pipe":
        os.mkfifo(path)
    assert not imports_tensorflow(program_files(None if what == "no name" else path, tmp_path))


def test_a_module_that_is_no_file_is_not_followed(tmp_path: Path) -> None:
    """It may be a directory with the name of a module's file, or a broken link."""
    (tmp_path / "net.py").mkdir()
    (tmp_path / "gone.py").symlink_to("nowhere.py")
    assert not program(tmp_path, {"main.py": "import net, gone"})


MODULES = {  # what `-m` is given: the files, and which one runs
    "train": ({"train.py": ""}, "train.py"),
    "pkg.train": ({"pkg/__init__.py": "", "pkg/train.py": ""}, "pkg/train.py"),
    "pkg": ({"pkg/__init__.py": "", "pkg/__main__.py": ""}, "pkg/__main__.py"),
    "pkg.sub": ({"pkg/__init__.py": "", "pkg/sub/__init__.py": "", "pkg/sub/__main__.py": ""}, "pkg/sub/__main__.py"),
    "plain": ({"plain/__main__.py": ""}, "plain/__main__.py"),
    "installed": ({}, None),
}


@pytest.mark.parametrize("name", MODULES)
def test_the_file_that_a_module_runs(tmp_path: Path, name: str) -> None:
    """A package runs its `__main__`."""
    files, runs = MODULES[name]
    for file in files:
        (tmp_path / file).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / file).touch()
    assert module_file(name, tmp_path) == (None if runs is None else tmp_path / runs)


def test_a_module_comes_from_pythonpath_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """PYTHONPATH comes after the working directory, which is first in `sys.path`."""
    here, there = tmp_path / "here", tmp_path / "there"
    for directory in (here, there):
        directory.mkdir()
    (there / "train.py").touch()
    monkeypatch.setenv("PYTHONPATH", str(there))
    assert module_file("train", here) == there / "train.py"
    (here / "train.py").touch()
    assert module_file("train", here) == here / "train.py"


@pytest.mark.parametrize("name", ["ps_train.py", "mwms_train.py"])
def test_the_workloads_start_warm(name: str) -> None:
    """They import TensorFlow, in whatever module."""
    assert imports_tensorflow(program_files(WORKLOADS / name, WORKLOADS))


def test_clusterkit_itself_is_not_followed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise it would be followed in a checkout."""
    monkeypatch.setenv("PYTHONPATH", str(WORKLOADS.parent))
    assert len(program_files(WORKLOADS / "ps_train.py", WORKLOADS)) == 3  # itself, digits.py and slow.py
