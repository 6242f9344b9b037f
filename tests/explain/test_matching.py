"""Which rows fit, in which order, and with which words."""

from __future__ import annotations

from clusterkit.check.findings import Finding, Location
from clusterkit.explain.matching import LONGEST_WORD, MOST, explain
from clusterkit.explain.row import HOLDS, Evidence, Row, TaskEvidence, Words, of_shape
from clusterkit.words.model import ProgramKind, Shape, Task, TaskType
from clusterkit.words.outcome import Exit
from tests.histories import build_job

WORKER = Task(TaskType.WORKER, 1)
TEXT = """Traceback (most recent call last):
  File "/home/u/train.py", line 3, in <module>
  File "/home/u/model.py", line 38, in build
  File "/usr/lib/python3/dist-packages/tensorflow/x.py", line 9, in call
ValueError: no variable 'dense/kernel' here"""
JOB = build_job({"workers": 2, "program": "train.py"}, ProgramKind.SCRIPT)
AT = Finding("a", Location("model.py", 38), "It is here.", "Move it.")


def evidence(text: str = TEXT, *findings: Finding) -> Evidence:
    """Of a job of two workers, of which worker:1 failed so."""
    return Evidence((TaskEvidence(WORKER, text, "", Exit(code=1)),), JOB, findings=findings)


def ids(rows: list[Row], known: Evidence) -> list[str]:
    """Those of the rows that fit."""
    return [explanation.row for explanation in explain(known, rows)]


def row(id_: str, seen: str = "no variable", **fields: object) -> Row:
    """A row of this id."""
    return Row(id_, "title", seen, "It is.", "Do so.", **fields)  # type: ignore[arg-type]


def test_the_words_of_a_sentence() -> None:
    """Groups of the expression, words of the condition, the task, the program's line; what is missing is left out."""
    means = "{name} at {line} of {task} among {tasks}: {nothing} {{x}}"
    one = Row("a", "title", "no variable '(?P<name>[^']+)'", means, "Do {name}.", of_shape(Shape.MULTI_WORKER))
    (told,) = explain(evidence(), [one])
    assert (told.task, told.means) == (WORKER, "dense/kernel at model.py:38 of worker:1 among 2 workers: … {x}")
    assert str(told).endswith("{x} Do dense/kernel.")
    (told,) = explain(evidence("no variable 'a\x1b[2Jb{task}'"), [one])
    assert told.advice == "Do a␛[2Jb{task}."
    (told,) = explain(evidence(f"no variable '{'x' * 9999}'"), [one])
    assert len(told.advice) < LONGEST_WORD + 10


def test_an_error_without_a_line_of_the_program_is_in_the_program() -> None:
    """A traceback without frames names no line, and `at the program` is not English."""
    one = Row("a", "title", "no variable", "At {line}, or at {line}.", "Do so.")
    assert explain(evidence(), [one])[0].means == "At model.py:38, or at model.py:38."
    assert explain(evidence("no variable"), [one])[0].means == "In the program, or in the program."


def test_a_condition_can_say_it_all() -> None:
    """Its sentences replace those of the row."""
    (told,) = explain(evidence(), [row("a", when=lambda _: {"means": "So {it} is.", "advice": "So."})])
    assert (told.means, told.advice) == ("So {it} is.", "So.")


def test_the_most_specific_comes_first() -> None:
    """With words of a condition before without, and more of the text before less; at most three."""
    words: Words = {"a": "b"}
    rows = [row("short", "no"), row("long", "no variable"), row("known", "no", when=lambda _: words)]
    assert ids(rows, evidence()) == ["known", "long", "short"]
    assert len(ids([row(str(n)) for n in range(9)], evidence())) == MOST


def test_what_check_finds_is_shown_instead() -> None:
    """With its line, in place of what else fits the same words; preferably the one that is in the traceback."""
    other = Finding("a", Location("model.py", 7), "It is there.", "Move that.")
    (told,) = explain(evidence(TEXT, other, AT), [row("b", "no variable 'dense/kernel' here"), row("a")])
    assert (told.row, told.means, told.advice) == ("a", "model.py:38: It is here.", "Move it.")


def test_what_check_finds_hides_no_other_explanation() -> None:
    """Its line comes first; what else fits other words of the error, or the facts, may be the reason."""
    fact = row("fact", "", when=lambda _: HOLDS)
    rows = [row("same", "variable 'dense"), row("other", "ValueError"), fact, row("a"), row("vague", general=True)]
    assert ids(rows, evidence(TEXT, AT)) == ["a", "other", "fact"]


def test_a_finding_about_another_thing_does_not_count() -> None:
    """A row that is about a module, a path and the like is not about another one."""
    about = Finding("a", Location("random.py", 1), "It hides random.", "Rename it.", "random")
    assert explain(evidence(TEXT, about), [row("a")])[0].means == "It is."
    assert explain(evidence(TEXT, about), [row("a", when=lambda _: {"of": "random"})])[0].means.startswith(
        "random.py:1"
    )


def test_rows_that_cover_others() -> None:
    """What is said already, and what is said where nothing else is."""
    assert ids([row("a"), row("b", over=("a",))], evidence()) == ["b"]
    assert ids([row("a", general=True), row("b")], evidence()) == ["b"]
    assert ids([row("a", general=True), row("b", general=True)], evidence()) == ["a"]


def test_facts_count_without_an_error() -> None:
    """A row that looks for a text is not tried there."""
    rows = [row("a", "", facts_only=True, when=lambda _: HOLDS), row("b", "", when=lambda _: HOLDS), row("c")]
    assert ids(rows, evidence("")) == ["a"]
    assert ids(rows, Evidence(())) == ["a"]


def test_conditions() -> None:
    """Of the shape of the job, which is unknown for a log from elsewhere."""
    elsewhere = Evidence((TaskEvidence(text=TEXT),))
    gang, ps = of_shape(Shape.MULTI_WORKER), of_shape(Shape.PARAMETER_SERVER, unknown=False)
    assert (gang(evidence()), ps(evidence())) == ({"tasks": "2 workers"}, None)
    assert (gang(elsewhere), ps(elsewhere)) == ({"tasks": "its tasks"}, None)
