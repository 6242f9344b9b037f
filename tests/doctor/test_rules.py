"""What the doctor says of interpreters, machine, environment and the job: a row for each diagnosis."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest

from clusterkit.doctor import machine_rules, rules
from clusterkit.doctor.diagnosis import Rating, as_json, as_text
from clusterkit.doctor.machine_rules import PortFacts
from clusterkit.doctor.rules import Facts, Interpreter, diagnose
from clusterkit.words.model import Program, ProgramKind
from tests.doctor.doctoring import (
    BARE,
    GB,
    PACKAGES,
    WELL,
    asking,
    bad,
    environment,
    found,
    healthy,
    lacks,
    machine,
    state,
)

WRONG, DOUBT, NOTE, FINE = Rating.WRONG, Rating.DOUBT, Rating.NOTE, Rating.FINE
NO_USERS = "user namespaces are switched off (user.max_user_namespaces=0)"
OTHER = replace(WELL, path="/other/bin/python")
CPU = replace(WELL, packages={**PACKAGES, "tensorflow-cpu": "2.21.0"}, tensorflows=("tensorflow", "tensorflow-cpu"))

ROWS: list[tuple[str, Facts, str, Rating, str]] = [
    (
        "it does not start",
        healthy(Interpreter("/gone", "no such file")), "python-broken", WRONG, "/gone does not start: no such",
    ),
    ("no TensorFlow", healthy(BARE), "no-tensorflow", WRONG, "/venv/bin/python -m pip install 'tensorflow>=2.16'"),
    (
        "what an uninstalled tensorflow-cpu has left",
        healthy(replace(WELL, modules={**WELL.modules, "tensorflow": False})), "no-tensorflow", WRONG,
        "pip install --force-reinstall 'tensorflow>=2.16'",
    ),
    (
        "two at once",
        healthy(CPU), "several-tensorflows", WRONG, "-m pip uninstall tensorflow tensorflow-cpu",
    ),
    (
        "an old one",
        healthy(replace(WELL, packages={**PACKAGES, "tensorflow": "2.13.1"})), "tensorflow-old", DOUBT, "2.16",
    ),
    (
        "a protobuf that TensorFlow's metadata excludes",
        lacks("tensorflow", "protobuf", ">=6.31.1,<8.0.0", "8.1"), "requirement", WRONG,
        "tensorflow 2.21.0 requires protobuf>=6.31.1,<8.0.0, and 8.1 is installed.",
    ),
    ("no Keras", lacks("tensorflow", "keras", ">=3.12.0"), "requirement", WRONG, "pip install 'keras>=3.12.0'"),
    ("something that is missing", lacks("tensorflow", "libclang", ">=13"), "requirement", DOUBT, "it is not installed"),
    ("TensorBoard's", lacks("tensorboard", "werkzeug", ">=1.0.1", "0.9"), "requirement", DOUBT, "werkzeug"),
    ("another Python", lacks("tensorflow", "Python", ">=3.12", "3.11.7"), "requirement", WRONG, "another --python"),
    ("no packaging", healthy(replace(WELL, checked=False)), "unchecked", DOUBT, "pip install packaging"),
    (
        "no clusterkit",
        healthy(replace(WELL, modules={"tensorflow": True})), "training", DOUBT, "clusterkit.training",
    ),
    ("an old kernel", machine(missing=("it has no pidfd_open (Linux 5.3 added it)",)), "kernel", WRONG, "pidfd_open"),
    ("half a core", machine(quota=0.5), "quota", DOUBT, "0.5 of 8 cores"),
    ("little memory", machine(free=GB), "memory", DOUBT, "1.0 GB of memory are free: too little"),
    ("a small container", machine(group_memory=GB), "memory", DOUBT, "the control group allows 1.0 GB in all"),
    ("few descriptors", machine(descriptors=10), "descriptors", WRONG, "ulimit -n 1024"),
    ("any number of descriptors", machine(descriptors=None), "descriptors", FINE, "no limit on descriptors"),
    ("few threads", machine(threads=600), "threads", WRONG, "100 more threads are allowed"),
    ("few tasks in the control group", machine(group_tasks=700), "threads", WRONG, "pids.max"),
    ("any number of threads", machine(threads=None), "threads", FINE, "no limit on threads"),
    ("no GPU", machine(), "gpu", NOTE, "There is no GPU; TensorFlow uses the processor."),
    ("GPUs", machine(gpus=("GPU-1", "GPU-2"), gpu_devices=2), "gpu", FINE, "2 GPUs: GPU-1, GPU-2"),
    ("a GPU without its tools", machine(gpu_devices=1, why_no_gpu="no tool"), "gpu-unused", DOUBT, "no tool"),
    (
        "ports that can't be held",
        healthy(ports=PortFacts(9, 9, "clients can't reach it")), "ports", WRONG, "can't hold ports for tasks",
    ),
    ("few ports", healthy(ports=PortFacts(28232, 12)), "ports", DOUBT, "12 of 28232"),
    ("no user namespaces", healthy(no_network=NO_USERS), "network", DOUBT, f"does not work here: {NO_USERS}."),
    ("no overlays", healthy(no_full_disk="no overlay"), "disk-full", DOUBT, "disk-full does not work here"),
    ("a closed state directory", state(problem="it is not writable"), "state", WRONG, "Set CLUSTERKIT_HOME"),
    ("little room", state(room=500 << 20), "state-room", DOUBT, "500 MB are free"),
    ("no room", state(room=1 << 20), "state-room", WRONG, "1 MB are free"),
    (
        "a warm server", state(warm_servers=["pid 7, tensorflow"]), "warm-server", NOTE,
        "A warm server is up: pid 7, tensorflow. Stop it: clusterkit warm stop",
    ),
    ("what a dead run has left", state(strays={"a": 2, "b": 1}), "strays", DOUBT, "3 processes"),
    ("TF_CONFIG", environment({"TF_CONFIG": "{}"}), "tf-config", DOUBT, "every task gets its own"),
    ("silence", environment({"TF_CPP_MIN_LOG_LEVEL": "3"}), "silenced", DOUBT, "TF_CPP_MIN_LOG_LEVEL=3"),
    (
        "another backend",
        environment({"KERAS_BACKEND": "jax"}), "keras-backend", WRONG, "KERAS_BACKEND makes Keras use jax",
    ),
    (
        "another backend in the file",
        healthy(keras_backend="torch"), "keras-backend", WRONG, "keras.json makes Keras use torch",
    ),
    ("a proxy", environment({"http_proxy": "http://proxy:80"}), "proxy", NOTE, "without that proxy"),
    ("options in the environment", environment({"CLUSTERKIT_UP_PS": "2"}), "defaults", NOTE, "CLUSTERKIT_UP_PS"),
    ("inside a task", environment({"CLUSTERKIT_TASK": "worker:1"}), "inside", DOUBT, "inside the task worker:1"),
    ("a small job that failed", healthy(deep=(WRONG, "It failed.")), "deep", WRONG, "It failed."),
    ("a small job", healthy(deep=(FINE, "It ran.")), "deep", FINE, "It ran."),
    ("enough for a job", asking(healthy()), "job", FINE, "There is enough for 2 workers (multi-worker mirrored)."),
    ("what `up` warns of", asking(healthy(shortages=("8 tasks share 2 cores.",))), "shortage", DOUBT, "8 tasks share"),
    ("what `up` refuses", asking(healthy(refusals=("There is no GPU.",))), "lacking", WRONG, "There is no GPU."),
    (
        "a job without ports",
        asking(healthy(ports=PortFacts(28232, 5)), 6), "ports-for-job", WRONG, "6 tasks need a port each",
    ),
    ("a job without threads", asking(machine(threads=1000), 5), "threads-for-job", WRONG, "about 600 threads, and 500"),
    ("a job with too many descriptors", asking(healthy(), 700), "descriptors-for-job", WRONG, "more descriptors than"),
    ("a job that does not fit", asking(healthy(), 100), "memory-for-job", WRONG, "don't fit into 32.0 GB of memory"),
    ("nor into its container", asking(machine(group_memory=2 * GB), 6), "memory-for-job", WRONG, "2.0 GB of memory"),
]  # fmt: skip


@pytest.mark.parametrize(("facts", "name", "grade", "words"), [row[1:] for row in ROWS], ids=[row[0] for row in ROWS])
def test_what_is_to_be_said_is_found(facts: Facts, name: str, grade: Rating, words: str) -> None:
    """Each with its grade, and with what to do or what was seen."""
    one = found(facts, name)
    assert one.grade is grade
    assert words in one.text


def test_a_healthy_machine_has_nothing_wrong() -> None:
    """Nor anything doubtful; also where a job is asked about."""
    for facts in (healthy(), asking(healthy())):
        assert bad(facts) == {}
        assert as_text(diagnose(facts), color=False).endswith("\nNothing is wrong.\n")


def test_every_diagnosis_has_a_row() -> None:
    """The names that the rules' text has."""
    text = "".join(Path(str(module.__file__)).read_text() for module in (rules, machine_rules))
    told = set(re.findall(r'"([\w-]+)", (?:Rating\.|grade|facts\.no)', text))
    told |= set(re.findall(r'\("([\w-]+)", "(?:--|The )', text))
    assert len(told) > 30
    assert told - {row[2] for row in ROWS} == {"python", "versions", "cores"}


def test_a_command_is_not_taken_for_a_tensorflow_program() -> None:
    """What it needs is not known."""
    facts = asking(healthy(), 100, program=Program(ProgramKind.COMMAND, "train.sh"))
    assert bad(facts) == {}


@pytest.mark.parametrize(
    "python",
    [
        replace(CPU, tensorflows=("tensorflow-cpu",)),
        replace(WELL, packages={**PACKAGES, "tensorflow": "2.22.0rc1"}),
        replace(WELL, packages={}, tensorflows=()),  # a TensorFlow that no package is of
    ],
)
def test_what_is_well_is_not_complained_of(python: Interpreter) -> None:
    """Among it what looks a little like something that is not."""
    assert bad(healthy(python)) == {}


def test_legacy_keras_has_no_backend_to_choose() -> None:
    """Keras 2 is TensorFlow's alone, however it is asked for."""
    jax = {"KERAS_BACKEND": "jax"}
    assert bad(environment({**jax, "TF_USE_LEGACY_KERAS": "1"})) == {}
    assert bad(asking(environment(jax), keras=2)) == {}
    assert bad(asking(environment({**jax, "TF_USE_LEGACY_KERAS": "1"}), keras=3)) == {"keras-backend": WRONG}


def test_every_interpreter_is_judged() -> None:
    """Task types may have their own."""
    other = replace(BARE, path="/other/bin/python")
    every = diagnose(healthy(interpreters=(WELL, other)))
    assert [one.about for one in every if one.name == "python"] == [WELL.path, other.path]
    assert [one.about for one in every if one.name == "no-tensorflow"] == [other.path]


def test_the_page_has_the_groups_in_their_order_and_a_sum() -> None:
    """Commands to copy have a line of their own, whatever their length."""
    facts = environment({"TF_CONFIG": "{}"}, interpreters=(BARE,))
    lines = as_text(diagnose(facts), color=False).splitlines()
    assert [line for line in lines if not line.startswith(" ")] == [
        "Python and its packages", "The machine", "Where runs are kept", "The environment",
        "1 thing is wrong; 1 thing may matter to you (!).",
    ]  # fmt: skip
    (at,) = [number for number, line in enumerate(lines) if line.startswith("  ✘ TensorFlow is not installed.")]
    assert lines[at + 1] == "    Run: /venv/bin/python -m pip install 'tensorflow>=2.16'"
    assert max(map(len, lines)) <= 100
    assert any(line.startswith("  \033[31m✘\033[0m ") for line in as_text(diagnose(facts), color=True).splitlines())


def test_interpreters_are_told_apart_where_there_are_several() -> None:
    """In every line that does not name one."""
    page = as_text(diagnose(healthy(interpreters=(WELL, OTHER))), color=False)
    assert "✔ /venv/bin/python: TensorFlow 2.21.0" in page
    assert "✔ /other/bin/python: TensorFlow 2.21.0" in page
    assert "Python 3.11.7 at /other/bin/python." in page


def test_json_says_the_same() -> None:
    """For programs, by name."""
    document = as_json(diagnose(healthy(no_network=NO_USERS)))
    assert (document["wrong"], document["doubts"]) == (0, 1)
    (doubt,) = [one for one in document["findings"] if one["grade"] == "doubt"]
    assert (doubt["topic"], doubt["name"], doubt["interpreter"]) == ("machine", "network", None)
