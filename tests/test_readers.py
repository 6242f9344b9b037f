"""Readers of the journal learn facts from the fields of events, and not from their sentences."""

from __future__ import annotations

import ast

from tests.test_house import MODULES, breaches, room_of

READERS = ("views", "ledger", "page", "hooks", "api")
SENTENCES = {"reason", "why", "detail", "said", "message", "sentence"}  # fields and variables with text for people
LOOKS = {"startswith", "endswith", "find", "index", "partition", "rpartition", "split", "count"}


def test_no_reader_learns_a_fact_from_a_sentence() -> None:
    """An event has a field for whatever its readers need; its sentences are for people."""

    def is_sentence(node: ast.AST) -> bool:
        return getattr(node, "attr", getattr(node, "id", "")) in SENTENCES

    def looks(node: ast.AST) -> bool:
        match node:
            case ast.Compare(ops=[ast.In() | ast.NotIn()], comparators=[sentence]):
                return is_sentence(sentence)
            case ast.Call(func=ast.Attribute(value=sentence, attr=how)) if how in LOOKS:
                return is_sentence(sentence)
            case ast.Call(func=ast.Attribute(attr="search" | "match" | "fullmatch"), args=[*texts]):
                return any(map(is_sentence, texts))
        return False

    paths = [path for path in MODULES if room_of(path) in READERS]
    assert (
        breaches(paths, lambda path: [ast.unparse(n) for n in ast.walk(ast.parse(path.read_text())) if looks(n)]) == {}
    )
