"""What the doctor says of interpreters and their packages: a row for each finding."""

from __future__ import annotations

from dataclasses import replace

import pytest

from clusterkit.rules.doctor import diagnose
from clusterkit.rules.doctor_packages import OLDEST, WHEELS, numbers
from clusterkit.words.doctor import Facts, Grade, Interpreter
from tests.unit.doctoring import SITE, WELL, asking, bad, environment, found, healthy, lacks, with_packages

WRONG, DOUBT, NOTE = Grade.WRONG, Grade.DOUBT, Grade.NOTE
BARE = replace(WELL, packages={}, modules={"clusterkit": "", "sklearn": ""})

ROWS: list[tuple[str, Interpreter, str, Grade, str]] = [
    (
        "it does not start",
        Interpreter("/gone", "no such file"), "python-broken", WRONG, "/gone does not start: no such",
    ),
    ("no TensorFlow", BARE, "no-tensorflow", WRONG, "/venv/bin/python -m pip install 'tensorflow>=2.16'"),
    ("Python 3.14", replace(BARE, version=(3, 14, 1)), "no-wheels", WRONG, "Python 3.14.1 is too new, the newest"),
    ("Python 3.8", replace(BARE, version=(3, 8, 2)), "no-wheels", WRONG, "Python 3.8.2 is too old for TensorFlow 2.16"),
    ("PyPy", replace(BARE, implementation="pypy"), "no-wheels", WRONG, "for CPython, and this is pypy"),
    ("Alpine", replace(BARE, libc=""), "no-wheels", WRONG, "need glibc"),
    ("32 bits", replace(BARE, arch="32-bit"), "no-wheels", WRONG, "and this is 32-bit"),
    (
        "what an uninstalled tensorflow-cpu has left",
        replace(WELL, modules={**WELL.modules, "tensorflow": ""}), "tensorflow-remains", WRONG,
        "pip install --force-reinstall tensorflow",
    ),
    (
        "two at once",
        with_packages(tensorflow_cpu="2.21.0"), "several-tensorflows", WRONG,
        "-m pip uninstall tensorflow tensorflow-cpu",
    ),
    ("an old one", with_packages(tensorflow="2.13.1", keras="2.13.1", numpy="1.26.4"), "tensorflow-old", DOUBT, "2.16"),
    ("no Keras", with_packages(without=("keras",)), "no-keras", WRONG, "pip install 'keras>=3'"),
    (
        "a file beside the program",
        replace(WELL, beside="/here", modules={**WELL.modules, "tensorflow": "/here/tensorflow.py"}), "hidden", WRONG,
        "/here/tensorflow.py beside the program",
    ),
    (
        "a directory beside the program",
        replace(WELL, beside="/here", modules={**WELL.modules, "keras": "/here/keras/__init__.py"}), "hidden", WRONG,
        "/here/keras beside the program",
    ),
    (
        "Keras 3, TensorFlow 2.15",
        with_packages(tensorflow="2.15.1", numpy="1.26.4"), "keras-too-new", WRONG, "'keras<3'",
    ),
    (
        "Keras 2, TensorFlow 2.21",
        with_packages(keras="2.15.0"), "keras-too-old", WRONG, "needs Keras 3, and this is 2.15.0",
    ),
    ("NumPy 2, TensorFlow 2.17", with_packages(tensorflow="2.17.1"), "numpy-2", WRONG, "'numpy<2'"),
    (
        "protobuf 4, TensorFlow 2.8",
        with_packages(tensorflow="2.8.0", protobuf="4.25"), "protobuf-4", WRONG, "'protobuf<3.21'",
    ),
    ("tensorflow-addons", with_packages(tensorflow_addons="0.23.0"), "addons", DOUBT, "Uninstall it."),
    (
        "tf_keras of another TensorFlow",
        with_packages(tf_keras="2.20.1"), "tf-keras-differs", DOUBT, "'tf_keras==2.21.*'",
    ),
    (
        "a protobuf that TensorFlow's metadata excludes",
        lacks("tensorflow", "protobuf", ">=6.31.1,<8.0.0", "8.1"), "requirement", WRONG,
        "tensorflow 2.21.0 needs protobuf>=6.31.1,<8.0.0, and 8.1 is installed.",
    ),
    (
        "something that TensorFlow imports",
        lacks("tensorflow", "wrapt", ">=1.11.0"), "requirement", WRONG, "needs wrapt>=1.11.0, and it is not installed.",
    ),
    ("something that it does not", lacks("tensorflow", "libclang", ">=13.0.0"), "requirement", DOUBT, "libclang"),
    ("something of TensorBoard's", lacks("tensorboard", "werkzeug", ">=1.0.1"), "requirement", DOUBT, "werkzeug"),
    ("no packaging", replace(WELL, checked=False), "unchecked", DOUBT, "pip install packaging"),
    ("two NumPys", replace(WELL, twice={"numpy": ("1.26.4", "2.4.6")}), "twice", DOUBT, "(1.26.4, 2.4.6)"),
    (
        "a TensorFlow that no package is of",
        replace(WELL, packages={"keras": "3.15.1"}), "tensorflow-unknown", NOTE, "no package says which version",
    ),
]  # fmt: skip


@pytest.mark.parametrize(("python", "name", "grade", "words"), [row[1:] for row in ROWS], ids=[row[0] for row in ROWS])
def test_what_is_wrong_is_found(python: Interpreter, name: str, grade: Grade, words: str) -> None:
    """Each with its grade, and with what to do or what was seen."""
    finding = found(healthy(python), name)
    assert (finding.grade, finding.about) == (grade, python.path)
    assert words in finding.text


@pytest.mark.parametrize(
    "facts",
    [
        environment({"TF_USE_LEGACY_KERAS": "1"}, interpreters=(with_packages(without=("tf-keras",)),)),
        asking(healthy(with_packages(without=("tf-keras",))), keras=2),
    ],
    ids=["by the variable", "by the option"],
)
def test_keras_2_needs_its_package(facts: Facts) -> None:
    """However it is asked for; where nobody asks for it, that is worth no more than a note."""
    assert found(facts, "no-tf-keras").grade is WRONG
    assert "'tf_keras==2.21.*'" in found(facts, "no-tf-keras").text
    assert bad(healthy(with_packages(without=("tf-keras",)))) == {}


def test_tf_keras_of_another_tensorflow_is_wrong_where_it_is_asked_for() -> None:
    """Otherwise nothing imports it."""
    facts = asking(healthy(with_packages(tf_keras="2.20.1")), keras=2)
    assert found(facts, "tf-keras-differs").grade is WRONG


@pytest.mark.parametrize(
    "python",
    [
        WELL,
        with_packages(without=("tensorflow",), tensorflow_cpu="2.21.0"),
        with_packages(tensorflow_cpu_aws="2.15.0", tensorflow="2.21.0"),  # `tensorflow` on ARM is made of it
        with_packages(tensorflow="2.18.0", tf_keras="2.18.0"),
        with_packages(tensorflow="2.22.0rc1", tf_keras="2.22.0"),
        replace(WELL, beside="/here"),
        replace(WELL, twice={"six": ("1.16", "1.17")}),
    ],
)
def test_what_is_well_is_not_complained_of(python: Interpreter) -> None:
    """Among it what looks a little like something that is not."""
    if "tensorflow" not in python.packages:
        assert python.modules.get("tensorflow") is None
        python = replace(python, modules={**python.modules, "tensorflow": f"{SITE}/tensorflow/__init__.py"})
    assert bad(healthy(python)) == {}


def test_a_known_pair_is_told_once() -> None:
    """Where the metadata say it too."""
    python = with_packages(tensorflow="2.17.1", tf_keras="2.17.0")
    python = replace(python, unmet=lacks("tensorflow", "numpy", "<2.0.0", "2.4.6").unmet)
    assert list(bad(healthy(python))) == ["numpy-2"]


def test_every_interpreter_is_judged() -> None:
    """Task types may have their own."""
    other = replace(BARE, path="/other/bin/python", is_own=False)
    findings = diagnose(healthy(interpreters=(WELL, other)))
    assert [finding.about for finding in findings if finding.name == "python"] == [WELL.path, other.path]
    assert [finding.about for finding in findings if finding.name == "no-tensorflow"] == [other.path]


@pytest.mark.parametrize(
    ("text", "expected"), [("2.21.0", (2, 21, 0)), ("2.21.0rc1", (2, 21, 0)), ("2.15.0.post1", (2, 15, 0)), ("x", ())]
)
def test_versions_are_compared_by_their_numbers(text: str, expected: tuple[int, ...]) -> None:
    """What follows them decides nothing here."""
    assert numbers(text) == expected


def test_the_wheels_begin_with_the_oldest_tensorflow() -> None:
    """Or a Python would be called too old for one that it has wheels of."""
    assert list(WHEELS) == sorted(WHEELS)
    assert min(WHEELS) == OLDEST
