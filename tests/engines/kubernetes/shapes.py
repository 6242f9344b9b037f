"""The jobs whose manifests are kept as golden files.

To write the files again: .venv/bin/python -m tests.engines.kubernetes.shapes
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from clusterkit.engines.kubernetes.documents import documents, head_lines, yaml_text
from clusterkit.engines.kubernetes.manifest import Document, Manifest, ManifestFlags, Secret
from clusterkit.engines.kubernetes.printed import manifest_from
from clusterkit.job.options import GivenOptions, JobOptions
from clusterkit.words.model import TaskType

GOLDEN = Path(__file__).parent / "golden"
PEM = "-----BEGIN PRIVATE KEY-----\nbm90IGEga2V5\n-----END PRIVATE KEY-----\n"
PLAIN = ManifestFlags("trainer:1")

SHAPES: dict[str, tuple[JobOptions, ManifestFlags]] = {
    "single": ({"program": "train.py"}, PLAIN),
    "gang": ({"program": "train.py", "args": ["--epochs", "3"], "workers": 3, "timeout": 7200.0}, PLAIN),
    "ps": (
        {"module": "project.train", "args": ["--price", "$(5)"], "workers": 4, "ps": 2, "grace_period": 30.0},
        replace(PLAIN, hosts=2, namespace="training", storage="nfs", storage_size="500Gi"),
    ),
    "evaluator": (
        {
            "program": "train.py", "workers": 2, "ps": 1, "evaluator": True, "env": {"LEVEL": "3", "API_TOKEN": "hush"},
            "task": {TaskType.PS: {"args": ["--serve"], "env": {"NOTE": "two\nlines"}}}, "resume": "run-0",
        },
        replace(PLAIN, claim="runs", env_from=("credentials",)),
    ),
    "gpus": (
        {
            "program": "train.py", "workers": 4, "gpus_per_task": 2, "cpus_per_task": 8, "env": {"LEVEL": "3"},
            "show_env": True,
        },
        replace(PLAIN, hosts=2, memory="64Gi", secret=Secret.OUT),
    ),
    "spare": ({"program": "train.py", "workers": 4, "spare_hosts": 1}, replace(PLAIN, hosts=2)),
}  # fmt: skip


def manifest_of(options: JobOptions, flags: ManifestFlags = PLAIN, run_id: str = "train-1") -> Manifest:
    """The manifest of a job that is all right."""
    return manifest_from(GivenOptions(JobOptions(**{"run_id": run_id, **options})), flags)


def documents_of(shape: str) -> list[Document]:
    """The documents of a shape."""
    return documents(manifest_of(*SHAPES[shape]), PEM)


def text_of(shape: str) -> str:
    """What `clusterkit manifests` prints for a shape."""
    return yaml_text(head_lines(manifest_of(*SHAPES[shape])), documents_of(shape))


if __name__ == "__main__":
    for name in SHAPES:
        (GOLDEN / f"{name}.yaml").write_text(text_of(name))
