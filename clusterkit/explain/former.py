"""Recognizes errors about names of TensorFlow 1, Keras 2 and NumPy 1 that later versions no longer have."""

from __future__ import annotations

import re
from functools import cache

from clusterkit.explain.former_names import NAMES, OLDER, REPLACED
from clusterkit.explain.row import Condition, Evidence, Words

_PARAGRAPH = re.compile(r"^(\S+): (.*(?:\n  .*)*)", re.MULTILINE)
_MODULE = (
    r"(?P<root>tensorflow\.keras|keras|tensorflow|numpy)(?:_core)?"
    r"(?:\._tf_keras\.keras|\.api\._v\d\.keras|\.api|\._api\.v\d)?"
)
_PART = r"(?P<part>(?:\.[a-z]\w*)*)"
_ATTRIBUTE = re.compile(rf"AttributeError: module '{_MODULE}{_PART}' has no attribute '(?P<name>\w+)'")
_IMPORT = re.compile(rf"ImportError: cannot import name '(?P<name>\w+)' from '{_MODULE}{_PART}'")
_SUBMODULE = re.compile(rf"ModuleNotFoundError: No module named '{_MODULE}{_PART}\.(?P<name>\w+)'")
_SHORT = {"tensorflow": "tf", "keras": "tf.keras", "numpy": "np"}
_FORMS = (_ATTRIBUTE, _IMPORT, _SUBMODULE)
_OLDER = "Look up at keras.io/api what replaces {name}. --keras 2 does not help, since Keras 2 has no {name} either."


def former(root: str) -> Condition:
    """Return a condition that holds if the error is about a name that was removed from the package `root`.

    The condition's values are {name} and {full}, the name with its module, as in `tf.train.Saver`.
    """

    def holds(evidence: Evidence) -> Words | None:
        for found in filter(None, (form.search(evidence.first.text) for form in _FORMS)):
            package = found["root"].rpartition(".")[2]
            if package == root and found["name"] in names().get(f"{root}{found['part']}", ()):
                return {"name": found["name"], "full": f"{_SHORT[root]}{found['part']}.{found['name']}"}
        return None

    return holds


@cache
def names() -> dict[str, frozenset[str]]:
    """Return the removed names by module, such as `tensorflow.train`."""
    return _listed(NAMES)


def _listed(text: str) -> dict[str, frozenset[str]]:
    return {module: frozenset(listed.split()) for module, listed in _PARAGRAPH.findall(text)}


def replaced(root: str, otherwise: str) -> Condition:
    """Return the condition `former(root)` with a further value {advice} for names with a replacement or in `OLDER`.

    `otherwise` is a sentence with an alternative to the replacement. It is left out for names in `OLDER`.
    """

    def holds(evidence: Evidence) -> Words | None:
        words = former(root)(evidence)
        if words is None:
            return None
        module, _, name = words["full"].replace("tf.keras", "keras", 1).rpartition(".")
        older, new = name in _listed(OLDER).get(module, ()), replacements().get(words["full"])
        if new is None:
            return {**words, "advice": _OLDER.format_map(words)} if older else words
        return {**words, "advice": f"Write {new}." if older else f"Write {new}. {otherwise}"}

    return holds


@cache
def replacements() -> dict[str, str]:
    """Return the replacements of removed names such as `tf.train.Saver`."""
    pairs = (line.partition(": ") for line in REPLACED.strip().split("\n"))
    return {name: new for name, _, new in pairs}
