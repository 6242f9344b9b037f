"""Evaluates the facts. Each diagnosis has a rating and, unless everything is fine, describes what to do."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping
from dataclasses import dataclass, field

from clusterkit.doctor import machine_rules
from clusterkit.doctor.diagnosis import Diagnosis, Judged, Rating, Topic
from clusterkit.doctor.machine_rules import MachineFacts, PortFacts, StateFacts
from clusterkit.job.keras import LEGACY, YES
from clusterkit.job.plan import PROXIES
from clusterkit.text.spelling import listed
from clusterkit.words.job import JobSpec

OLDEST = (2, 16)  # the oldest TensorFlow that clusterkit supports
SHOWN = {"keras": "Keras", "tf-keras": "tf_keras", "numpy": "NumPy", "protobuf": "protobuf"}


@dataclass(frozen=True, slots=True)
class Unmet:
    """An unmet requirement of the installed package `of`. `has` is the installed version, if any."""

    of: str
    name: str
    wanted: str
    has: str | None


@dataclass(frozen=True, slots=True)
class Interpreter:
    """An interpreter that would run tasks. `problem` is the reason why it does not start; None if it starts."""

    path: str
    problem: str | None = None
    version: str = ""
    implementation: str = "cpython"
    packages: Mapping[str, str] = field(default_factory=dict)  # maps each installed distribution to its version
    tensorflows: tuple[str, ...] = ()  # the distributions that contain TensorFlow
    modules: Mapping[str, bool] = field(default_factory=dict)  # maps each module that was found to True if complete
    unmet: tuple[Unmet, ...] = ()
    checked: bool = True  # True if the requirements of packages were checked

    @property
    def tensorflow(self) -> str | None:
        """The version of TensorFlow, whichever distribution contains it; None if TensorFlow is not installed."""
        return self.packages[self.tensorflows[0]] if self.tensorflows else None

    @property
    def has_tensorflow(self) -> bool:
        return bool(self.modules.get("tensorflow"))


def judge_python(python: Interpreter) -> Judged:
    if python.problem is not None:
        text = f"The interpreter {python.path} does not start: {python.problem}. Name another one with --python."
        yield "python-broken", Rating.WRONG, text
        return
    kind = {"cpython": "Python"}.get(python.implementation, python.implementation)
    yield "python", Rating.FINE, f"{kind} {python.version} at {python.path}."
    if not python.has_tensorflow:
        again, what = ([], "not installed") if "tensorflow" not in python.modules else (["--force-reinstall"], "broken")
        text = f"TensorFlow is {what}. If pip finds none for {kind} {python.version}, use another --python."
        yield "no-tensorflow", Rating.WRONG, f"{text} {_install(python, *again, 'tensorflow>=2.16')}"
    elif (version := python.tensorflow) is not None:
        rest = [f"{shown} {python.packages[name]}" for name, shown in SHOWN.items() if name in python.packages]
        yield "versions", Rating.FINE, f"{', '.join([f'TensorFlow {version}', *rest])}."
        if tuple(map(int, re.findall(r"\d+", version)[:2])) < OLDEST:
            text = f"clusterkit supports TensorFlow 2.16 and newer, and this is {version}."
            yield "tensorflow-old", Rating.DOUBT, f"{text} {_install(python, 'tensorflow>=2.16')}"
        if len(python.tensorflows) > 1:
            text = f"{listed(python.tensorflows)} overwrite each other's files. Uninstall all, then install one."
            command = shlex.join([python.path, "-m", "pip", "uninstall", *python.tensorflows])
            yield "several-tensorflows", Rating.WRONG, f"{text} Run: {command}"
    yield from _requirements(python)
    if "clusterkit" not in python.modules:
        text = f"Programs can't import clusterkit.training, which reports steps. Install clusterkit for {python.path}."
        yield "training", Rating.DOUBT, text


def _requirements(python: Interpreter) -> Judged:
    if python.has_tensorflow and not python.checked:
        text = f"Requirements of packages were not checked. {_install(python, 'packaging')}"
        yield "unchecked", Rating.DOUBT, text
    for unmet in python.unmet:
        # A missing requirement may not matter (conda omits libclang), but a wrong version often fails.
        core = unmet.of in (*python.tensorflows, "keras")
        grade = Rating.WRONG if core and (unmet.has or unmet.name == "keras") else Rating.DOUBT
        text = f"{unmet.of} {python.packages[unmet.of]} requires {unmet.name}{unmet.wanted}, and "
        text += f"{unmet.has} is installed." if unmet.has else "it is not installed."
        fix = _install(python, f"{unmet.name}{unmet.wanted}")
        yield "requirement", grade, f"{text} {'Use another --python.' if unmet.name == 'Python' else fix}"


def _install(python: Interpreter, *what: str) -> str:
    return f"Run: {shlex.join([python.path, '-m', 'pip', 'install', *what])}"


@dataclass(frozen=True, slots=True)
class Facts:
    """All facts. `env` is the environment that tasks would get. `job` is None unless the user asked about a job."""

    interpreters: tuple[Interpreter, ...]
    machine: MachineFacts
    ports: PortFacts
    state: StateFacts
    env: Mapping[str, str]
    no_network: str | None = None  # the reason why --network virtual does not work here; None if it works
    no_full_disk: str | None = None  # the reason why the disk-full fault does not work here; None if it works
    keras_backend: str | None = None  # the backend in the user's keras.json
    job: JobSpec | None = None
    shortages: tuple[str, ...] = ()  # sentences: the warnings that `up` shows for this job
    refusals: tuple[str, ...] = ()  # sentences: the reasons why `up` refuses this job
    deep: tuple[Rating, str] | None = None  # a rating of the small job and a sentence about it; None if it was not run


def diagnose(facts: Facts) -> list[Diagnosis]:
    found = [
        Diagnosis(Topic.PYTHON, *one, python.path) for python in facts.interpreters for one in judge_python(python)
    ]
    for topic, judged in (
        (
            Topic.MACHINE,
            [*machine_rules.judge_machine(facts.machine), *machine_rules.judge_ports(facts.ports), *_rights(facts)],
        ),
        (Topic.STATE, machine_rules.judge_state(facts.state)),
        (Topic.ENVIRONMENT, _environment(facts)),
        (Topic.JOB, _job(facts)),
    ):
        found += [Diagnosis(topic, *one) for one in judged]
    return found


def _rights(facts: Facts) -> Judged:
    for name, what, why in (
        ("network", "--network virtual", facts.no_network),
        ("disk-full", "The fault disk-full", facts.no_full_disk),
    ):
        yield (
            (name, Rating.DOUBT, f"{what} does not work here: {why}.") if why else (name, Rating.FINE, f"{what} works.")
        )


def _environment(facts: Facts) -> Judged:
    env = facts.env
    if "TF_CONFIG" in env:
        text = "TF_CONFIG is set. clusterkit ignores it: every task gets its own. Unset it for a plain `python`, too."
        yield "tf-config", Rating.DOUBT, text
    if (level := env.get("TF_CPP_MIN_LOG_LEVEL", "")).isdecimal() and int(level) >= 2:
        text = f"TF_CPP_MIN_LOG_LEVEL={level} hides why TensorFlow fails. Unset it."
        yield "silenced", Rating.DOUBT, text
    legacy = env.get(LEGACY) in YES
    if facts.job is not None and facts.job.keras is not None:
        legacy = facts.job.keras == 2
    backend = env.get("KERAS_BACKEND") or facts.keras_backend
    if backend not in (None, "", "tensorflow") and not legacy:
        place = "KERAS_BACKEND" if "KERAS_BACKEND" in env else "keras.json"
        text = f"{place} makes Keras use {backend}, which tf.distribute can't train. Set it to tensorflow."
        yield "keras-backend", Rating.WRONG, text
    if proxies := [name for name in PROXIES if env.get(name)]:
        yield "proxy", Rating.NOTE, f"{', '.join(proxies)}: tasks reach each other without that proxy."
    if options := sorted(name for name in env if name.startswith("CLUSTERKIT_UP_")):
        yield "defaults", Rating.NOTE, f"{', '.join(options)}: the default of that option for each `up`."
    if env.get("CLUSTERKIT_TASK"):
        text = f"This is inside the task {env['CLUSTERKIT_TASK']} of the run {env.get('CLUSTERKIT_RUN_ID', '?')}."
        yield "inside", Rating.DOUBT, f"{text} A run started here ends with that task. Start it outside."


def _job(facts: Facts) -> Judged:
    if facts.job is not None:
        found = [("shortage", Rating.DOUBT, text) for text in facts.shortages]
        found += machine_rules.judge_needs(facts.machine, facts.ports, facts.job)
        found += [("lacking", Rating.WRONG, text) for text in facts.refusals]
        yield from found or [
            ("job", Rating.FINE, f"There is enough for {facts.job.shape_text} ({facts.job.shape.value}).")
        ]
    if facts.deep is not None:
        yield "deep", *facts.deep
