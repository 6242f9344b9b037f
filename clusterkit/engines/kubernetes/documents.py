"""Builds the Kubernetes objects of a run, and writes them as YAML that all parsers read the same way."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from functools import cache
from typing import TYPE_CHECKING

from clusterkit.engines.kubernetes import pods
from clusterkit.engines.kubernetes.manifest import (
    AGENT,
    HOME,
    JSON,
    MOST,
    SUPERVISOR,
    Document,
    Manifest,
    RunMetadata,
    Secret,
)
from clusterkit.store.paths import TRUSTED_HOME
from clusterkit.text.spelling import listed
from clusterkit.words.errors import ClusterkitError
from clusterkit.words.model import number_of
from clusterkit.words.outcome import CRASHED, NOT_AS_ASKED
from clusterkit.words.secrets import has_credentials

if TYPE_CHECKING:
    from yaml import SafeDumper
    from yaml.nodes import ScalarNode


FINAL = (1, 2, NOT_AS_ASKED, CRASHED, 124, 129, 130, 143)  # exit codes of `up` after which the run is over
KILLS = 20  # how often a killed supervisor is replaced; evictions and lost nodes are not counted
SIZE = "10Gi"  # the default size of the shared volume
# Strings that are written without quotes. All other strings are quoted, since parsers disagree on which of them are
# numbers, dates or truth values: 1e3, 012, 0o17, y, NO, 12:30:00.
_WORD = re.compile(r"[A-Za-z/][A-Za-z0-9._/-]*")
_NO_WORDS = re.compile("y|n|yes|no|on|off|true|false|null|nan|inf", re.IGNORECASE)
# Texts of several lines, such as the key and the job file, that are written as a literal block (`|`).
_LINES = re.compile(r"(?:(?:[!-~](?:[ -~]*[!-~])?)?\n)*[!-~](?:[ -~]*[!-~])?\n")


def jobset(manifest: Manifest) -> Document:
    """Return the JobSet of a job. The JobSet's controller creates a headless Service with the run's name."""
    spec: Document = {
        "network": {"enableDNSHostnames": True, "subdomain": manifest.name, "publishNotReadyAddresses": True},
        "successPolicy": {"operator": "All", "targetReplicatedJobs": [SUPERVISOR]},
        "failurePolicy": {"maxRestarts": 0},
        "replicatedJobs": [
            {"name": SUPERVISOR, "replicas": 1, "template": {"spec": _supervisor(manifest)}},
            {"name": AGENT, "replicas": 1, "template": {"spec": _agents(manifest)}},
        ],
    }
    return _object("jobset.x-k8s.io/v1alpha2", "JobSet", manifest.place, manifest.name, spec=spec)


def _supervisor(manifest: Manifest) -> Document:
    has_file = pods.job_file(manifest) != ""
    # The volume may belong to root, or be writable by all; its owner is whoever may mount it.
    env: list[Document] = [{"name": name, "value": HOME} for name in ("CLUSTERKIT_HOME", TRUSTED_HOME)]
    mounts = [pods.KEY_MOUNT, *([pods.JOB_MOUNT] if has_file else [])]
    words = [*map(pods.verbatim, pods.supervisor_words(manifest))]
    only = pods.container(manifest, SUPERVISOR, words, env, pods.SUPERVISOR, mounts)
    volumes = [pods.key_volume(manifest.place.key), *([pods.job_volume(*pods.job_name(manifest))] if has_file else [])]
    return {
        "parallelism": 1,
        "completions": 1,
        "completionMode": "Indexed",
        "backoffLimit": KILLS,
        "podReplacementPolicy": "Failed",  # a run must never have two supervisors
        "podFailurePolicy": {
            "rules": [
                {
                    "action": "FailJob",
                    "onExitCodes": {"containerName": SUPERVISOR, "operator": "In", "values": list(FINAL)},
                },
                {"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]},
            ]
        },
        "template": pods.template(manifest, SUPERVISOR, only, volumes, restartPolicy="Never"),
    }


def _agents(manifest: Manifest) -> Document:
    host = f"{manifest.name}-{SUPERVISOR}-0-0.{manifest.name}"  # also the name of a pod that replaces this one
    env: list[Document] = [
        {"name": pods.POD_NAME, "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}},
        {"name": pods.SUPERVISOR_HOST, "value": host},
    ]
    only = pods.container(manifest, AGENT, pods.agent_words(), env, pods.agent_resources(manifest), [pods.KEY_MOUNT])
    # Nodes with GPUs are often reserved, by a taint, for pods that use GPUs.
    gpu_toleration: list[Document] = [{"key": pods.GPU, "operator": "Exists", "effect": "NoSchedule"}]
    tolerations: Document = {"tolerations": gpu_toleration} if manifest.job.devices.gpus else {}
    spread: Document = {
        "maxSkew": 1,
        "topologyKey": "kubernetes.io/hostname",
        "whenUnsatisfiable": "ScheduleAnyway",
        "labelSelector": {"matchLabels": pods.labels(manifest, AGENT)},
    }
    return {
        "parallelism": manifest.agents,
        "completions": manifest.agents,
        "completionMode": "Indexed",
        "backoffLimit": MOST,
        "template": pods.template(
            manifest,
            AGENT,
            only,
            [pods.key_volume(manifest.place.key)],
            restartPolicy="OnFailure",
            topologySpreadConstraints=[spread],
            **tolerations,
        ),
    }


def key_secret(place: RunMetadata, pem: str) -> Document:
    """Return the Secret with the certificate and key by which supervisor and agents authenticate each other."""
    return _secret(place, place.key, {pods.KEY: pem})


def job_object(manifest: Manifest) -> list[Document]:
    """Return the object with the supervisor's job file, if any: a Secret if it may hold secrets, else a ConfigMap."""
    text, (name, is_secret) = pods.job_file(manifest), pods.job_name(manifest)
    if not text:
        return []
    if is_secret:
        return [_secret(manifest.place, name, {pods.JOB_FILE: text})]
    return [_object("v1", "ConfigMap", manifest.place, name, immutable=True, data={pods.JOB_FILE: text})]


def volume_claim(manifest: Manifest) -> list[Document]:
    """Return the claim for the volume with the run directories; nothing if the user names an existing claim."""
    flags = manifest.flags
    if flags.claim is not None:
        return []
    spec: Document = {
        "accessModes": ["ReadWriteMany"],
        **({} if flags.storage is None else {"storageClassName": flags.storage}),
        "resources": {"requests": {"storage": flags.storage_size or SIZE}},
    }
    return [_object("v1", "PersistentVolumeClaim", manifest.place, manifest.claim, spec=spec)]


def network_policy(manifest: Manifest) -> Document:
    """Return a policy that admits only the run's own pods, since TensorFlow's servers do not authenticate clients."""
    selector: Document = {"matchLabels": pods.run_labels(manifest.name)}
    ingress: Document = {"from": [{"podSelector": selector}]}
    spec: Document = {"podSelector": selector, "policyTypes": ["Ingress"], "ingress": [ingress]}
    return _object("networking.k8s.io/v1", "NetworkPolicy", manifest.place, manifest.name, spec=spec)


def _secret(place: RunMetadata, name: str, values: dict[str, str]) -> Document:
    return _object("v1", "Secret", place, name, type="Opaque", immutable=True, stringData=values)


def _object(api: str, kind: str, place: RunMetadata, name: str, **content: JSON) -> Document:
    namespace: Document = {} if place.namespace is None else {"namespace": place.namespace}
    metadata: Document = {"name": name, **namespace, "labels": pods.run_labels(place.run)}
    return {"apiVersion": api, "kind": kind, "metadata": metadata, **content}


def documents(manifest: Manifest, pem: str) -> list[Document]:
    """Return the objects of a run, in the order in which to create them. `pem` is the run's key."""
    key = [key_secret(manifest.place, pem)] if manifest.flags.secret is Secret.TOO else []
    return [*key, *job_object(manifest), *volume_claim(manifest), network_policy(manifest), jobset(manifest)]


def secrets_in(manifest: Manifest) -> list[str]:
    """Return descriptions of all secrets in the documents."""
    urls = ["credentials in a URL of the job"] if has_credentials(manifest.job) else []
    name, is_secret = pods.job_name(manifest)
    key = [f"the run's key (Secret {manifest.place.key})"] if manifest.flags.secret is Secret.TOO else []
    is_there = is_secret and bool(pods.job_file(manifest))
    return [*key, *([f"variables of the job (Secret {name})"] if is_there else []), *urls]


def head_lines(manifest: Manifest) -> Iterator[str]:
    """Yield the lines of the leading comment: which secrets the documents hold, and the commands for the run."""
    yield f"clusterkit run {manifest.name}: {manifest.job.shape_text} on {number_of('host', manifest.hosts)}."
    if secrets := secrets_in(manifest):
        yield f"SECRET: this holds {listed(secrets)}."
        yield "Keep it out of version control, and readable for you alone."
    yield ""
    at = "" if manifest.flags.namespace is None else f" --namespace {manifest.flags.namespace}"
    if manifest.flags.secret is Secret.OUT:
        yield f"The Secret {manifest.place.key} is not included, and the pods wait for it. Create it once:"
        yield f"  clusterkit manifests --only-secret --run-id {manifest.name}{at} | kubectl apply -f -"
        yield ""
    job = f"job/{manifest.name}-{SUPERVISOR}-0"
    yield "Start:  kubectl apply -f FILE        (the cluster needs JobSet, jobset.x-k8s.io)"
    yield f"Output: kubectl logs{at} --follow {job}"
    yield f"Look:   kubectl exec{at} {job} -- clusterkit ps"
    yield f"End:    kubectl delete{at} jobset {manifest.name}"


class NoYaml(ClusterkitError):
    """PyYAML is not installed."""

    exit_code = 2


def yaml_text(head: Iterable[str], documents: Iterable[Document]) -> str:
    """Return the documents as YAML, after the lines of `head` as comments. Raises NoYaml if PyYAML is missing."""
    try:
        import yaml
    except ImportError:
        raise NoYaml(
            "Manifests are written by PyYAML, which is not installed. Install it: pip install 'tf-clusterkit[engines]'"
        ) from None
    comments = "".join(f"# {line}".rstrip() + "\n" for line in head)
    width = float("inf")
    return comments + yaml.dump_all(documents, Dumper=_dumper(), sort_keys=False, explicit_start=True, width=width)


@cache
def _dumper() -> type[SafeDumper]:
    import yaml

    class Dumper(yaml.SafeDumper):
        def ignore_aliases(self, data: object) -> bool:
            return True  # never write an alias; repeat the object instead

    Dumper.add_representer(str, _string)
    return Dumper


def _string(dumper: SafeDumper, text: str) -> ScalarNode:
    if _WORD.fullmatch(text) and not _NO_WORDS.fullmatch(text):
        style = None
    else:
        style = "|" if _LINES.fullmatch(text) and not text.startswith("\n") else '"'
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=style)
