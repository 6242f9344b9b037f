"""Judges an interpreter and its packages, by their metadata."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

from clusterkit.doctor.diagnosis import Grade, Judged
from clusterkit.text.spelling import listed

OLDEST = (2, 16)  # the oldest TensorFlow that clusterkit supports
SHOWN = {"keras": "Keras", "tf-keras": "tf_keras", "numpy": "NumPy", "protobuf": "protobuf"}
NOTHING: Mapping[str, Any] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class Unmet:
    """An unmet requirement of an installed package; `has` is the version that is installed instead, if any."""

    of: str
    name: str
    wanted: str
    has: str | None


@dataclass(frozen=True, slots=True)
class Interpreter:
    """An interpreter that would run tasks; `problem` says why it does not start."""

    path: str
    problem: str | None = None
    version: str = ""
    implementation: str = "cpython"
    packages: Mapping[str, str] = field(default_factory=lambda: NOTHING)  # distribution to version
    tensorflows: tuple[str, ...] = ()  # the distributions that contain TensorFlow
    modules: Mapping[str, bool] = field(default_factory=lambda: NOTHING)  # by name, whether it is complete
    unmet: tuple[Unmet, ...] = ()
    checked: bool = True  # whether requirements were checked

    @property
    def tensorflow(self) -> str | None:
        """The version of TensorFlow, from any distribution, if it is installed."""
        return self.packages[self.tensorflows[0]] if self.tensorflows else None

    @property
    def has_tensorflow(self) -> bool:
        return bool(self.modules.get("tensorflow"))


def judge_python(python: Interpreter) -> Judged:
    """Judge one interpreter and its packages."""
    if python.problem is not None:
        text = f"The interpreter {python.path} does not start: {python.problem}. Name another one with --python."
        yield "python-broken", Grade.WRONG, text
        return
    kind = {"cpython": "Python"}.get(python.implementation, python.implementation)
    yield "python", Grade.FINE, f"{kind} {python.version} at {python.path}."
    if not python.has_tensorflow:
        again, what = ([], "not installed") if "tensorflow" not in python.modules else (["--force-reinstall"], "broken")
        text = f"TensorFlow is {what}. If pip finds none for {kind} {python.version}, use another --python."
        yield "no-tensorflow", Grade.WRONG, f"{text} {_install(python, *again, 'tensorflow>=2.16')}"
    elif (version := python.tensorflow) is not None:
        rest = [f"{shown} {python.packages[name]}" for name, shown in SHOWN.items() if name in python.packages]
        yield "versions", Grade.FINE, f"{', '.join([f'TensorFlow {version}', *rest])}."
        if tuple(map(int, re.findall(r"\d+", version)[:2])) < OLDEST:
            text = f"clusterkit supports TensorFlow 2.16 and newer, and this is {version}."
            yield "tensorflow-old", Grade.DOUBT, f"{text} {_install(python, 'tensorflow>=2.16')}"
        if len(python.tensorflows) > 1:
            text = f"{listed(python.tensorflows)} overwrite each other's files. Uninstall all, then install one."
            command = shlex.join([python.path, "-m", "pip", "uninstall", *python.tensorflows])
            yield "several-tensorflows", Grade.WRONG, f"{text} Run: {command}"
    yield from _requirements(python)
    if "clusterkit" not in python.modules:
        text = f"Programs can't import clusterkit.training, which reports steps. Install clusterkit for {python.path}."
        yield "training", Grade.DOUBT, text


def _requirements(python: Interpreter) -> Judged:
    if python.has_tensorflow and not python.checked:
        text = f"Requirements of packages were not checked. {_install(python, 'packaging')}"
        yield "unchecked", Grade.DOUBT, text
    for unmet in python.unmet:
        # Not every requirement is imported (conda leaves libclang out), while a wrong version often fails.
        core = unmet.of in (*python.tensorflows, "keras")
        grade = Grade.WRONG if core and (unmet.has or unmet.name == "keras") else Grade.DOUBT
        text = f"{unmet.of} {python.packages[unmet.of]} requires {unmet.name}{unmet.wanted}, and "
        text += f"{unmet.has} is installed." if unmet.has else "it is not installed."
        fix = _install(python, f"{unmet.name}{unmet.wanted}")
        yield "requirement", grade, f"{text} {'Use another --python.' if unmet.name == 'Python' else fix}"


def _install(python: Interpreter, *what: str) -> str:
    return f"Run: {shlex.join([python.path, '-m', 'pip', 'install', *what])}"
