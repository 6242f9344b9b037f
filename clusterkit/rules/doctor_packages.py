"""What is wrong with an interpreter and what is installed for it, as far as package metadata and experience tell."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import PurePosixPath

from clusterkit.words.doctor import Finding, Grade, Interpreter, Topic, Unmet

Version = tuple[int, ...]

# Distributions of which each brings a whole `tensorflow`; of two, one overwrites the other's files.
WHOLE = (
    "tensorflow", "tensorflow-cpu", "tensorflow-gpu", "tf-nightly", "tf-nightly-cpu", "tf-nightly-gpu",
    "intel-tensorflow", "tensorflow-rocm",
)  # fmt: skip
TENSORFLOWS = (*WHOLE, "tensorflow-cpu-aws", "tensorflow-aarch64")  # these two may be there beside `tensorflow`

OLDEST: Version = (2, 16)  # that clusterkit is made for
# The Pythons for which a TensorFlow has wheels, as the package index lists them; the newest last.
WHEELS: dict[Version, tuple[Version, Version]] = {
    (2, 16): ((3, 9), (3, 12)),
    (2, 17): ((3, 9), (3, 12)),
    (2, 18): ((3, 9), (3, 12)),
    (2, 19): ((3, 9), (3, 12)),
    (2, 20): ((3, 9), (3, 13)),
    (2, 21): ((3, 10), (3, 13)),
}
ARCHES = ("x86_64", "aarch64")
# TensorFlow requires these, and is imported without them.
LAX = frozenset({"libclang", "requests", "setuptools", "grpcio", "tensorboard", "tensorflow-estimator"})


@dataclass(frozen=True, slots=True)
class Pair:
    """Two packages that don't go together where their versions are in these ranges: from `first` on, below `end`."""

    name: str
    package: str
    other: str
    text: str  # of two versions
    first: Version = ()
    end: Version = (9999,)
    other_first: Version = ()
    other_end: Version = (9999,)
    grade: Grade = Grade.WRONG

    def holds(self, one: Version, two: Version) -> bool:
        """Whether these versions are such a pair."""
        return self.first <= one < self.end and self.other_first <= two < self.other_end


PAIRS = (
    Pair(
        "keras-too-new", "keras", "tensorflow", first=(3,), other_end=(2, 16),
        text="Keras {0} needs TensorFlow 2.16 or newer, and this is {1}. Install 'tensorflow>=2.16', or 'keras<3'.",
    ),
    Pair(
        "keras-too-old", "keras", "tensorflow", end=(3,), other_first=(2, 16),
        text="TensorFlow {1} needs Keras 3, and this is {0}. Install 'keras>=3'; Keras 2 is tf_keras, with --keras 2.",
    ),
    Pair(
        "numpy-2", "numpy", "tensorflow", first=(2,), other_end=(2, 18),
        text="TensorFlow {1} was built for NumPy 1, and this is {0}. Install 'numpy<2', or 'tensorflow>=2.18'.",
    ),
    Pair(
        "protobuf-4", "protobuf", "tensorflow", first=(4,), other_end=(2, 12),
        text="TensorFlow {1} can't be imported with protobuf {0}. Install 'protobuf<3.21'.",
    ),
    Pair(
        "addons", "tensorflow-addons", "keras", other_first=(3,), grade=Grade.DOUBT,
        text="tensorflow-addons {0} is not maintained and can't be imported with Keras {1}. Uninstall it.",
    ),
)  # fmt: skip


TENSORBOARD = Pair(
    "tensorboard", "tensorboard", "setuptools", end=(2, 21), other_first=(82,),
    text="TensorBoard {0} needs pkg_resources, which setuptools {1} has no more. Install 'tensorboard>=2.21'.",
)  # fmt: skip


def numbers(version: str) -> Version:
    """`2.21.0rc1` as (2, 21, 0)."""
    found = re.match(r"\d+(?:\.\d+)*", version)
    return tuple(map(int, found[0].split("."))) if found else ()


def tensorflow_of(python: Interpreter) -> str | None:
    """The version of the TensorFlow that is installed, whichever distribution it is."""
    return next((python.packages[name] for name in TENSORFLOWS if name in python.packages), None)


def has_tensorflow(python: Interpreter) -> bool:
    """Whether `import tensorflow` finds one."""
    return bool(python.modules.get("tensorflow"))


def told_of(pair: Pair, python: Interpreter) -> str | None:
    """What is wrong with that pair of packages; None where nothing is, or one of them is not there."""
    tensorflow = tensorflow_of(python)
    packages = {**python.packages, **({} if tensorflow is None else {"tensorflow": tensorflow})}
    one, two = packages.get(pair.package), packages.get(pair.other)
    if one is None or two is None or not pair.holds(numbers(one), numbers(two)):
        return None
    return pair.text.format(one, two)


def install(python: Interpreter, *what: str) -> str:
    """The command that installs something for that interpreter."""
    return f"Run: {shlex.join([python.path, '-m', 'pip', 'install', *what])}"


def judge(python: Interpreter, legacy_keras: bool) -> Iterator[Finding]:
    """What there is to say of one interpreter; `legacy_keras`: whether `tf.keras` is to be Keras 2."""
    if python.problem is not None:
        text = f"The interpreter {python.path} does not start: {python.problem}. Name another one with --python."
        yield _finding(python, "python-broken", Grade.WRONG, text)
        return
    yield from _versions(python)
    yield from _no_tensorflow(python) if not has_tensorflow(python) else _tensorflow(python)
    yield from _hidden(python)
    told = list(_pairs(python))
    yield from (finding for _, finding in told)
    yield from _legacy_keras(python, legacy_keras)
    yield from _requirements(python, {pair for pair, _ in told} | {frozenset(("tf-keras", "tensorflow"))})
    yield from _twice(python)


def _finding(python: Interpreter, name: str, grade: Grade, text: str) -> Finding:
    return Finding(Topic.PYTHON, name, grade, text, python.path)


def _versions(python: Interpreter) -> Iterator[Finding]:
    kind = {"cpython": "Python"}.get(python.implementation, python.implementation)
    yield _finding(python, "python", Grade.FINE, f"{kind} {python.version_text} at {python.path}.")
    if (tensorflow := tensorflow_of(python)) is None:
        return
    names = {"keras": "Keras", "tf-keras": "tf_keras", "numpy": "NumPy", "protobuf": "protobuf"}
    rest = [f"{said} {python.packages[name]}" for name, said in names.items() if name in python.packages]
    yield _finding(python, "versions", Grade.FINE, f"{', '.join([f'TensorFlow {tensorflow}', *rest])}.")


def _no_tensorflow(python: Interpreter) -> Iterator[Finding]:
    if why := _no_wheels(python):
        yield _finding(python, "no-wheels", Grade.WRONG, f"There is no TensorFlow, and no wheel of one: {why}.")
    elif "tensorflow" in python.modules or tensorflow_of(python) is not None:
        text = "What is installed of TensorFlow is not whole, as when one of two that share files is uninstalled."
        whole = next((name for name in WHOLE if name in python.packages), "tensorflow")
        fix = install(python, "--force-reinstall", whole)
        yield _finding(python, "tensorflow-remains", Grade.WRONG, f"{text} {fix}")
    else:
        text = "There is no TensorFlow."
        yield _finding(python, "no-tensorflow", Grade.WRONG, f"{text} {install(python, 'tensorflow>=2.16')}")


def _no_wheels(python: Interpreter) -> str | None:
    """Why no TensorFlow that clusterkit knows of can be installed; None where one can."""
    newest, (_, last) = list(WHEELS.items())[-1]
    known = f"the newest known here is {_dotted(newest)}, for Python up to {_dotted(last)}. Use another --python"
    if python.implementation != "cpython":
        return f"they are for CPython, and this is {python.implementation}. Use another --python"
    if python.arch not in ARCHES:
        return f"they are for {' and '.join(ARCHES)}, and this is {python.arch}"
    if python.libc != "glibc":
        return "they need glibc, and this system has another C library, as Alpine has. Use another one"
    if any(low <= python.version[:2] <= high for low, high in WHEELS.values()):
        return None
    if python.version[:2] > last:
        return f"Python {python.version_text} is too new, {known}"
    return f"Python {python.version_text} is too old for TensorFlow {_dotted(OLDEST)}. Use another --python"


def _tensorflow(python: Interpreter) -> Iterator[Finding]:
    several = [name for name in WHOLE if name in python.packages]
    if len(several) > 1:
        text = f"{' and '.join(several)} are installed together, and overwrite each other's files."
        fix = f"Uninstall all of them, and install one. Run: {shlex.join([python.path, '-m', 'pip', 'uninstall'])}"
        yield _finding(python, "several-tensorflows", Grade.WRONG, f"{text} {fix} {' '.join(several)}")
    version = tensorflow_of(python)
    if version is None:
        text = "TensorFlow can be imported, and no package says which version it is. Nothing could be checked."
        yield _finding(python, "tensorflow-unknown", Grade.NOTE, text)
    elif numbers(version) < OLDEST:
        text = f"TensorFlow {version} is older than {_dotted(OLDEST)}, the oldest that clusterkit is made for."
        yield _finding(python, "tensorflow-old", Grade.DOUBT, f"{text} {install(python, 'tensorflow>=2.16')}")
    if "keras" not in python.modules and version is not None and numbers(version) >= OLDEST:
        text = f"There is no Keras, so TensorFlow has no tf.keras. {install(python, 'keras>=3')}"
        yield _finding(python, "no-keras", Grade.WRONG, text)


def _hidden(python: Interpreter) -> Iterator[Finding]:
    for name, file in python.modules.items():
        place = PurePosixPath(file)
        module = place.parent if place.name == "__init__.py" else place
        if name in ("tensorflow", "keras", "tf_keras", "numpy") and str(module.parent) == python.beside:
            text = f"{module} beside the program is what `import {name}` finds. Rename it."
            yield _finding(python, "hidden", Grade.WRONG, text)


def _pairs(python: Interpreter) -> Iterator[tuple[frozenset[str], Finding]]:
    for pair in PAIRS:
        if text := told_of(pair, python):
            yield frozenset((pair.package, pair.other)), _finding(python, pair.name, pair.grade, text)


def _legacy_keras(python: Interpreter, wanted: bool) -> Iterator[Finding]:
    tensorflow = tensorflow_of(python)
    there = python.packages.get("tf-keras") or python.packages.get("tf-keras-nightly")
    series = f"tf_keras=={_dotted(numbers(tensorflow)[:2])}.*" if tensorflow else "tf_keras"
    if "tf_keras" not in python.modules:
        if wanted:
            text = "Keras 2 is asked for (--keras 2, or TF_USE_LEGACY_KERAS), and there is no tf_keras."
            yield _finding(python, "no-tf-keras", Grade.WRONG, f"{text} {install(python, series)}")
    elif there and tensorflow and numbers(there)[:2] != numbers(tensorflow)[:2]:
        text = f"tf_keras {there} is not for TensorFlow {tensorflow}: the first two numbers have to be the same."
        grade = Grade.WRONG if wanted else Grade.DOUBT
        yield _finding(python, "tf-keras-differs", grade, f"{text} {install(python, series)}")


def _requirements(python: Interpreter, told: set[frozenset[str]]) -> Iterator[Finding]:
    if not python.checked:
        text = "What packages require of each other was not checked: this interpreter has no `packaging`."
        if has_tensorflow(python):
            yield _finding(python, "unchecked", Grade.DOUBT, f"{text} {install(python, 'packaging')}")
        return
    for unmet in python.unmet:
        of = "tensorflow" if unmet.of in TENSORFLOWS else unmet.of
        if frozenset((of, unmet.name)) in told or (of == "tensorflow" and unmet.name == "keras" and unmet.has is None):
            continue
        yield _finding(python, "requirement", _grade(of, unmet), _said(python, unmet))


def _grade(of: str, unmet: Unmet) -> Grade:
    return Grade.WRONG if of in ("tensorflow", "keras") and unmet.name not in LAX else Grade.DOUBT


def _said(python: Interpreter, unmet: Unmet) -> str:
    has = f"{unmet.has} is installed" if unmet.has else "it is not installed"
    fix = install(python, f"{unmet.name}{unmet.wanted}")
    return f"{unmet.of} {python.packages[unmet.of]} needs {unmet.name}{unmet.wanted}, and {has}. {fix}"


def _twice(python: Interpreter) -> Iterator[Finding]:
    for name, versions in python.twice.items():
        if name in (*TENSORFLOWS, "keras", "tf-keras", "numpy", "protobuf"):
            text = f"{name} is installed more than once ({', '.join(versions)}), and the first hides the others."
            yield _finding(python, "twice", Grade.DOUBT, f"{text} Uninstall those that are not meant.")


def _dotted(version: Version) -> str:
    return ".".join(map(str, version))
