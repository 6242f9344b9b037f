"""Names that nothing defines: found wherever they stand, and never where something may define them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from clusterkit.check.case import Case
from clusterkit.check.findings import Finding, Severity
from clusterkit.check.rules.undefined import undefined_name
from clusterkit.check.source import Source
from clusterkit.words.model import ProgramKind
from tests.check.checks import findings, line_of
from tests.histories import build_job
from tests.support import CHILDREN, WORKLOADS

SAVES = "import sys\ndef save(model):\n    prnt(model)  # here\n\n"
ROOT = Path(__file__).parents[2]


def found(text: str, strict: bool = True, **files: str) -> list[Finding]:
    """The names that the program or one of its modules uses, and that nothing defines."""
    return findings(text, {f"{name}.py": text for name, text in files.items()}, strict, rules=["undefined-name"])


def test_a_name_in_code_that_a_run_may_not_reach_is_a_warning() -> None:
    """It is found at its first use, with the name that was meant."""
    (one,) = found(f"{SAVES}for step in range(3):\n    save(step)\n    prnt(step)\n")
    assert (one.location.line, one.severity, one.word) == (line_of(SAVES), Severity.WARNING, "prnt")
    assert one.what == "The name prnt is not defined anywhere, so a run that gets to this line fails."
    assert one.advice == "Did you mean print?"


def test_a_name_that_every_run_reaches_is_an_error() -> None:
    """The line that every run reaches is named, and not an earlier one; after a failure, none is certain."""
    text = f"{SAVES}prnt(2)\n"
    assert [(one.location.line, one.severity) for one in found(text)] == [(5, Severity.ERROR)]
    assert found(text)[0].what.endswith(", so every run fails at this line.")
    assert [(one.location.line, one.severity) for one in found(text, strict=False)] == [(3, Severity.WARNING)]


def test_the_main_part_of_an_imported_module_is_not_certain() -> None:
    """What stands under `__name__ == "__main__"` runs in the program's own file alone."""
    guarded = 'if __name__ == "__main__":\n    qqqq(1)\n'
    (own,) = found(guarded)
    (imported,) = found("import data\n", data=guarded)
    assert (own.severity, imported.severity) == (Severity.ERROR, Severity.WARNING)
    assert imported.advice == "Define or import the name."


SILENT = {
    "a star import": "from mine import *\n",
    "a declaration": "def define():\n    global prnt\n",
    "exec": "exec('prnt = print')\n",
    "globals": "globals().update(prnt=print)\n",
    "vars": "vars()['prnt'] = print\n",
    "setattr": "setattr(sys.modules[__name__], 'prnt', print)\n",
    "a module's own attributes": "def __getattr__(name):\n    return print\n",
    "builtins": "import builtins\nbuiltins.prnt = print\n",
    "another module": "import config\nconfig.prnt = print\n",
    "an exception": "try:\n    pass\nexcept ValueError as prnt:\n    pass\n",
    "a rest of a mapping": "match 1:\n    case {**prnt}:\n        pass\n",
    "a rest of a sequence": "match 1:\n    case [*prnt]:\n        pass\n",
    "a pattern": "match 1:\n    case prnt:\n        pass\n",
    "a walrus": "if (prnt := print):\n    pass\n",
    "a comprehension": "[prnt for prnt in 'a']\n",
    "with": "with open('a') as prnt:\n    pass\n",
    "a class's scope": "class A:\n    prnt = print\n",
    "a parameter": "lambda prnt: 1\n",
    "del": "prnt = print\ndel prnt\n",
}


@pytest.mark.parametrize("more", SILENT.values(), ids=SILENT)
def test_a_name_that_something_may_define_is_none(more: str) -> None:
    """Whatever the scope: the rule does not judge which definition a use gets."""
    assert found(SAVES + more) == []


GIVEN = {
    "of the module": "print(__file__, __name__, __spec__, __builtins__)\n",
    "of a class": "class A:\n    def f(self):\n        return __class__, __qualname__\n",
    "of a notebook": "get_ipython().run_line_magic('time', '')\ndisplay(_)\n",
    "an annotation": "def f(x: Tensr) -> Tensr:\n    y: Tensr = x\n    return y\n",
    "caught": "try:\n    unicode\nexcept NameError:\n    pass\n",
    "expected": "import pytest\nwith pytest.raises(NameError):\n    unicode\n",
    "of Python 2": "import sys\nif sys.version_info < (3,):\n    text = unicode\n",
}


@pytest.mark.parametrize("text", GIVEN.values(), ids=GIVEN)
def test_a_name_that_others_give_or_that_is_expected_to_miss_is_none(text: str) -> None:
    """Python, a notebook, or code for another version of Python."""
    assert found(text) == []


def _programs() -> Iterator[Path]:
    for directory in (WORKLOADS, CHILDREN, ROOT / "clusterkit"):
        yield from directory.rglob("*.py")


def test_no_program_of_this_project_has_a_finding() -> None:
    """Neither the examples, nor the package, nor the tests' programs but the one that makes this mistake."""
    wrong, job, read = [], build_job({"program": "main.py"}, ProgramKind.SCRIPT), 0
    for path in _programs():
        case = Case([Source(str(path), path.stem, path.read_bytes())], job)
        wrong += [str(hit.location) for hit in undefined_name(case)]
        read += 1
    assert read > 500
    assert wrong == [f"{CHILDREN / 'mistakes' / 'older_python.py'}:5"]
