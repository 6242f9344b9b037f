"""Facts for the doctor's tests: a machine on which all is well, to be changed in one place."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from clusterkit.doctor.diagnosis import Diagnosis, Rating
from clusterkit.doctor.machine_rules import MachineFacts, PortFacts, StateFacts
from clusterkit.doctor.rules import Facts, Interpreter, Unmet, diagnose
from tests.histories import job

GB = 1 << 30
PACKAGES = {"tensorflow": "2.21.0", "keras": "3.15.1", "tf-keras": "2.21.0", "numpy": "2.4.6", "protobuf": "7.36.2"}
WELL = Interpreter(
    path="/venv/bin/python",
    version="3.11.7",
    packages=PACKAGES,
    tensorflows=("tensorflow",),
    modules={"tensorflow": True, "keras": True, "clusterkit": True},
)
BARE = replace(WELL, packages={}, tensorflows=(), modules={"clusterkit": True})
MACHINE = MachineFacts(
    cores=8, memory=32 * GB, free=24 * GB, task_memory=400 << 20,
    descriptors=1024, descriptors_hard=4096, task_descriptors=6,
    kernel="Linux 6.18", threads=50_000, threads_now=500,
)  # fmt: skip


def healthy(python: Interpreter = WELL, **changes: Any) -> Facts:
    """Facts about a machine where nothing is wrong, but for what is changed."""
    facts = Facts(
        interpreters=(python,),
        machine=MACHINE,
        ports=PortFacts(28232, 28000),
        state=StateFacts("/home/ada/.local/state/clusterkit", None, 50 * GB, {}),
        env={"HOME": "/home/ada", "PATH": "/usr/bin"},
    )
    return replace(facts, **changes)


def lacks(of: str, name: str, wanted: str, has: str | None = None) -> Facts:
    """Facts with a requirement that is not met."""
    return healthy(replace(WELL, packages={**PACKAGES, "tensorboard": "2.21.0"}, unmet=(Unmet(of, name, wanted, has),)))


def machine(**changes: Any) -> Facts:
    """Facts about another machine."""
    return healthy(machine=replace(MACHINE, **changes))


def state(**changes: Any) -> Facts:
    """Facts about another state directory."""
    return healthy(state=replace(healthy().state, **changes))


def environment(variables: Mapping[str, str], **changes: Any) -> Facts:
    """Facts with these variables."""
    return healthy(env={**healthy().env, **variables}, **changes)


def asking(facts: Facts, workers: int = 2, **changes: Any) -> Facts:
    """The same facts for a job of so many workers, with other things that it asks for."""
    return replace(facts, job=replace(job(workers), **changes))


def found(facts: Facts, name: str) -> Diagnosis:
    """The diagnosis of that name, of which there is one."""
    (one,) = [one for one in diagnose(facts) if one.name == name]
    return one


def bad(facts: Facts) -> dict[str, Rating]:
    """What is wrong or doubtful, by name."""
    grades = {one.name: one.grade for one in diagnose(facts)}
    return {name: grade for name, grade in grades.items() if grade in (Rating.WRONG, Rating.DOUBT)}
