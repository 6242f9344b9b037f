"""`kubectl kustomize`, which needs no cluster, reads the same documents: with the parser that Kubernetes has."""

from __future__ import annotations

import random
import shutil
import subprocess
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
import yaml

from clusterkit.engines.kubernetes.documents import yaml_text
from clusterkit.engines.kubernetes.manifest import Document
from tests.engines.kubernetes.shapes import SHAPES, documents_of
from tests.engines.kubernetes.test_text import TRAPS

pytestmark = [
    pytest.mark.process,
    pytest.mark.skipif(shutil.which("kubectl") is None, reason="kubectl is not installed"),
]
UNREADABLE = ("=", "<<")  # of what it prints, by PyYAML


def read(place: Path, documents: Iterable[Document]) -> list[Any]:
    """The documents as kubectl understands them, by kind and name."""
    (place / "kustomization.yaml").write_text("resources: [all.yaml]\n")
    (place / "all.yaml").write_text(yaml_text(["head"], documents))
    words = ["kubectl", "kustomize", str(place)]
    done = subprocess.run(words, capture_output=True, text=True, timeout=30, check=False, stdin=subprocess.DEVNULL)
    assert done.returncode == 0, done.stderr[-500:]
    return ordered(yaml.safe_load_all(done.stdout))


def ordered(documents: Iterable[Any]) -> list[Any]:
    """In an order that does not depend on who wrote them."""
    return sorted(documents, key=lambda document: (document["kind"], document["metadata"]["name"]))


@pytest.mark.parametrize("shape", SHAPES)
def test_each_shape(shape: str, tmp_path: Path) -> None:
    """Field for field."""
    assert read(tmp_path, documents_of(shape)) == ordered(documents_of(shape))


def test_random_texts(tmp_path: Path) -> None:
    """As values, with what is special in YAML, outside ASCII, and in lines."""
    seed = random.randrange(2**32)
    print(f"seed {seed}")
    rng = random.Random(seed)
    letters = [*"$-:#'\"|>&*!%@`?{}[],~=<\\ \n\t0e1.y", "é", "🙂", "\u2029", "\ufeff", "--", "\n- ", ": ", " #"]
    texts = ["".join(rng.choices(letters, k=rng.randrange(9))) for _ in range(2000)]
    texts += [trap for trap in TRAPS if trap.isprintable()]
    data = {f"k{number}": text for number, text in enumerate(texts) if text not in UNREADABLE}
    [found] = read(tmp_path, [{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": data}])
    assert found["data"] == data
