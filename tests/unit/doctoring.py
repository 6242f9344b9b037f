"""Facts for the doctor's tests: a machine on which all is well, to be changed in one place."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from clusterkit.rules.doctor import diagnose
from clusterkit.words.doctor import Facts, Finding, Grade, Interpreter, Machine, Place, Ports, Rights, Unmet
from tests.unit.histories import job

GB = 1 << 30
SITE = "/venv/lib/site-packages"
PACKAGES = {
    "tensorflow": "2.21.0", "keras": "3.15.1", "tf-keras": "2.21.0", "numpy": "2.4.6", "protobuf": "7.36.2",
    "tensorboard": "2.21.0", "setuptools": "84.2.1",
}  # fmt: skip
MODULES = ("tensorflow", "keras", "tf_keras", "tensorboard", "sklearn", "clusterkit", "numpy")
WELL = Interpreter(
    path="/venv/bin/python",
    version=(3, 11, 7),
    packages=PACKAGES,
    modules={name: f"{SITE}/{name}/__init__.py" for name in MODULES},
)
MACHINE = Machine(
    cores=8, memory=32 * GB, free=24 * GB, task_memory=400 << 20,
    descriptors=1024, descriptors_hard=4096, task_descriptors=6,
    kernel="Linux 6.18", threads=50_000, threads_now=500, shared_memory=16 * GB, has_avx=True,
)  # fmt: skip


def healthy(python: Interpreter = WELL, **changes: Any) -> Facts:
    """Facts about a machine where nothing is wrong, but for what is changed."""
    facts = Facts(
        interpreters=(python,),
        own=python,
        machine=MACHINE,
        ports=Ports(28232, 28000),
        place=Place("/home/ada/.local/state/clusterkit", room=50 * GB, socket=70),
        rights=Rights(root=False),
        env={"HOME": "/home/ada", "PATH": "/usr/bin"},
    )
    return replace(facts, **changes)


def with_packages(without: tuple[str, ...] = (), **versions: str) -> Interpreter:
    """The interpreter with other versions, named with underscores, and without some packages and their modules."""
    packages = {**PACKAGES, **{name.replace("_", "-"): version for name, version in versions.items()}}
    return replace(
        WELL,
        packages={name: version for name, version in packages.items() if name not in without},
        modules={name: file for name, file in WELL.modules.items() if name.replace("_", "-") not in without},
    )


def lacks(of: str, name: str, wanted: str, has: str | None = None) -> Interpreter:
    """The interpreter with a requirement that is not met."""
    return replace(WELL, unmet=(Unmet(of, name, wanted, has),))


def machine(**changes: Any) -> Facts:
    """Facts about another machine."""
    return healthy(machine=replace(MACHINE, **changes))


def place(**changes: Any) -> Facts:
    """Facts about another state directory."""
    return healthy(place=replace(healthy().place, **changes))


def environment(variables: Mapping[str, str], **changes: Any) -> Facts:
    """Facts with these variables."""
    return healthy(env={**healthy().env, **variables}, **changes)


def asking(facts: Facts, workers: int = 2, **changes: Any) -> Facts:
    """The same facts for a job of so many workers, with other things that it asks for."""
    return replace(facts, job=replace(job(workers), **changes))


def found(facts: Facts, name: str) -> Finding:
    """The finding of that name, of which there is one."""
    (one,) = [finding for finding in diagnose(facts) if finding.name == name]
    return one


def bad(facts: Facts) -> dict[str, Grade]:
    """What is wrong or doubtful, by name."""
    grades = {finding.name: finding.grade for finding in diagnose(facts)}
    return {name: grade for name, grade in grades.items() if grade in (Grade.WRONG, Grade.DOUBT)}
