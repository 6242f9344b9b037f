"""What the doctor says of machine, environment, features and the job: a row for each finding."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest

from clusterkit.rules import doctor, doctor_environment, doctor_machine, doctor_packages
from clusterkit.rules.doctor import diagnose, is_well
from clusterkit.views.doctor import as_json, as_text
from clusterkit.words.doctor import Facts, Grade, Ports, Rights, Trial
from clusterkit.words.model import Network, Program, ProgramKind, StartMode
from tests.unit import test_doctor_packages
from tests.unit.doctoring import (
    GB,
    WELL,
    asking,
    bad,
    environment,
    found,
    healthy,
    machine,
    place,
    with_packages,
)

WRONG, DOUBT, NOTE, FINE = Grade.WRONG, Grade.DOUBT, Grade.NOTE, Grade.FINE
NO_USERS = "user namespaces are switched off (user.max_user_namespaces=0)"
OTHER = replace(WELL, path="/other/bin/python", is_own=False)
GPUS = {"gpus": ("GPU-1", "GPU-2"), "gpu_devices": 2}

ROWS: list[tuple[str, Facts, str, Grade, str]] = [
    ("an old kernel", machine(missing=("there is no pidfd_open (Linux 5.3 has it)",)), "kernel", WRONG, "pidfd_open"),
    ("a closed kernel log", machine(kernel_log=False), "kernel-log", NOTE, "The kernel's log can't be read"),
    ("an old processor", machine(has_avx=False), "avx", WRONG, "no AVX"),
    ("half a core", machine(quota=0.5), "quota", DOUBT, "0.5 of 8 cores"),
    ("little memory", machine(free=GB), "memory", DOUBT, "1.0 GB of memory are free: too little"),
    ("a small container", machine(group_memory=GB), "memory", DOUBT, "the control group allows 1.0 GB in all"),
    ("few descriptors", machine(descriptors=10), "descriptors", WRONG, "ulimit -n 1024"),
    ("any number of descriptors", machine(descriptors=None), "descriptors", FINE, "no limit on descriptors"),
    ("few threads", machine(threads=600), "threads", WRONG, "100 more threads are allowed"),
    ("few tasks in the control group", machine(group_tasks=700), "threads", WRONG, "pids.max"),
    ("any number of threads", machine(threads=None), "threads", FINE, "no limit on threads"),
    ("no GPU", machine(), "gpu", NOTE, "There is no GPU; TensorFlow uses the processor."),
    ("GPUs", machine(**GPUS), "gpu", FINE, "2 GPU(s): GPU-1, GPU-2"),
    ("a GPU without its tools", machine(gpu_devices=1, why_no_gpu="no tool"), "gpu-unused", DOUBT, "no tool"),
    ("a GPU that is only named", machine(gpus=("3",)), "gpu-named", DOUBT, "names 3, and the system shows no GPU"),
    (
        "a GPU and a TensorFlow without",
        replace(machine(**GPUS), interpreters=(with_packages(tensorflow_cpu="2.21.0"),)), "gpu-cpu-only", DOUBT,
        "tensorflow-cpu of /venv/bin/python uses no GPU",
    ),
    (
        "little shared memory",
        machine(**GPUS, shared_memory=64 << 20), "shared-memory", DOUBT, "/dev/shm is 64 MB large",
    ),
    (
        "ports that can't be held",
        healthy(ports=Ports(9, 9, "a server can't be reached")), "ports", WRONG, "can't be held",
    ),
    ("few ports", healthy(ports=Ports(28232, 12)), "ports", DOUBT, "12 of 28232"),
    ("a closed state directory", place(problem="nothing can be written"), "state", WRONG, "Set CLUSTERKIT_HOME"),
    ("little room", place(room=500 << 20), "state-room", DOUBT, "500 MB of room"),
    ("no room", place(room=1 << 20), "state-room", WRONG, "1 MB of room"),
    ("a long path", place(socket=120), "state-path", DOUBT, "too long a path for the socket of `clusterkit warm`"),
    ("no temporary directory", place(temporary_problem="none"), "temporary", WRONG, "Set TMPDIR"),
    ("what a dead run has left", place(strays={"a": 2, "b": 1}), "strays", DOUBT, "3 process(es)"),
    ("live runs", place(live=2), "live", NOTE, "2 runs are live"),
    ("TF_CONFIG", environment({"TF_CONFIG": "{}"}), "tf-config", DOUBT, "every task gets its own"),
    ("silence", environment({"TF_CPP_MIN_LOG_LEVEL": "3"}), "silenced", DOUBT, "TF_CPP_MIN_LOG_LEVEL=3"),
    ("legacy Keras misspelt", environment({"TF_USE_LEGACY_KERAS": "yes"}), "legacy-keras", DOUBT, "Set it to 1"),
    (
        "another backend",
        environment({"KERAS_BACKEND": "jax"}), "keras-backend", WRONG, "KERAS_BACKEND has Keras use jax",
    ),
    (
        "another backend in the file",
        healthy(keras_backend="torch"), "keras-backend", WRONG, "keras.json has Keras use torch",
    ),
    ("PYTHONHOME", environment({"PYTHONHOME": "/usr"}), "pythonhome", DOUBT, "Unset it."),
    ("PYTHONINSPECT", environment({"PYTHONINSPECT": "1"}), "pythoninspect", DOUBT, "exit code 1"),
    ("PYTHONMALLOC", environment({"PYTHONMALLOC": "debug"}), "pythonmalloc", DOUBT, "slower"),
    ("PYTHONSAFEPATH", environment({"PYTHONSAFEPATH": "1"}), "pythonsafepath", NOTE, "beside the program"),
    ("noise", environment({"GRPC_TRACE": "all"}), "noise", DOUBT, "GRPC_TRACE fill the logs"),
    ("options in the environment", environment({"CLUSTERKIT_UP_PS": "2"}), "defaults", NOTE, "CLUSTERKIT_UP_PS"),
    ("inside a task", environment({"CLUSTERKIT_TASK": "worker:1"}), "inside", DOUBT, "inside the task worker:1"),
    (
        "no user namespaces",
        healthy(rights=Rights(False, NO_USERS)), "network", DOUBT, f"can't be had here: {NO_USERS}.",
    ),
    ("no overlays", healthy(rights=Rights(False, None, "no overlay")), "disk-full", DOUBT, "disk-full can't be had"),
    ("root", healthy(rights=Rights(True)), "network", FINE, "--network virtual works, as root."),
    ("another interpreter", healthy(OTHER, own=WELL), "warm", NOTE, "serves clusterkit's own interpreter alone"),
    (
        "no TensorBoard",
        healthy(with_packages(without=("tensorboard",))), "tensorboard", NOTE, "pip install tensorboard",
    ),
    (
        "its old needs",
        healthy(with_packages(tensorboard="2.20.0")), "tensorboard", DOUBT, "setuptools 84.2.1 has no more",
    ),
    ("no tf_keras", healthy(with_packages(without=("tf-keras",))), "keras-2", NOTE, "--keras 2 does not work"),
    ("no scikit-learn", healthy(with_packages(without=("sklearn",))), "workloads", NOTE, "scikit-learn"),
    ("no clusterkit", healthy(with_packages(without=("clusterkit",))), "training", DOUBT, "clusterkit.training"),
    ("a trial that failed", healthy(trial=Trial(False, "It failed.")), "trial", WRONG, "It failed."),
    ("a trial", healthy(trial=Trial(True, "It ran.")), "trial", FINE, "It ran."),
    ("enough for a job", asking(healthy()), "job", FINE, "There is enough for 2 worker (multi-worker mirrored)."),
    ("what `up` warns of", asking(healthy(shortages=("8 tasks share 2 cores.",))), "shortage", DOUBT, "8 tasks share"),
    ("what `up` refuses", asking(healthy(lacking=("There is no GPU.",))), "lacking", WRONG, "There is no GPU."),
    (
        "a job without ports",
        asking(healthy(ports=Ports(28232, 5)), 6), "ports-for-job", WRONG, "6 tasks need a port each",
    ),
    ("a job without threads", asking(machine(threads=1000), 5), "threads-for-job", WRONG, "about 600 threads, and 500"),
    ("a job with too many descriptors", asking(healthy(), 700), "descriptors-for-job", WRONG, "more descriptors than"),
    (
        "a job that does not fit",
        asking(healthy(), 100), "memory-for-job", WRONG, "don't fit into the 32.0 GB of memory",
    ),
    (
        "nor into its container",
        asking(machine(group_memory=2 * GB), 6), "memory-for-job", WRONG, "the 2.0 GB of memory",
    ),
]  # fmt: skip


@pytest.mark.parametrize(("facts", "name", "grade", "words"), [row[1:] for row in ROWS], ids=[row[0] for row in ROWS])
def test_what_is_to_be_said_is_found(facts: Facts, name: str, grade: Grade, words: str) -> None:
    """Each with its grade, and with what to do or what was seen."""
    finding = found(facts, name)
    assert finding.grade is grade
    assert words in finding.text


def test_a_healthy_machine_has_nothing_wrong() -> None:
    """Nor anything doubtful; also where a job is asked about."""
    for facts in (healthy(), asking(healthy())):
        assert bad(facts) == {}
        assert is_well(diagnose(facts))
        assert as_text(diagnose(facts), color=False).endswith("\nNothing is wrong.\n")


def test_every_finding_has_a_row() -> None:
    """The names that the rules' texts have, and those that they make of variables and pairs."""
    named = re.compile(r'\b_(?:finding|machine|state|job)\(\s*(?:python,\s*)?"([\w-]+)"')
    told = {name for module in (doctor, doctor_environment, doctor_machine, doctor_packages)
            for name in named.findall(Path(str(module.__file__)).read_text())}  # fmt: skip
    told |= {pair.name for pair in doctor_packages.PAIRS} | {name.lower() for name in doctor_environment.SAID}
    tested = {row[2] for row in (*ROWS, *test_doctor_packages.ROWS)}
    elsewhere = {"python", "versions", "no-tf-keras", "environment", "cores"}
    assert len(told) > 50
    assert told - tested - elsewhere == set()


@pytest.mark.parametrize(
    ("facts", "name"),
    [
        (asking(healthy(rights=Rights(False, NO_USERS)), network=Network.VIRTUAL), "network"),
        (asking(healthy(rights=Rights(False, None, "no overlay")), faults=("disk-full @ 10s",)), "disk-full"),
        (asking(healthy(with_packages(without=("tensorboard",))), tensorboard=True), "tensorboard"),
        (asking(healthy(with_packages(tensorboard="2.20.0")), tensorboard=True), "tensorboard"),
        (asking(healthy(with_packages(without=("tensorflow",))), start=StartMode.WARM), "warm"),
    ],
)
def test_what_the_job_asks_for_and_can_not_have_is_wrong(facts: Facts, name: str) -> None:
    """What nobody asks for is worth a note, or a doubt."""
    assert found(facts, name).grade is WRONG
    assert found(replace(facts, job=None), name).grade in (NOTE, DOUBT)


def test_a_command_is_not_taken_for_a_tensorflow_program() -> None:
    """What it needs is not known."""
    facts = asking(healthy(), 100, program=Program(ProgramKind.COMMAND, "train.sh"))
    assert bad(facts) == {}


def test_the_page_has_the_groups_in_their_order_and_a_sum() -> None:
    """Commands to copy have a line of their own, whatever their length."""
    facts = healthy(with_packages(without=("tensorflow", "sklearn")), rights=Rights(False, NO_USERS))
    lines = as_text(diagnose(facts), color=False).splitlines()
    assert [line for line in lines if not line.startswith(" ")] == [
        "Python and its packages", "The machine", "Where runs are kept", "The environment",
        "What of clusterkit works here", "1 thing is wrong; 1 thing may matter to you (!).",
    ]  # fmt: skip
    at = lines.index("  ✘ There is no TensorFlow.")
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
    document = as_json(diagnose(healthy(rights=Rights(False, NO_USERS))))
    assert (document["wrong"], document["doubts"]) == (0, 1)
    (doubt,) = [finding for finding in document["findings"] if finding["grade"] == "doubt"]
    assert (doubt["topic"], doubt["name"], doubt["interpreter"]) == ("features", "network", None)
