"""What the pods of a run need beside them: secrets, the job file, the shared volume, and who may reach them."""

from __future__ import annotations

from clusterkit.engines.kubernetes.commands import JOB_FILE, KEY, job_file
from clusterkit.engines.kubernetes.manifest import Document, Manifest, Place
from clusterkit.engines.kubernetes.pods import of_run
from clusterkit.words.secrets import has_credentials, hidden_in

SIZE = "10Gi"  # of the shared volume


def metadata(place: Place, name: str) -> Document:
    """The name, namespace and labels of an object."""
    return {
        "name": name,
        **({} if place.namespace is None else {"namespace": place.namespace}),
        "labels": of_run(place.run),
    }


def key_secret(place: Place, pem: str) -> Document:
    """The certificate and the key with which supervisor and agents know each other."""
    return _secret(place, place.key, {KEY: pem})


def job_name(manifest: Manifest) -> tuple[str, bool]:
    """The name of the object with the job file, and whether it has to be a Secret."""
    job = manifest.job
    hidden = any(hidden_in(setup.env, job.show_env) for setup in job.every_setup.values())
    return f"{manifest.name}-job", hidden or has_credentials(job)


def job_object(manifest: Manifest) -> list[Document]:
    """The job file of the supervisor's pod, if it has one: as a Secret if one may be in it."""
    text, (name, is_secret) = job_file(manifest), job_name(manifest)
    if not text:
        return []
    if is_secret:
        return [_secret(manifest.place, name, {JOB_FILE: text})]
    meta = metadata(manifest.place, name)
    return [{"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta, "immutable": True, "data": {JOB_FILE: text}}]


def volume_claim(manifest: Manifest) -> list[Document]:
    """The claim for the volume of the run directories, unless there is one already."""
    flags = manifest.flags
    if flags.claim is not None:
        return []
    spec: Document = {
        "accessModes": ["ReadWriteMany"],
        **({} if flags.storage is None else {"storageClassName": flags.storage}),
        "resources": {"requests": {"storage": flags.storage_size or SIZE}},
    }
    meta = metadata(manifest.place, manifest.claim)
    return [{"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": meta, "spec": spec}]


def network_policy(manifest: Manifest) -> Document:
    """Let only the pods of the run reach each other: TensorFlow's servers ask nobody who they are."""
    selector: Document = {"matchLabels": of_run(manifest.name)}
    return {
        "apiVersion": "networking.k8s.io/v1",
        "kind": "NetworkPolicy",
        "metadata": metadata(manifest.place, manifest.name),
        "spec": {
            "podSelector": selector,
            "policyTypes": ["Ingress"],
            "ingress": [{"from": [{"podSelector": selector}]}],
        },
    }


def _secret(place: Place, name: str, values: dict[str, str]) -> Document:
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": metadata(place, name),
        "type": "Opaque",
        "immutable": True,
        "stringData": values,
    }
