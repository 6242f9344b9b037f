"""Diagnosis: from facts about interpreters, machine and environment to findings, each with what to do about it."""

from __future__ import annotations

from collections.abc import Iterator

from clusterkit.faults.aim import needs_disk
from clusterkit.faults.grammar import parse_fault
from clusterkit.rules import doctor_environment, doctor_machine, doctor_packages
from clusterkit.rules.doctor_packages import TENSORBOARD, has_tensorflow, install, told_of
from clusterkit.words.doctor import Facts, Finding, Grade, Interpreter, Topic
from clusterkit.words.model import Network, StartMode


def diagnose(facts: Facts) -> list[Finding]:
    """Every finding, group by group."""
    legacy = doctor_environment.wants_legacy_keras(facts)
    found = [finding for python in facts.interpreters for finding in doctor_packages.judge(python, legacy)]
    found += doctor_machine.judge(facts)
    found += doctor_machine.judge_place(facts.place)
    found += doctor_environment.judge(facts)
    found += _features(facts)
    if facts.job is not None:
        found += doctor_machine.judge_job(facts, facts.job)
    found += _trial(facts)
    return found


def is_well(findings: list[Finding]) -> bool:
    """Whether nothing is wrong."""
    return all(finding.grade is not Grade.WRONG for finding in findings)


def _features(facts: Facts) -> Iterator[Finding]:
    pythons = [python for python in facts.interpreters if python.problem is None]
    yield from _network(facts)
    yield from _tensorboard(facts)
    for python in pythons:
        yield from _warm(facts, python)
        yield from _optional(python)


def _finding(name: str, grade: Grade, text: str, python: Interpreter | None = None) -> Finding:
    return Finding(Topic.FEATURES, name, grade, text, "" if python is None else python.path)


def _network(facts: Facts) -> Iterator[Finding]:
    rights, job = facts.rights, facts.job
    how = "as root" if rights.root else "in a user namespace, without rights"
    asks_network = job is not None and job.network is Network.VIRTUAL
    asks_disk = job is not None and needs_disk([parse_fault(text) for text in job.faults])
    for name, what, why, asked in (
        ("network", "--network virtual", rights.network, asks_network),
        ("disk-full", "The fault disk-full", rights.disk, asks_disk),
    ):
        if why is None:
            yield _finding(name, Grade.FINE, f"{what} works, {how}.")
        else:
            text = f"{what} can't be had here: {why}. Have that allowed, or do without it."
            yield _finding(name, Grade.WRONG if asked else Grade.DOUBT, text)


def _warm(facts: Facts, python: Interpreter) -> Iterator[Finding]:
    asked = facts.job is not None and facts.job.start is StartMode.WARM
    if not has_tensorflow(python):
        text = "Warm start does not work: there is no TensorFlow to import. Install it as said above."
        yield _finding("warm", Grade.WRONG if asked else Grade.NOTE, text, python)
    elif python.is_own:
        yield _finding("warm", Grade.FINE, "Warm start works, and so does `clusterkit warm`.", python)
    else:
        text = "Warm start works; `clusterkit warm` serves clusterkit's own interpreter alone."
        yield _finding("warm", Grade.NOTE, text, python)


def _tensorboard(facts: Facts) -> Iterator[Finding]:
    """It is run with clusterkit's own interpreter."""
    own, asked = facts.own, facts.job is not None and facts.job.tensorboard
    if not own.modules.get("tensorboard"):
        text = f"--tensorboard does not work: there is no TensorBoard. {install(own, 'tensorboard')}"
        yield _finding("tensorboard", Grade.WRONG if asked else Grade.NOTE, text)
    elif broken := told_of(TENSORBOARD, own):
        yield _finding("tensorboard", Grade.WRONG if asked else Grade.DOUBT, broken)
    else:
        version = own.packages.get("tensorboard", "of an unknown version")
        yield _finding("tensorboard", Grade.FINE, f"--tensorboard works: TensorBoard {version}.")


def _optional(python: Interpreter) -> Iterator[Finding]:
    if "tf_keras" in python.modules:
        yield _finding("keras-2", Grade.FINE, "--keras 2 works: there is a tf_keras.", python)
    else:
        text = "--keras 2 does not work: there is no tf_keras. It has to be of TensorFlow's own version."
        yield _finding("keras-2", Grade.NOTE, text, python)
    if "clusterkit" not in python.modules:
        text = "Programs can't import clusterkit.training, which reports their steps. To have it, install clusterkit"
        yield _finding("training", Grade.DOUBT, f"{text} for {python.path} too.", python)
    if "sklearn" not in python.modules:
        text = "The workloads that come with clusterkit find no scikit-learn, whose digits some of them train on."
        yield _finding("workloads", Grade.NOTE, text, python)


def _trial(facts: Facts) -> Iterator[Finding]:
    if facts.trial is not None:
        yield _finding("trial", Grade.FINE if facts.trial.went_well else Grade.WRONG, facts.trial.text)
