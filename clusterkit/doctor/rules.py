"""Judges the facts: each diagnosis has a grade and, unless all is fine, says what to do."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from clusterkit.doctor.diagnosis import Diagnosis, Grade, Judged, Topic
from clusterkit.doctor.machine_rules import (
    MachineFacts,
    PortFacts,
    StateFacts,
    judge_machine,
    judge_needs,
    judge_ports,
    judge_state,
)
from clusterkit.doctor.python_rules import Interpreter, judge_python
from clusterkit.job.keras import LEGACY, YES
from clusterkit.job.plan import PROXIES
from clusterkit.words.job import JobSpec
from clusterkit.words.model import number_of


@dataclass(frozen=True, slots=True)
class Facts:
    """All facts. `env` is the environment that tasks would get; `job` is None unless the user asked about one."""

    interpreters: tuple[Interpreter, ...]
    machine: MachineFacts
    ports: PortFacts
    state: StateFacts
    env: Mapping[str, str]
    no_network: str | None = None  # why --network virtual does not work here: a clause
    no_full_disk: str | None = None  # why the fault disk-full does not work here: a clause
    keras_backend: str | None = None  # in the user's keras.json
    job: JobSpec | None = None
    shortages: tuple[str, ...] = ()  # the warnings of `up` for this job
    refusals: tuple[str, ...] = ()  # why `up` refuses this job
    deep: tuple[Grade, str] | None = None  # of the small job


def diagnose(facts: Facts) -> list[Diagnosis]:
    """Judge all facts, by topic."""
    found = [
        Diagnosis(Topic.PYTHON, *one, python.path) for python in facts.interpreters for one in judge_python(python)
    ]
    for topic, judged in (
        (Topic.MACHINE, [*judge_machine(facts.machine), *judge_ports(facts.ports), *_rights(facts)]),
        (Topic.STATE, judge_state(facts.state)),
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
        yield (name, Grade.DOUBT, f"{what} does not work here: {why}.") if why else (name, Grade.FINE, f"{what} works.")


def _environment(facts: Facts) -> Judged:
    env = facts.env
    if "TF_CONFIG" in env:
        text = "TF_CONFIG is set. clusterkit ignores it: every task gets its own. Unset it for a plain `python`, too."
        yield "tf-config", Grade.DOUBT, text
    if (level := env.get("TF_CPP_MIN_LOG_LEVEL", "")).isdecimal() and int(level) >= 2:
        text = f"TF_CPP_MIN_LOG_LEVEL={level} hides why TensorFlow fails. Unset it."
        yield "silenced", Grade.DOUBT, text
    legacy = env.get(LEGACY) in YES
    if facts.job is not None and facts.job.keras is not None:
        legacy = facts.job.keras == 2
    backend = env.get("KERAS_BACKEND") or facts.keras_backend
    if backend not in (None, "", "tensorflow") and not legacy:
        place = "KERAS_BACKEND" if "KERAS_BACKEND" in env else "keras.json"
        text = f"{place} makes Keras use {backend}, which tf.distribute can't train. Set it to tensorflow."
        yield "keras-backend", Grade.WRONG, text
    if proxies := [name for name in PROXIES if env.get(name)]:
        yield "proxy", Grade.NOTE, f"{', '.join(proxies)}: tasks reach each other without that proxy."
    if options := sorted(name for name in env if name.startswith("CLUSTERKIT_UP_")):
        yield "defaults", Grade.NOTE, f"{', '.join(options)}: the default of that option for each `up`."
    if env.get("CLUSTERKIT_TASK"):
        text = f"This is inside the task {env['CLUSTERKIT_TASK']} of the run {env.get('CLUSTERKIT_RUN_ID', '?')}."
        yield "inside", Grade.DOUBT, f"{text} A run started here ends with that task. Start it outside."


def _job(facts: Facts) -> Judged:
    if facts.job is not None:
        found = [("shortage", Grade.DOUBT, text) for text in facts.shortages]
        found += judge_needs(facts.machine, facts.ports, facts.job)
        found += [("lacking", Grade.WRONG, text) for text in facts.refusals]
        kinds = ", ".join(number_of(kind, count) for kind, count in facts.job.counts.items() if count)
        yield from found or [("job", Grade.FINE, f"There is enough for {kinds} ({facts.job.shape.value}).")]
    if facts.deep is not None:
        yield "deep", *facts.deep
