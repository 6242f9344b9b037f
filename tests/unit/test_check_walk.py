"""How the check follows a program: names, calls, conditions, modules; and what it leaves open."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from clusterkit.cli.options import given
from clusterkit.cli.up import command
from clusterkit.rules.check import check
from clusterkit.rules.source import Text
from clusterkit.rules.spec import build_job
from clusterkit.words.findings import Severity, Versions
from clusterkit.words.model import ProgramKind
from tests.support import CHILDREN, WORKLOADS
from tests.unit.checks import NOW, findings, told

LATE = "error strategy-after-operations"
MAYBE = "warning strategy-after-operations"
TF = "import tensorflow as tf\n"
MADE = "tf.distribute.MultiWorkerMirroredStrategy()"
TWO: dict[str, Any] = {"workers": 2}

ALIASES = {
    "as people write it": "import tensorflow as tf\ntf.zeros(1)\ns = tf.distribute.MultiWorkerMirroredStrategy()",
    "its whole name": "import tensorflow\ntensorflow.zeros(1)\ntensorflow.distribute.MultiWorkerMirroredStrategy()",
    "from": "from tensorflow import distribute as d, zeros\nzeros(1)\nd.MultiWorkerMirroredStrategy()",
    "the name alone": (
        "import tensorflow as tf\nfrom tensorflow.distribute import MultiWorkerMirroredStrategy as M\ntf.zeros(1)\nM()"
    ),
    "experimental": "import tensorflow as tf\ntf.zeros(1)\ntf.distribute.experimental.MultiWorkerMirroredStrategy()",
    "compat": "import tensorflow.compat.v2 as tf\ntf.zeros(1)\ntf.distribute.MultiWorkerMirroredStrategy()",
    "a variable": "import tensorflow as tf\nd = tf.distribute\nm = d.MultiWorkerMirroredStrategy\ntf.zeros(1)\nm()",
    "Keras of its own": "import tensorflow as tf\nfrom tensorflow import keras\nkeras.optimizers.Adam()\n" + MADE,
    "Keras alone": f"import keras\nimport tensorflow as tf\nkeras.metrics.Mean()\n{MADE}",
    "clusterkit's": "import tensorflow as tf\nfrom clusterkit import training\ntf.zeros(1)\ntraining.strategy()",
    "clusterkit's, by name": (
        "import tensorflow as tf\nfrom clusterkit.training import strategy\ntf.zeros(1)\nstrategy('multi-worker')"
    ),
}


@pytest.mark.parametrize("text", ALIASES.values(), ids=ALIASES)
def test_a_thing_is_known_by_all_its_names(text: str) -> None:
    """Whichever way it was imported."""
    assert told(text, **TWO) == [LATE]


CERTAIN = {
    "in a function": f"def main():\n    tf.zeros(1)\n    s = {MADE}\nmain()",
    "in two": f"def first():\n    return tf.zeros(1)\ndef then():\n    return {MADE}\nfirst()\nthen()",
    "in the program's end": f"def main():\n    tf.zeros(1)\n    {MADE}\nif __name__ == '__main__':\n    main()",
    "with an exit code": f"import sys\ndef main():\n    tf.zeros(1)\n    {MADE}\nsys.exit(main())",
    "called back": f"from absl import app\ndef main(argv):\n    tf.zeros(1)\n    {MADE}\napp.run(main)",
    "a method": f"class T:\n def __init__(self):\n  tf.zeros(1)\n def run(self):\n  {MADE}\nT().run()",
    "a method of a base": f"class A:\n    def go(self):\n        {MADE}\nclass B(A): ...\nb = B()\ntf.zeros(1)\nb.go()",
    "through an attribute": f"class T:\n  def __init__(self):\n    self.make = tf.zeros\nt = T()\nt.make(1)\n{MADE}",
    "an argument": f"def use(make):\n    make(1)\nuse(tf.zeros)\n{MADE}",
    "a keyword": f"def use(make):\n    make(1)\nuse(make=tf.zeros)\n{MADE}",
    "in with": f"with tf.name_scope('a'):\n    tf.zeros(1)\n{MADE}",
    "in both branches": f"if ready():\n    tf.zeros(1)\nelse:\n    tf.ones(1)\n{MADE}",
    "behind a check of arguments": f"if not ready():\n    raise SystemExit(2)\ntf.zeros(1)\n{MADE}",
    "in an endless loop": f"while True:\n    tf.zeros(1)\n    {MADE}",
    "in a default": f"def f(x=1): ...\nf(tf.zeros(1))\n{MADE}",
    "in try and finally": f"try:\n    tf.zeros(1)\n    {MADE}\nfinally:\n    close()",
    "two strategies": f"{MADE}\n{MADE}",
}
OPEN = {
    "in a loop": f"for x in y:\n    tf.zeros(1)\n{MADE}",
    "in try": f"try:\n    tf.zeros(1)\nexcept ValueError:\n    pass\n{MADE}",
    "in match": f"match x:\n    case 1:\n        tf.zeros(1)\n{MADE}",
    "made in a branch": f"tf.zeros(1)\nif ready():\n    {MADE}",
    "made in an expression": f"tf.zeros(1)\ns = {MADE} if ready() else None",
    "behind a return": f"def main():\n    if ready():\n        return\n    tf.zeros(1)\n    {MADE}\nmain()",
    "a decorator that may do anything": f"@ours.once\ndef main():\n    {MADE}\ntf.zeros(1)\nmain()",
}
NOTHING = {
    "a function that nobody calls": f"def never():\n    tf.zeros(1)\n{MADE}",
    "what is only passed on": f"dataset.map(lambda x: tf.zeros(1))\n{MADE}",
    "a graph": f"@tf.function\ndef step():\n    tf.zeros(1)\nstep()\n{MADE}",
    "another branch": f"if ready():\n    tf.zeros(1)\n    raise SystemExit\n{MADE}",
    "the other branch": f"if ready():\n    tf.zeros(1)\nelse:\n    {MADE}",
    "for the evaluator": f"if kind == 'evaluator' and task_type:\n    tf.zeros(1)\n{MADE}",
    "for a single process": f"import os\nalone = 'TF_CONFIG' not in os.environ\nif alone:\n    tf.zeros(1)\n{MADE}",
    "known to be no ps job": f"from clusterkit import training\nif training.has_ps():\n    tf.zeros(1)\n{MADE}",
    "types only": f"from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    tf.zeros(1)\n{MADE}",
    "afterwards": f"s = {MADE}\ntf.zeros(1)",
    "numbers": f"import numpy as np\nnp.zeros(1)\nrange(3)\n{MADE}",
    "a name of its own": f"def zeros(n): ...\nzeros(1)\n{MADE}",
    "a call of itself": f"def f():\n    f()\nf()\n{MADE}",
}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        *((text, [LATE]) for text in CERTAIN.values()),
        *((text, [MAYBE]) for text in OPEN.values()),
        *((text, []) for text in NOTHING.values()),
    ],
    ids=[*CERTAIN, *OPEN, *NOTHING],
)
def test_the_order_in_which_a_program_runs(text: str, expected: list[str]) -> None:
    """An error where it is certain, a warning where it hangs on something, silence elsewhere."""
    assert told(TF + text, **TWO) == expected


LOAD = f"{TF}def load():\n    return tf.zeros(1)\n"
MODULES = {
    "import": ("import data\n", {"data.py": TF + "x = tf.zeros(1)\n"}),
    "import as": ("import data as d\nd.load()\n", {"data.py": LOAD}),
    "from": ("from data import load\nload()\n", {"data.py": LOAD}),
    "a package": ("from pkg import load\nload()\n", {"pkg/__init__.py": "from .a import load\n", "pkg/a.py": LOAD}),
    "a module of a package": ("import pkg.a\npkg.a.load()\n", {"pkg/__init__.py": "", "pkg/a.py": LOAD}),
    "beside it": ("from pkg import b\n", {"pkg/b.py": "from . import c\nc.load()\n", "pkg/c.py": LOAD}),
}


@pytest.mark.parametrize(("text", "files"), MODULES.values(), ids=MODULES)
def test_its_own_modules_are_followed(text: str, files: dict[str, str]) -> None:
    """They run where they are imported, and the finding names the file."""
    (found,) = (each for each in findings(TF + text + MADE, files, **TWO) if each.severity is Severity.ERROR)
    assert found.place.file == "main.py"
    assert re.search(r"since (data|pkg/[ac])\.py:\d", found.what)


def test_a_modules_own_main_is_not_run_by_an_import() -> None:
    """What is under its `if __name__` is for another day."""
    files = {"data.py": f"{TF}if __name__ == '__main__':\n    tf.zeros(1)\n"}
    assert told(f"{TF}import data\n{MADE}", files=files, **TWO) == []


def test_what_is_no_tensorflow_program_is_left_alone() -> None:
    """Whatever it does with TF_CONFIG."""
    assert findings("import os\nos.environ['TF_CONFIG'] = '{}'\n", workers=2, ps=1) == []


@pytest.mark.parametrize("text", ["x = " + "(" * 90 + "1" + ")" * 90, "x = " + "-" * 3000 + "1", "f" + ".a" * 3000])
def test_a_text_that_nests_deeply_is_no_crash(text: str) -> None:
    """It has no finding, or one that says so."""
    assert {each.id for each in findings(TF + text, workers=2)} <= {"syntax-error"}


def test_a_module_that_is_no_python_leaves_the_question_open() -> None:
    """It may be for another Python, or never be imported: what it does is not known."""
    program = f"{TF}s = tf.distribute.ParameterServerStrategy(r)\n"
    assert told(program, workers=2, ps=1) == ["error nobody-serves"]
    assert told(program + "import other\n", files={"other.py": "print 'x'\n"}, workers=2, ps=1) == []


def named(program: Path) -> list[str]:
    """The commands in a program's docstring."""
    return re.findall(r"^ +clusterkit up (.*)", program.read_text(), re.M)


@pytest.mark.parametrize(
    ("program", "words"),
    [(path, words) for path in sorted(WORKLOADS.glob("*.py")) for words in named(path)],
    ids=lambda value: value if isinstance(value, str) else value.stem,
)
def test_no_workload_has_a_finding(program: Path, words: str) -> None:
    """Each as its docstring says that it is started."""
    with command.make_context("up", words.split()) as context:
        options = given({name: value for name, value in context.params.items() if name not in ("detach", "no_wait")})
    assert options["program"] == f"workloads/{program.name}"
    assert check(texts_of(program), build_job(options, ProgramKind.SCRIPT), NOW) == []


TUTORIALS: list[tuple[str, dict[str, Any]]] = [
    ("main.py", TWO),
    ("loop.py", TWO),
    ("coordinator.py", {"workers": 2, "ps": 2}),
    ("creator.py", {"workers": 2, "ps": 1, "keras": 2, "servers": "builtin"}),
]


@pytest.mark.parametrize(("name", "options"), TUTORIALS, ids=lambda value: value if isinstance(value, str) else "")
def test_no_form_of_a_tutorial_has_an_error(name: str, options: dict[str, Any]) -> None:
    """They run as they are; that one never saves is worth a warning."""
    program = CHILDREN / "tutorials" / name
    job = build_job({"program": str(program), **options}, ProgramKind.SCRIPT)
    assert {found.id for found in check(texts_of(program), job, Versions((2, 21), 3))} <= {
        "no-checkpoint",
        "never-restored",
    }


def texts_of(program: Path) -> list[Text]:
    """A program's text, and those of all files beside it, for it to import."""
    files = [program, *(path for path in sorted(program.parent.glob("*.py")) if path != program)]
    return [Text(path.name, path.stem, path.read_bytes()) for path in files]
