"""YAML that says the same to every parser, whatever text is in it."""

from __future__ import annotations

import re
import sys

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from clusterkit.engines.kubernetes.documents import NoYaml, yaml_text

# What YAML 1.1, YAML 1.2, or some parser of either, takes for a number, a date, a truth value, nothing, or syntax.
TRAPS = [
    *("y", "n", "Yes", "NO", "on", "Off", "true", "FALSE", "null", "Null", "~", "", "nan", ".nan", "inf", "-.inf", "="),
    *("1", "1e3", "1E3", "012", "0o17", "0x1F", "0b1", "1_000", ".5", "+1", "12:30:00", "2026-11-22", "<<", "-", "- a"),
    *("a: b", "a:", "#x", "a #b", "@x", "`x", "!x", "&a", "*a", "%d", "|", ">", "{", "[]", "?", "? a", "'", '"', "\\"),
    *(
        " ",
        " a",
        "a ",
        "\t",
        "a\tb",
        "a\nb",
        "a\n",
        "\n",
        "\na\n",
        " a\n",
        "a \n",
        "a\r\n",
        "---",
        "...",
        "\x00",
        "\x1b",
    ),
    *(
        "\x7f",
        "\x85",
        "\xa0",
        "\u2028",
        "\ufeff",
        "é",
        "🙂",
        "$(A)",
        "--- a",
        "a\n---\nb\n",
        "a\n\n",
        "#a\n",
        "a\n b\n",
    ),
]
SAFE = re.compile(r"a: ([A-Za-z/][A-Za-z0-9._/-]*|\".*\")\n|a: \|\n(  [!-~][ -~]*\n|\n)+")
texts = st.text(st.characters(exclude_categories=["Cs"]))
values = st.recursive(
    st.none() | st.booleans() | st.integers() | texts,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(texts, inner, max_size=4),
    max_leaves=20,
)


@pytest.mark.parametrize("trap", TRAPS)
def test_a_trap_is_text(trap: str) -> None:
    """It is quoted, a block of plain lines, or a word that is nothing else in any YAML."""
    text = yaml_text([], [{"a": trap}])
    assert yaml.safe_load(text) == {"a": trap}
    assert SAFE.fullmatch(text.removeprefix("---\n")), text


@given(texts)
def test_any_text_is_text(value: str) -> None:
    """As a value and as a key, in ASCII."""
    text = yaml_text([], [{"a": value}])
    assert text.isascii()
    assert SAFE.fullmatch(text.removeprefix("---\n")) or not re.fullmatch(r"[\n -~]*", text), text
    assert yaml.safe_load(yaml_text([], [{value: {value: [value]}}])) == {value: {value: [value]}}


@pytest.mark.slow
@given(st.lists(st.dictionaries(texts, values, max_size=4), min_size=1, max_size=3))
def test_documents_are_read_again(documents: list[dict[str, object]]) -> None:
    """Whatever is in them."""
    assert list(yaml.safe_load_all(yaml_text(["head"], documents))) == documents  # type: ignore[arg-type]


def test_what_stands_twice_is_written_twice() -> None:
    """Anchors and aliases are no part of what Kubernetes' users expect."""
    same = {"a": ["b"]}
    assert yaml_text([], [{"x": same, "y": same}]).count("- b") == 2


def test_without_pyyaml_the_error_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    """It comes with an extra."""
    monkeypatch.setitem(sys.modules, "yaml", None)
    with pytest.raises(NoYaml, match=r"pip install 'tf-clusterkit\[engines\]'"):
        yaml_text([], [])
