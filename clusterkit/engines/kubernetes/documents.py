"""Every document of a run, and the comments at their head."""

from __future__ import annotations

from collections.abc import Iterator

from clusterkit.engines.kubernetes.commands import job_file
from clusterkit.engines.kubernetes.jobset import jobset
from clusterkit.engines.kubernetes.manifest import Document, Manifest, Secret
from clusterkit.engines.kubernetes.names import SUPERVISOR
from clusterkit.engines.kubernetes.objects import (
    job_name,
    job_object,
    key_secret,
    network_policy,
    volume_claim,
)
from clusterkit.text.spelling import listed
from clusterkit.words.model import number_of
from clusterkit.words.secrets import has_credentials


def documents(manifest: Manifest, pem: str) -> list[Document]:
    """The objects of a run, in the order in which they have to be made. `pem` is the run's key."""
    key = [key_secret(manifest.place, pem)] if manifest.flags.secret is Secret.TOO else []
    return [*key, *job_object(manifest), *volume_claim(manifest), network_policy(manifest), jobset(manifest)]


def secrets_in(manifest: Manifest) -> list[str]:
    """What in the documents is nobody's business, in words."""
    urls = ["credentials in a URL of the job"] if has_credentials(manifest.job) else []
    name, is_secret = job_name(manifest)
    key = [f"the run's key (Secret {manifest.place.key})"] if manifest.flags.secret is Secret.TOO else []
    is_there = is_secret and bool(job_file(manifest))
    return [*key, *([f"variables of the job (Secret {name})"] if is_there else []), *urls]


def head(manifest: Manifest) -> Iterator[str]:
    """What the reader of the documents should know first, as lines."""
    counts = ", ".join(number_of(kind, count) for kind, count in manifest.job.counts.items() if count)
    yield f"clusterkit run {manifest.name}: {counts} on {number_of('host', manifest.hosts)}."
    if found := secrets_in(manifest):
        yield f"SECRET: this holds {listed(found)}."
        yield "Keep it out of version control, and readable for you alone."
    yield ""
    at = "" if manifest.flags.namespace is None else f" --namespace {manifest.flags.namespace}"
    if manifest.flags.secret is Secret.OUT:
        yield f"The Secret {manifest.place.key} is not in here, and the pods wait for it. Make it once:"
        yield f"  clusterkit manifests --only-secret --run-id {manifest.name}{at} | kubectl apply -f -"
        yield ""
    job = f"job/{manifest.name}-{SUPERVISOR}-0"
    yield "Start:  kubectl apply -f FILE        (the cluster needs JobSet, jobset.x-k8s.io)"
    yield f"Output: kubectl logs{at} --follow {job}"
    yield f"Look:   kubectl exec{at} {job} -- clusterkit ps"
    yield f"End:    kubectl delete{at} jobset {manifest.name}"
