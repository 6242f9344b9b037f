"""Each manifest is one that Kubernetes takes: by its schemas, by rules that no schema has, by its security profile."""

from __future__ import annotations

import re
from collections.abc import Mapping
from itertools import product
from typing import Any

import pytest
from hypothesis import given, settings
from jsonschema import ValidationError

from clusterkit.engines.kubernetes.manifest import longest_name
from tests.engines.kubernetes.schemas import VERSIONS, pod_specs, validate
from tests.engines.kubernetes.shapes import PLAIN, SHAPES, documents_of, manifest_of
from tests.engines.kubernetes.test_commands import options, written


def jobset_of(shape: str) -> dict[str, Any]:
    """The spec of the JobSet of a shape."""
    spec = documents_of(shape)[-1]["spec"]
    assert isinstance(spec, dict)
    return spec


def jobs_of(shape: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """The specs of the supervisor's and the agents' Job."""
    supervisor, agents = (job["template"]["spec"] for job in jobset_of(shape)["replicatedJobs"])
    return supervisor, agents


@pytest.mark.parametrize(("shape", "version"), list(product(SHAPES, VERSIONS)))
def test_a_manifest_is_valid(shape: str, version: str) -> None:
    """No field is unknown, missing or of a wrong type."""
    for document in documents_of(shape):
        validate(document, version)


@pytest.mark.slow
@settings(max_examples=30)
@given(options)
def test_a_random_job_is_valid(job: dict[str, Any]) -> None:
    """In the newest version."""
    for document in written(job):
        validate(document, VERSIONS[-1])


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize(
    ("shape", "where", "value"),
    [
        ("gang", ("spec", "sucessPolicy"), {}),
        ("gang", ("spec", "failurePolicy", "maxRestarts"), "0"),
        ("gang", ("spec", "replicatedJobs", 0, "template", "spec", "paralellism"), 1),
        ("gang", ("spec", "replicatedJobs", 1, "template", "spec", "template", "spec", "hostNetworks"), True),
    ],
)
def test_a_slip_is_found(version: str, shape: str, where: tuple[str | int, ...], value: object) -> None:
    """The validation is as strict as it is meant to be, at every depth."""
    document: Any = documents_of(shape)[-1]
    place = document
    for step in where[:-1]:
        place = place[step]
    place[where[-1]] = value
    with pytest.raises(ValidationError):
        validate(document, version)


@pytest.mark.parametrize("shape", SHAPES)
def test_pods_mount_what_there_is(shape: str) -> None:
    """Each mount has its volume, each volume is mounted, and each object that is named is in the manifest or a flag."""
    documents, flags = documents_of(shape), SHAPES[shape][1]
    made = {(str(document["kind"]), name_of(document)) for document in documents}
    given = {("PersistentVolumeClaim", flags.claim), *(("Secret", name) for name in flags.env_from)}
    given |= {("Secret", "train-1-key")} if shape == "gpus" else set()  # left out, as its head says
    for pod in (pod for document in documents for pod in pod_specs(document)):
        [container] = pod["containers"]
        mounted = [mount["name"] for mount in container["volumeMounts"]]
        assert sorted(mounted) == sorted(volume["name"] for volume in pod["volumes"])
        assert references(pod) <= made | given


def name_of(document: Mapping[str, Any]) -> str:
    """The name of an object."""
    return str(document["metadata"]["name"])


def references(pod: Mapping[str, Any]) -> set[tuple[str, str]]:
    """The objects that a pod needs."""
    found = set()
    for volume in pod["volumes"]:
        found |= {("Secret", source["secretName"]) for key, source in volume.items() if key == "secret"}
        found |= {("ConfigMap", source["name"]) for key, source in volume.items() if key == "configMap"}
        found |= {
            ("PersistentVolumeClaim", source["claimName"])
            for key, source in volume.items()
            if key == "persistentVolumeClaim"
        }
    [container] = pod["containers"]
    found |= {("Secret", source["secretRef"]["name"]) for source in container.get("envFrom", ())}
    refs = [variable["valueFrom"].get("secretKeyRef") for variable in container["env"] if "valueFrom" in variable]
    return found | {("Secret", ref["name"]) for ref in refs if ref}


@pytest.mark.parametrize("shape", SHAPES)
def test_pods_meet_the_restricted_security_standard(shape: str) -> None:
    """Non-root, no capability, no escalation, the runtime's seccomp profile; and a read-only root, no API token."""
    for pod in (pod for document in documents_of(shape) for pod in pod_specs(document)):
        context = pod["securityContext"]
        assert context["runAsNonRoot"]
        assert context["runAsUser"] > 0
        assert context["seccompProfile"] == {"type": "RuntimeDefault"}
        assert not pod.keys() & {"hostNetwork", "hostPID", "hostIPC"}
        assert not pod["automountServiceAccountToken"]
        assert {key for volume in pod["volumes"] for key in volume} <= {
            *("name", "persistentVolumeClaim", "emptyDir", "secret", "configMap"),
        }
        [container] = pod["containers"]
        assert container["securityContext"] == {
            "allowPrivilegeEscalation": False,
            "capabilities": {"drop": ["ALL"]},
            "readOnlyRootFilesystem": True,
        }


@pytest.mark.parametrize("shape", SHAPES)
def test_the_supervisors_result_is_the_jobsets(shape: str) -> None:
    """It succeeds with the supervisor; `up`'s exit codes fail it at once; disruptions are not counted."""
    jobset = jobset_of(shape)
    assert jobset["successPolicy"] == {"operator": "All", "targetReplicatedJobs": ["supervisor"]}
    assert jobset["failurePolicy"] == {"maxRestarts": 0}
    supervisor, _ = jobs_of(shape)
    fail, ignore = supervisor["podFailurePolicy"]["rules"]
    assert (fail["action"], fail["onExitCodes"]["values"]) == ("FailJob", [1, 2, 3, 70, 124, 129, 130, 143])
    assert fail["onExitCodes"]["containerName"] == supervisor["template"]["spec"]["containers"][0]["name"]
    assert (ignore["action"], ignore["onPodConditions"][0]["type"]) == ("Ignore", "DisruptionTarget")
    assert supervisor["template"]["spec"]["restartPolicy"] == "Never"  # as Kubernetes wants it beside a failure policy
    assert supervisor["podReplacementPolicy"] == "Failed"


@pytest.mark.parametrize("shape", SHAPES)
def test_a_failed_agent_fails_nothing(shape: str) -> None:
    """Its container is started again in its pod, a lost pod is replaced, and no number of times is too much."""
    _, agents = jobs_of(shape)
    assert agents["template"]["spec"]["restartPolicy"] == "OnFailure"
    assert agents["backoffLimit"] == 2**31 - 1
    assert agents["parallelism"] == agents["completions"]
    assert "podFailurePolicy" not in agents


@pytest.mark.parametrize("hosts", [1, 11, 4096])
def test_the_longest_name_gives_names_that_kubernetes_takes(hosts: int) -> None:
    """Of jobs, pods and hosts, as the controllers make them: at most 63 characters."""
    name = "a" * longest_name(hosts)
    manifest = manifest_of({"program": "train.py", "workers": 1}, PLAIN, name)
    pods = [f"{manifest.name}-supervisor-0-0-abcde", f"{manifest.name}-agent-0-{hosts - 1}-abcde"]
    assert max(map(len, pods)) == 63
    assert all(re.fullmatch(r"[a-z]([-a-z0-9]*[a-z0-9])?", pod) for pod in pods)
