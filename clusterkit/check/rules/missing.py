"""The rules about modules that are not installed, and about names that TensorFlow, Keras and NumPy do not have.

They apply where the tasks use clusterkit's own environment. What another interpreter, or another host, has installed is
not looked at.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from clusterkit.check.case import Case, Environment, Hit
from clusterkit.check.findings import Severity
from clusterkit.check.source import Source, handles

_PACKAGES = {"tensorflow": "TensorFlow", "keras": "Keras", "tf_keras": "Keras 2", "numpy": "NumPy"}
# Code that tests what is installed, or which version, and errors that show it.
_TESTS = re.compile(r"version|'hasattr'|'getattr'|'find_spec'|TYPE_CHECKING|PY2|PY3")
_HANDLERS = re.compile(r"'(?:ImportError|ModuleNotFoundError|AttributeError|Exception|BaseException)'|suppress|raises")
# A program that mentions these may find modules elsewhere, create them, or install them.
_FINDERS = re.compile(
    r"^(?:sys\.path|sys\.modules|sys\.meta_path|site|importlib|subprocess|imp|zipimport|runpy)(?:\.|$)"
)
_MAKERS = re.compile(r"\.py$|\bpip\b|\bgit clone\b|\bPYTHONPATH\b|^(?:system|popen|exec|eval|__import__|__path__)$")


def missing_module(case: Case) -> Iterator[Hit]:
    """Find imports of modules that are not installed, and that the program does not have either."""
    environment = case.environment
    if environment is None or any(_may_find_modules(source) for source in case.sources):
        return
    told = set[str]()
    for source in case.sources:
        for node, module in _imported_modules(source):
            top = module.partition(".")[0]
            if top in told or not case.applies(source, node) or _is_guarded(source, node):
                continue
            if not environment.has_module(top):
                told.add(top)
                python = environment.interpreter
                what = f"The tasks' interpreter, {python}, has no module {top}, so every run fails at this line."
                advice = "Install what provides it in this environment, or choose another interpreter with --python."
                yield Hit(source.location(node), what, advice, top, case.severity())


def missing_name(case: Case) -> Iterator[Hit]:
    """Find names that the installed TensorFlow, Keras or NumPy does not have, such as `tf.estimator`."""
    environment = case.environment
    if environment is None or any("modules" in _attributes(source) for source in case.sources):
        return
    packages = set(filter(environment.is_package, _PACKAGES))
    set_here = {name for source in case.sources for name in _set_names(source)}
    told = dict[str, Hit]()
    for source in case.sources:
        for node, name in _names_of(packages, source):
            missing = environment.missing_part(name, case.keras)
            if not missing or missing in set_here or _is_guarded(source, node):
                continue
            is_sure = case.strict and case.applies(source, node)
            hit = Hit(source.location(node), *_sentences(environment, missing, is_sure), case.severity(is_sure))
            if missing not in told or (told[missing].severity, hit.severity) == (Severity.WARNING, Severity.ERROR):
                told[missing] = hit
    yield from told.values()


def _sentences(environment: Environment, missing: str, is_sure: bool) -> tuple[str, str, str]:
    """Return what is said of a missing name, the advice, and the name as people write it."""
    top, _, rest = missing.partition(".")
    fate = "every run fails at this line" if is_sure else "a run that gets to this line fails"
    package = " ".join(filter(None, (_PACKAGES[top], environment.version(top))))
    name = f"tf.{rest}" if top == "tensorflow" else f"np.{rest}" if top == "numpy" else missing
    advice = "Use what this version has instead, or another version with --python."
    is_of_tensorflow = top == "tensorflow" and not rest.startswith(("keras.", "compat."))
    if is_of_tensorflow and not environment.missing_part(f"tensorflow.compat.v1.{rest}", 3):
        advice = f"It is a name of TensorFlow 1, which tf.compat.v1.{rest} still has."
    return f"{package} has no {name}, so {fate}.", advice, name


def _may_find_modules(source: Source) -> bool:
    """Return whether a file may find, create or install modules in ways that can't be followed."""
    names = (source.imported_name(node) for node in source.nodes)
    return any(map(_FINDERS.search, names)) or source.mentions(_MAKERS)


def _attributes(source: Source) -> set[str]:
    return {node.attr for node in source.nodes if isinstance(node, ast.Attribute)}


def _imported_modules(source: Source) -> Iterator[tuple[ast.AST, str]]:
    for node in source.nodes:
        match node:
            case ast.Import(names=aliases):
                yield from ((node, alias.name) for alias in aliases)
            case ast.ImportFrom(module=str(module), level=0):
                yield node, module


def _names_of(packages: set[str], source: Source) -> Iterator[tuple[ast.AST, str]]:
    """Yield the full names of what a file imports from packages, or reads there, each with its node."""
    for node in source.nodes:
        found = list[str]()
        match node:
            case ast.Import(names=aliases):
                found = [alias.name for alias in aliases]
            case ast.ImportFrom(module=str(module), names=aliases, level=0):
                found = [module if alias.name == "*" else f"{module}.{alias.name}" for alias in aliases]
            case ast.Attribute(ctx=ast.Load()):
                found = [source.imported_name(node)]
        yield from ((node, name) for name in found if name.partition(".")[0] in packages)


def _set_names(source: Source) -> Iterator[str]:
    """Yield the full names of imported objects to which a file assigns, as in `tf.contrib = other`."""
    for node in source.nodes:
        if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store | ast.Del):
            yield source.imported_name(node)


def _is_guarded(source: Source, node: ast.AST) -> bool:
    """Return whether the program expects that the name may be missing: it handles the error, or tests a version."""
    for outer in source.enclosing(node):
        if handles(outer, _HANDLERS):
            return True
        match outer:
            case ast.If(test=test) | ast.IfExp(test=test) | ast.While(test=test):
                if _TESTS.search(ast.dump(test)):
                    return True
            case ast.BoolOp() if _TESTS.search(ast.dump(outer)):
                return True
    return False
