"""The grammar of --verify, and the words of its verdict."""

from __future__ import annotations

import pytest

from clusterkit.words.verification import Equality, Verification, VerifyRequest, is_request, parse_request, request_text


@pytest.mark.parametrize(
    ("text", "request_"),
    [
        ("yes", VerifyRequest(5)),
        ("no", None),
        ("20", VerifyRequest(20)),
        ("required", VerifyRequest(5, required=True)),
        ("required:20", VerifyRequest(20, required=True)),
    ],
)
def test_what_is_requested(text: str, request_: VerifyRequest | None) -> None:
    """Five steps unless a number is given."""
    assert is_request(text)
    assert parse_request(text) == request_


@pytest.mark.parametrize("text", ["", "train.py", "required:", "required:x", "-1", "5.0", "20 ", "YES", "²"])
def test_what_is_no_request(text: str) -> None:
    """A program's name is not taken for a value."""
    assert not is_request(text)
    with pytest.raises(ValueError, match="is not a value of --verify"):
        parse_request(text)


@pytest.mark.parametrize("text", ["0", "1001", "required:0", "required:99999"])
def test_numbers_out_of_range(text: str) -> None:
    """Not even one step, and more than are recorded."""
    with pytest.raises(ValueError, match="compares 1 to 1000 steps"):
        parse_request(text)


@pytest.mark.parametrize(
    ("value", "text"), [(True, "yes"), (False, "no"), (20, "20"), ("required", "required"), ("20", "20")]
)
def test_values_of_job_files_and_of_python(value: object, text: str) -> None:
    """TOML's and Python's own types."""
    assert request_text(value) == text


@pytest.mark.parametrize("value", [None, 1.5, [], {}, "", 0, -3])
def test_other_values_are_refused(value: object) -> None:
    """With an error that becomes a sentence, whatever their type."""
    with pytest.raises(ValueError, match="verify"):
        request_text(value)


@pytest.mark.parametrize(
    ("verdict", "lines"),
    [
        (Verification(Equality.EQUAL, 5), ("verified: 5 steps equal to one process",)),
        (Verification(Equality.EQUAL, 1, cached=True), ("verified: 1 step equal to one process (found earlier)",)),
        (
            Verification(Equality.NOT_COMPARABLE, 0, "the batch grows."),
            ("not verified: not comparable with one process, since the batch grows",),
        ),
        (
            Verification(Equality.DIFFERENT, 5, "The gradients are too large.", "Divide.", "train.py, line 9"),
            (
                "not verified: the first 5 steps differ from those of one process",
                "    The gradients are too large.",
                "    The first step is made at train.py, line 9.",
                "    → Divide.",
            ),
        ),
    ],
)
def test_the_words_of_a_verdict(verdict: Verification, lines: tuple[str, ...]) -> None:
    """One line if all is well, otherwise what differs, where, and what to do."""
    assert verdict.lines == lines
