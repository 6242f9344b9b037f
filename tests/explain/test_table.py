"""The table of explanations: each row is complete, and the page in docs/ has what it says."""

from __future__ import annotations

import re
import string

import pytest

from clusterkit.explain.row import Row, anywhere
from clusterkit.explain.table import FILES, TABLE
from tests.explain.page import PAGE, page

STANDARD = {"task", "line"}  # what every sentence may name


def names(text: str) -> set[str]:
    """The names in a sentence."""
    return {name for _, name, _, _ in string.Formatter().parse(text) if name is not None}


def test_each_id_is_there_once() -> None:
    """It is the name of a row in result.json, and of its program."""
    ids = [row.id for row in TABLE]
    assert sorted(set(ids)) == sorted(ids)
    assert {row.id for module in FILES for row in module.ROWS} == set(ids)
    assert {other for row in TABLE for other in row.over} <= set(ids)


@pytest.mark.parametrize("row", TABLE, ids=lambda row: row.id)
def test_each_row_is_complete(row: Row) -> None:
    """Sentences for people, and something by which a failure is known."""
    assert re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*", row.id)
    assert row.title.isprintable()
    for text in (row.means, row.advice):
        assert text.isprintable()
        assert re.search(r"\bwould\b", text) is None
    assert re.match(r"[A-Z{]|[a-z]\w*[.:_(]|(?:fit|save)\b", row.means)  # a sentence, which a name may begin
    assert row.means.endswith(".")
    assert re.search(row.seen, "", re.MULTILINE) is None or not row.seen
    assert row.when is not anywhere or row.seen
    assert row.when is not anywhere or not row.facts_only
    assert all(re.fullmatch(r"[\w.-]+/[\w.-]+#\d+", thread) for thread in row.reported)
    if row.when is anywhere:
        assert names(row.means) | names(row.advice) <= STANDARD | set(re.compile(row.seen).groupindex)


def test_the_page_is_current() -> None:
    """It is made by `python -m tests.explain.page`."""
    assert PAGE.read_text() == page()
