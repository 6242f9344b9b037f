"""The check of a program before it starts: what its text says, held against the job that is asked for."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from clusterkit.rules import check_cluster, check_strategy, check_training
from clusterkit.rules.case import Case
from clusterkit.rules.keras import LEGACY
from clusterkit.rules.origins import MULTI_WORKER, PARAMETER_SERVER, gone
from clusterkit.rules.program import Program
from clusterkit.rules.source import Module, Text, Unreadable, parse
from clusterkit.rules.vocabulary import Words
from clusterkit.rules.walk import Walk
from clusterkit.words.findings import Finding, Severity, Versions
from clusterkit.words.model import JobSpec, Shape

Rule = Callable[[Case], Iterator[Finding]]


def check(texts: Sequence[Text], job: JobSpec, versions: Versions, whole: bool = True) -> list[Finding]:
    """Every finding, errors first. The first of the texts is the program; `whole`: the others are all it has.

    A program that does not import TensorFlow has none, whatever else it does.
    """
    modules: list[Module] = []
    for text in texts:
        try:
            modules.append(parse(text))
        except Unreadable as error:
            if not modules:
                return [_no_python(error)]
    try:
        case = _case(modules, job, versions, whole and len(modules) == len(texts))
    except RecursionError:
        return []
    if not case.program.has_tensorflow:
        return []
    found = {(finding.id, finding.place): finding for rule in RULES for finding in rule(case)}
    return sorted(found.values(), key=lambda finding: (finding.severity is not Severity.ERROR, *_at(finding)))


def check_syntax(text: Text) -> list[Finding]:
    """Whether it is Python at all."""
    try:
        parse(text)
    except Unreadable as error:
        return [_no_python(error)]
    return []


def _at(finding: Finding) -> tuple[str, int]:
    return finding.place.file, finding.place.line


def _case(modules: Sequence[Module], job: JobSpec, versions: Versions, whole: bool) -> Case:
    words = Words.of(modules)
    keras = _keras(words, job, versions)
    answers = {
        "clusterkit.training.has_ps": job.shape is Shape.PARAMETER_SERVER,
        "clusterkit.training.in_cluster": job.shape is not Shape.SINGLE,
    }
    usual = {Shape.PARAMETER_SERVER: PARAMETER_SERVER, Shape.MULTI_WORKER: MULTI_WORKER}.get(job.shape)
    marks = Walk(modules, words, keras, answers, usual).run()
    opaque = not whole or words.is_opaque(module.name.partition(".")[0] for module in modules)
    return Case(Program(marks, words, opaque), job, keras, versions.tensorflow)


def _keras(words: Words, job: JobSpec, versions: Versions) -> int | None:
    if job.keras is not None:
        return job.keras
    return None if LEGACY in words.texts or "tf_keras" in words.imported else versions.keras


def _no_python(error: Unreadable) -> Finding:
    what = f"This is no Python that the tasks' interpreter can read: {error.why}."
    return Finding("syntax-error", Severity.ERROR, error.place, what, "Mend the line.")


def removed(case: Case) -> Iterator[Finding]:
    """What the installed versions do not have any more."""
    for mark in case.program.marks:
        if mark.certain and (name := gone(mark.name, case.tensorflow, case.keras)):
            is_kerass = name.startswith("keras.")
            whose, shown = ("Keras 3", f"tf.{name}") if is_kerass else ("TensorFlow", name.replace("tensorflow", "tf"))
            advice = "Add --keras 2, which has it, or replace it." if is_kerass else "Replace it."
            yield case.error("removed", mark, f"{whose} has no {shown} any more.", advice)


RULES: tuple[Rule, ...] = (*check_strategy.RULES, *check_cluster.RULES, *check_training.RULES, removed)
