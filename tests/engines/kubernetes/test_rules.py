"""What can't run in pods is refused, with a sentence for each problem, all at once."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from clusterkit.engines.kubernetes.manifest import ManifestFlags, Secret
from clusterkit.engines.kubernetes.printed import key_request, manifest_from
from clusterkit.job.options import GivenOptions
from clusterkit.words.errors import BadJob
from clusterkit.words.model import TaskType
from tests.engines.kubernetes.shapes import PLAIN, manifest_of

JOB: dict[str, Any] = {"program": "train.py", "workers": 2, "run_id": "train-1"}
SECRET = {"env": {"API_TOKEN": "hush"}}
OUT = replace(PLAIN, secret=Secret.OUT)
PROBLEMS: list[tuple[dict[str, Any], ManifestFlags, str]] = [
    ({"run_id": "Train_1"}, PLAIN, "For example: --run-id train-1"),
    ({"run_id": "1st"}, PLAIN, "For example: --run-id run-1st"),
    ({"run_id": "a" * 43}, PLAIN, "up to 42 lower-case letters"),
    ({"run_id": "é"}, PLAIN, "For example: --run-id run"),
    ({}, replace(PLAIN, image=""), "--image '' can't be the name of an image."),
    ({}, replace(PLAIN, image="a b"), "--image 'a b' can't be"),
    ({}, replace(PLAIN, namespace="Mine"), "--namespace 'Mine' can't be a namespace"),
    ({}, replace(PLAIN, namespace="a\n"), "can't be a namespace"),
    ({}, replace(PLAIN, namespace="a" * 64), "up to 63"),
    ({}, replace(PLAIN, storage="a..b"), "--storage 'a..b' can't name a Kubernetes object"),
    ({}, replace(PLAIN, claim="-a"), "--claim '-a' can't name"),
    ({}, replace(PLAIN, env_from=("fine", "A")), "--env-from 'A' can't name"),
    ({}, replace(PLAIN, storage_size="10 GB"), "--storage-size '10 GB' is not a size. Write 512Mi"),
    ({}, replace(PLAIN, memory="0Gi"), "--memory '0Gi' is not a size"),
    ({}, replace(PLAIN, claim="a", storage="b"), "--claim names a volume claim that already exists"),
    ({}, replace(PLAIN, hosts=0), "--hosts is 0. It has to be between 1 and 4096."),
    ({"resume": "old"}, PLAIN, "--resume reads the directory of an earlier run. Name the claim"),
    ({"checkpoint_dir": "/data"}, PLAIN, "the directory that all pods share is /var/lib/clusterkit"),
    ({"checkpoint_dir": "/var/lib/clusterkit"}, PLAIN, "Name one below it"),
    ({"watch": True}, PLAIN, "--watch is for a job on this machine"),
    ({"network": "virtual"}, PLAIN, "--network virtual is a network within one machine"),
    ({"args": ["\udce9"]}, PLAIN, "argument 1 of the program has bytes that are not UTF-8 text"),
    ({"env": {"A": "\udce9"}}, PLAIN, "env: 'A' has bytes that are not UTF-8"),
    ({"program": "\udce9"}, PLAIN, "the program has bytes"),
    ({"task": {TaskType.PS: {"cwd": "here"}}}, PLAIN, "task.ps.cwd is here: write the full path"),
    ({"task": {TaskType.PS: {"python": "./python"}}}, PLAIN, "task.ps.python is ./python: write the full path"),
    (SECRET, OUT, "--no-secret: env: API_TOKEN may be a secret"),
    ({"env": {"LEVEL": "3"}}, OUT, "--no-secret: env: LEVEL may be a secret"),
    ({"args": ["https://me:hush@host/"]}, OUT, "--no-secret: the job has a URL with credentials in it"),
    ({"task": {TaskType.PS: SECRET}}, OUT, "--no-secret: task.ps.env: API_TOKEN may be a secret"),
]


@pytest.mark.parametrize(("options", "flags", "sentence"), PROBLEMS)
def test_a_problem_is_named(options: dict[str, Any], flags: ManifestFlags, sentence: str) -> None:
    """It is the only one, and says what to do."""
    with pytest.raises(BadJob) as raised:
        manifest_from(GivenOptions({**JOB, **options}), flags)  # type: ignore[typeddict-item]
    [problem] = raised.value.problems
    assert sentence in problem


def test_all_problems_come_at_once() -> None:
    """Those of the job, of the flags and of the name."""
    wrong: Any = {"workers": -1, "run_id": "A", "network": "virtual"}
    with pytest.raises(BadJob) as raised:
        manifest_from(GivenOptions(wrong), ManifestFlags("", hosts=0))
    text = str(raised.value)
    for part in ("No program", "--workers is -1", "--run-id 'A'", "--image", "--hosts is 0", "--network virtual is"):
        assert part in text


def test_tasks_beyond_number_are_not_listed() -> None:
    """A list of them would fill the memory."""
    with pytest.raises(BadJob, match="100000000000000000000 tasks are asked for"):
        manifest_from(GivenOptions({"program": "train.py", "workers": 10**20}), ManifestFlags("image"))


@pytest.mark.parametrize("options", [{"cwd": "here"}, {"python": "./python"}, {"task": {TaskType.PS: {"python": "p"}}}])
def test_what_is_relative_to_the_images_directory_is_fine(options: dict[str, Any]) -> None:
    """So is an interpreter that is looked up in the image's PATH."""
    manifest_of({**JOB, **options})  # type: ignore[typeddict-item]


def test_a_run_without_a_name_gets_one() -> None:
    """Another one each time, that Kubernetes takes."""
    names = {manifest_from(GivenOptions({"program": "train.py"}), PLAIN).name for _ in range(20)}
    assert len(names) > 10
    assert all(name.startswith("run-2") for name in names)


def test_a_key_alone_needs_a_run_and_no_program() -> None:
    """A wrong namespace is a problem still."""
    only = replace(PLAIN, secret=Secret.ONLY)
    assert key_request(GivenOptions({"run_id": "a"}), replace(only, namespace="n")).key == "a-key"
    with pytest.raises(BadJob) as raised:
        key_request(GivenOptions({}), replace(only, namespace="N"))
    assert [problem.split(" ")[0] for problem in raised.value.problems] == ["--namespace", "--only-secret"]


@pytest.mark.parametrize(
    ("hosts", "cpu", "gpus"),
    [(1, "40", "8"), (2, "24", "4"), (3, "16", "4"), (4, "16", "2"), (5, "8", "2"), (8, "8", "2")],
)
def test_an_agent_asks_for_what_its_tasks_need(hosts: int, cpu: str, gpus: str) -> None:
    """Five tasks with 8 cores each, of which four compute with 2 GPUs, spread evenly."""
    from clusterkit.engines.kubernetes.pods import agent_resources

    job: Any = {"program": "train.py", "workers": 4, "evaluator": True, "cpus_per_task": 8, "gpus_per_task": 2}
    found = agent_resources(manifest_of(job, replace(PLAIN, hosts=hosts, memory="1Gi")))
    assert found == {
        "requests": {"cpu": cpu, "memory": "1Gi"},
        "limits": {"memory": "1Gi", "nvidia.com/gpu": gpus},
    }
