"""The names that installed packages define, read from their files: nothing is imported, and no process is started.

A package may define names in ways that can't be read, for example by `from x import *` or a function `__getattr__`.
Nothing is said about the names of such a package.
"""

from __future__ import annotations

import ast
import functools
import importlib.util
import sys
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from importlib import metadata
from importlib.machinery import PathFinder
from pathlib import Path

from clusterkit.check.parsing import tree_of

MOST_BYTES = 1 << 20  # larger files are not read
# TensorFlow's directories that are no part of its API. Their modules define names in many ways.
_INTERNAL = ("python", "core", "compiler", "lite", "tools", "tsl", "dtensor", "include")
# The package of which `tf.keras` is an alias, by the major version of Keras.
_KERAS_OF_TENSORFLOW = {3: "keras._tf_keras.keras", 2: "tf_keras.api._v2.keras"}
# NumPy looks for removed names in these dictionaries, and raises AttributeError.
_REMOVED = ("__expired_attributes__", "__former_attrs__")
_REMOVED_FILE = "_expired_attrs_2_0.py"
# The builtins of which NumPy had aliases until version 1.24.
_FORMER_ALIASES = frozenset({"object", "float", "int", "complex"})


@dataclass(frozen=True, slots=True)
class Installed:
    """The environment of clusterkit's own interpreter. The program imports its own modules from `places`."""

    places: Sequence[Path]

    @property
    def interpreter(self) -> str:
        return sys.executable

    def has_module(self, name: str) -> bool:
        return is_in(name, self.places) or is_installed(name)

    def is_package(self, name: str) -> bool:
        return not is_in(name, self.places) and is_installed(name)

    def missing_part(self, name: str, keras: int) -> str:
        return missing_part(name, keras)

    def version(self, package: str) -> str:
        return version_of(package)


Names = Mapping[str, str]  # maps each name to the module from which it is imported; "" if it is defined here


def is_in(module: str, places: Iterable[Path]) -> bool:
    """Return whether a top-level module can be imported from one of these directories."""
    with suppress(ImportError, ValueError, AttributeError, OSError):
        return PathFinder.find_spec(module, [str(place) for place in places]) is not None
    return False


def is_installed(module: str) -> bool:
    """Return whether a top-level module can be imported from this environment."""
    if module in sys.stdlib_module_names or module == "clusterkit":
        return True
    try:
        return importlib.util.find_spec(module) is not None
    except (ImportError, ValueError, AttributeError, OSError):  # a module in a state that nobody expects
        return True


def version_of(package: str) -> str:
    """Return the version of an installed package; "" if it is unknown."""
    with suppress(metadata.PackageNotFoundError):
        return metadata.version(package)
    return ""


def missing_part(name: str, keras: int = 3) -> str:
    """Return the first part of a full name that its package does not define; "" if it exists, or if nobody knows.

    `keras` is the major version of `tf.keras`.
    """
    top, *parts = name.split(".")
    if top == "numpy":
        return _missing_in_numpy(parts)
    place = _directory(top)
    if place is None or (top == "tensorflow" and parts and parts[0] in _INTERNAL):
        return ""
    path = top
    for part in parts:
        names = _names(place)
        if names is None or (part.startswith("__") and part.endswith("__")):
            return ""
        if part not in names and not _is_submodule(place, part):
            return f"{path}.{part}"
        path = f"{path}.{part}"
        source = _KERAS_OF_TENSORFLOW[keras] if path == "tensorflow.keras" else f"{names.get(part, '')}.{part}"
        # The module that the package imports under this name hides a directory of this name.
        following = _directory(source) or place / part
        if not following.is_dir():  # an object, or a module that is a single file
            return ""
        place = following
    return ""


def _missing_in_numpy(parts: list[str]) -> str:
    place = _directory("numpy")
    if place is None or not parts:
        return ""
    removed = set(_FORMER_ALIASES) if version_of("numpy").partition(".")[0] == "2" else set()
    for file in (place / "__init__.py", place / _REMOVED_FILE):
        removed |= _keys_of_removed(file)
    names = _names(place, may_be_dynamic=True) or {}
    return f"numpy.{parts[0]}" if parts[0] in removed and parts[0] not in names else ""


@functools.cache
def _keys_of_removed(file: Path) -> frozenset[str]:
    """Return the keys of the dictionaries in which NumPy looks for removed names."""
    found = set[str]()
    tree = _parsed(file)
    for node in [] if tree is None else ast.walk(tree):
        match node:
            case ast.Assign(targets=[ast.Name(id=name)], value=ast.Dict(keys=keys)) if name in _REMOVED:
                found |= {key.value for key in keys if isinstance(key, ast.Constant) and isinstance(key.value, str)}
    return frozenset(found)


@functools.cache
def _directory(name: str) -> Path | None:
    """Return the directory of an installed package, such as `keras._tf_keras.keras`; None if there is none."""
    top, *parts = name.split(".")
    with suppress(ImportError, ValueError, AttributeError, OSError):
        spec = importlib.util.find_spec(top) if top else None
        # A package that has been imported, as in a notebook, may have added to the places of its modules.
        file = Path(spec.origin) if spec is not None and spec.origin is not None else Path()
        place = file.parent.joinpath(*parts)
        if file.name == "__init__.py" and (place / "__init__.py").is_file():
            return place
    return None


def _is_submodule(place: Path, name: str) -> bool:
    """Return whether a package has a module of this name, in Python or compiled."""
    if (place / name).is_dir() or (place / f"{name}.py").is_file():
        return True
    return any(place.glob(f"{name}.*")) if name.isidentifier() else False


@functools.cache
def _names(place: Path, may_be_dynamic: bool = False) -> Names | None:
    """Return the names that a package's `__init__.py` binds; None if it may bind others as well."""
    tree = _parsed(place / "__init__.py")
    if tree is None:
        return None
    names = dict[str, str]()
    todo: list[ast.AST] = [tree]
    while todo:
        node = todo.pop()
        match node:
            case ast.ImportFrom(module=module, names=aliases):
                for alias in aliases:
                    names[alias.asname or alias.name] = module or ""
            case ast.Import(names=aliases):
                for alias in aliases:
                    names[alias.asname or alias.name.partition(".")[0]] = ""
            case ast.Name(id=name, ctx=ast.Store()):
                names[name] = ""
            case ast.Call(func=ast.Name("setattr"), args=[_, ast.Constant(str(name)), _]):
                names[name] = ""
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
                names[name] = ""
                continue  # what is inside does not bind names of the module
        todo += ast.iter_child_nodes(node)
    is_dynamic = "*" in names or "__getattr__" in names
    return None if is_dynamic and not may_be_dynamic else names


def _parsed(file: Path) -> ast.Module | None:
    """Parse a file of a package; None if it can't be parsed."""
    try:
        return tree_of(file.read_bytes()) if file.stat().st_size <= MOST_BYTES else None
    except OSError:
        return None
