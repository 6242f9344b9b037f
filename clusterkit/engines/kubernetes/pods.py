"""The templates of pods: which user they run as, what they may write, what they see."""

from __future__ import annotations

from math import ceil

from clusterkit.engines.kubernetes.commands import JOB_DIRECTORY, JOB_FILE, KEY, KEY_DIRECTORY
from clusterkit.engines.kubernetes.manifest import HOME, JSON, MOST, Document, Manifest
from clusterkit.job.devices import computing

GPU = "nvidia.com/gpu"
SUPERVISOR: Document = {"requests": {"cpu": "1", "memory": "512Mi"}}


def of_agent(manifest: Manifest) -> Document:
    """For all tasks that a host may get when they are spread evenly."""
    job, hosts, memory = manifest.job, manifest.hosts, manifest.flags.memory
    devices, tasks = job.devices, ceil(len(job.tasks) / hosts)
    amount = {} if memory is None else {"memory": memory}
    gpus = (devices.gpus or 0) * ceil(len(computing(job)) / hosts)
    limits = {**amount, **({GPU: str(gpus)} if gpus else {})}  # a GPU's limit is its request, too
    requests = {"cpu": str((devices.cpus or 1) * tasks), **amount}
    return {"requests": requests, **({"limits": limits} if limits else {})}


USER = 1000  # the image's; files in the shared volume and the key belong to its group
ENDING = 20  # seconds that a supervisor or an agent has to end after its tasks
SCRATCH = "/tmp"  # with the home directory, the only place beside the shared volume that can be written


def labels(manifest: Manifest, component: str) -> Document:
    """What tells the pods of a run, and their parts in it, from others."""
    return {**of_run(manifest.name), "app.kubernetes.io/component": component}


def of_run(run: str) -> Document:
    """The labels of everything that belongs to a run."""
    return {"app.kubernetes.io/name": "clusterkit", "app.kubernetes.io/instance": run}


def container(
    manifest: Manifest, name: str, words: list[str], env: list[Document], resources: Document, mounts: list[Document]
) -> Document:
    """The only container of a pod."""
    sources = [{"secretRef": {"name": source}} for source in manifest.flags.env_from]
    return {
        "name": name,
        "image": manifest.flags.image,
        "command": words[:1],
        "args": words[1:],
        "env": [{"name": "HOME", "value": SCRATCH}, *env],
        **({"envFrom": sources} if sources else {}),
        "resources": resources,
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "capabilities": {"drop": ["ALL"]},
            "readOnlyRootFilesystem": True,
        },
        "volumeMounts": [
            {"name": "runs", "mountPath": HOME},
            {"name": "scratch", "mountPath": SCRATCH},
            *mounts,
        ],
    }


def template(manifest: Manifest, component: str, only: Document, volumes: list[Document], **more: JSON) -> Document:
    """A pod of one container. `more` goes into its spec."""
    return {
        "metadata": {"labels": labels(manifest, component)},
        "spec": {
            **more,
            "automountServiceAccountToken": False,
            "enableServiceLinks": False,
            "terminationGracePeriodSeconds": min(round(manifest.job.limits.grace) + ENDING, MOST),
            "securityContext": {
                "runAsNonRoot": True,
                "runAsUser": USER,
                "runAsGroup": USER,
                "fsGroup": USER,
                "fsGroupChangePolicy": "OnRootMismatch",
                "seccompProfile": {"type": "RuntimeDefault"},
            },
            "containers": [only],
            "volumes": [
                {"name": "runs", "persistentVolumeClaim": {"claimName": manifest.claim}},
                {"name": "scratch", "emptyDir": {}},
                *volumes,
            ],
        },
    }


KEY_MOUNT: Document = {"name": "key", "mountPath": KEY_DIRECTORY, "readOnly": True}
JOB_MOUNT: Document = {"name": "job", "mountPath": JOB_DIRECTORY, "readOnly": True}


def key_volume(secret: str) -> Document:
    """The run's key. Kubernetes lets the pod's group read it, too: the files of a Secret belong to root."""
    return _secret_volume("key", secret, KEY)


def job_volume(name: str, is_secret: bool) -> Document:
    """The job file of the supervisor's pod."""
    if is_secret:
        return _secret_volume("job", name, JOB_FILE)
    return {"name": "job", "configMap": {"name": name, "items": [{"key": JOB_FILE, "path": JOB_FILE}]}}


def _secret_volume(name: str, secret: str, file: str) -> Document:
    return {
        "name": name,
        "secret": {"secretName": secret, "defaultMode": 0o400, "items": [{"key": file, "path": file}]},
    }


def tolerations(gpus: bool) -> Document:
    """What lets a pod that uses GPUs onto the nodes that are kept for such pods."""
    return {"tolerations": [{"key": GPU, "operator": "Exists", "effect": "NoSchedule"}]} if gpus else {}
