"""The manifest of each shape is the one in its golden file, so that a change of it is seen in a review."""

from __future__ import annotations

import pytest
import yaml

from clusterkit.text.printable import printable_lines
from tests.engines.kubernetes.shapes import GOLDEN, SHAPES, documents_of, text_of

REWRITE = "If this is meant: .venv/bin/python -m tests.engines.kubernetes.shapes"


@pytest.mark.parametrize("shape", SHAPES)
def test_a_manifest_is_as_it_was(shape: str) -> None:
    """To the byte, comments too."""
    assert text_of(shape) == (GOLDEN / f"{shape}.yaml").read_text(), REWRITE


@pytest.mark.parametrize("shape", SHAPES)
def test_its_text_says_what_its_documents_are(shape: str) -> None:
    """Read again it is the same, and a terminal shows it as it is."""
    assert list(yaml.safe_load_all(text_of(shape))) == documents_of(shape)
    assert printable_lines(text_of(shape)) == text_of(shape)


def test_each_file_is_one_of_a_shape() -> None:
    """A shape that was renamed leaves none behind."""
    assert {path.stem for path in GOLDEN.iterdir()} == set(SHAPES)
