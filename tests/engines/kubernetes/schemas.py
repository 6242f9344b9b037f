"""Strict schemas: of Kubernetes' own objects in several versions, and of JobSet.

The first come with kubernetes-validate, JobSet's with kubeflow-trainer-api, whose classes are made from JobSet's own
description of its API.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any

from jsonschema.validators import Draft202012Validator
from kubernetes_validate.utils import schema_contents
from referencing import Registry, Resource

from clusterkit.engines.kubernetes.manifest import Document

VERSIONS = ("1.35", "1.36", "1.37")


def validate(document: Document, version: str) -> None:
    """Raise ValidationError if a field of a document is not one that this version of Kubernetes knows."""
    plain = _plain(document)
    if plain["kind"] == "JobSet":
        _jobset().validate(plain)
    for core in _core(plain):
        _validator(version, core["kind"], core["apiVersion"]).validate(core)


def pod_specs(document: Document) -> Iterator[Mapping[str, Any]]:
    """The spec of every pod of a document."""
    for core in _core(_plain(document)):
        if core["kind"] == "Job":
            yield core["spec"]["template"]["spec"]


def _core(document: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """The document as Kubernetes' own objects: what its controller makes of it, or itself."""
    match document:
        case {"kind": "JobSet", "spec": {"replicatedJobs": jobs}}:
            for job in jobs:
                name = {"name": f"{document['metadata']['name']}-{job['name']}-0"}
                yield {"apiVersion": "batch/v1", "kind": "Job", "metadata": name, **job["template"]}
        case _:
            yield document


@cache
def _validator(version: str, kind: str, api: str) -> Draft202012Validator:
    """What kubernetes-validate does, with the version's two megabytes of definitions read once."""
    schema = schema_contents(
        f"{_folder(version)}/{kind.lower()}-{api.replace('.k8s.io', '').replace('/', '-')}.json", ""
    )
    return Draft202012Validator(schema, registry=Resource.from_contents(schema) @ _definitions(version))


@cache
def _definitions(version: str) -> Any:
    return Resource.from_contents(schema_contents(f"{_folder(version)}/_definitions.json", "")) @ Registry()


def _folder(version: str) -> str:
    return f"kubernetes-json-schema/v{version}.0-local-strict"


@cache
def _jobset() -> Draft202012Validator:
    """JobSet's schema, in which nothing may stand that it does not name; its Jobs are Kubernetes' own."""
    from kubeflow_trainer_api.models.jobset_v1alpha2_job_set import JobsetV1alpha2JobSet  # takes seconds

    schema = JobsetV1alpha2JobSet.model_json_schema()
    schema["$defs"]["JobsetV1alpha2ReplicatedJob"]["properties"]["template"] = {"type": "object"}
    for definition in (schema, *schema["$defs"].values()):
        if "properties" in definition:
            definition["additionalProperties"] = False
    return Draft202012Validator(schema)


def _plain(value: Any) -> Any:
    """The same value of lists and dictionaries, as the validator wants it."""
    if isinstance(value, Mapping):
        return {name: _plain(item) for name, item in value.items()}
    return [_plain(item) for item in value] if isinstance(value, list | tuple) else value
