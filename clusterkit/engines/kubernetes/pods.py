"""The templates of pods: their commands, user, resources, volumes and security settings."""

from __future__ import annotations

from math import ceil

from clusterkit.engines.kubernetes.manifest import HOME, JSON, MOST, Document, Manifest
from clusterkit.job.devices import computing
from clusterkit.job.jobfile import job_text
from clusterkit.job.options import JobOptions, job_flags
from clusterkit.words.secrets import has_credentials, hidden_in

PORT = 7077  # the port on which the supervisor listens for agents
KEY_DIRECTORY, KEY = "/run/clusterkit/key", "agents.pem"
JOB_DIRECTORY, JOB_FILE = "/etc/clusterkit", "job.toml"
POD_NAME, SUPERVISOR_HOST = "POD_NAME", "SUPERVISOR_HOST"  # names of environment variables in the agents' pods


def supervisor_words(manifest: Manifest) -> list[str]:
    """Return the command of the supervisor's pod. Options in the pod's job file are omitted from the command."""
    options = {name: value for name, value in manifest.options.items() if name not in ("env", "task", "hosts")}
    return [
        *("clusterkit", "up", "--engine", "agents", "--hosts", str(manifest.hosts), "--listen", f"[::]:{PORT}"),
        *("--agent-key", f"{KEY_DIRECTORY}/{KEY}", "--run-id", manifest.name, "--continue"),
        *(["-f", f"{JOB_DIRECTORY}/{JOB_FILE}"] if job_file(manifest) else []),
        *job_flags(JobOptions(**options)),  # type: ignore[typeddict-item]
    ]


def agent_words() -> list[str]:
    """Return the command of the agents' pods. Kubernetes replaces the variables in the command."""
    return [
        *("clusterkit", "agent", "--connect", f"$({SUPERVISOR_HOST}):{PORT}", "--key", f"{KEY_DIRECTORY}/{KEY}"),
        *("--host", f"$({POD_NAME})"),
    ]


def job_file(manifest: Manifest) -> str:
    """Return the pod's job file, with environment variables (perhaps secret) and task tables; "" if there are none."""
    options = {name: value for name, value in manifest.options.items() if name in ("env", "task") and value}
    return job_text(JobOptions(**options), secrets=True).lstrip("\n")  # type: ignore[typeddict-item]


def verbatim(text: str) -> str:
    """Escape `$` in a container's command or environment, so that Kubernetes does not expand `$(NAME)`."""
    return text.replace("$", "$$")


GPU = "nvidia.com/gpu"
SUPERVISOR: Document = {"requests": {"cpu": "1", "memory": "512Mi"}}


def agent_resources(manifest: Manifest) -> Document:
    """Return the resources of an agent's pod: enough for the tasks of a host if tasks are spread evenly."""
    job, hosts, memory = manifest.job, manifest.hosts, manifest.flags.memory
    devices, tasks = job.devices, ceil(len(job.tasks) / hosts)
    amount = {} if memory is None else {"memory": memory}
    gpus = (devices.gpus or 0) * ceil(len(computing(job)) / hosts)
    limits = {**amount, **({GPU: str(gpus)} if gpus else {})}  # for GPUs, the limit is also the request
    requests = {"cpu": str((devices.cpus or 1) * tasks), **amount}
    return {"requests": requests, **({"limits": limits} if limits else {})}


USER = 1000  # the user and group id in the image; also the group of the shared volume and the key
ENDING = 20  # seconds; the time that a supervisor or agent gets to end after its tasks
SCRATCH = "/tmp"  # the home directory and, besides the shared volume, the only writable directory


def labels(manifest: Manifest, component: str) -> Document:
    """Return the labels that identify a run's pods of one component."""
    return {**run_labels(manifest.name), "app.kubernetes.io/component": component}


def run_labels(run: str) -> Document:
    return {"app.kubernetes.io/name": "clusterkit", "app.kubernetes.io/instance": run}


def job_name(manifest: Manifest) -> tuple[str, bool]:
    """Return the name of the object that contains the job file, and whether it has to be a Secret."""
    job = manifest.job
    hidden = any(hidden_in(setup.env, job.show_env) for setup in job.every_setup.values())
    return f"{manifest.name}-job", hidden or has_credentials(job)


def container(
    manifest: Manifest, name: str, words: list[str], env: list[Document], resources: Document, mounts: list[Document]
) -> Document:
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
    """Return a template for a pod with one container. `more` is added to the pod's spec."""
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
    """Return the volume with the run's key. Root owns the files; Kubernetes makes them readable for the pod's group."""
    return _secret_volume("key", secret, KEY)


def job_volume(name: str, is_secret: bool) -> Document:
    if is_secret:
        return _secret_volume("job", name, JOB_FILE)
    return {"name": "job", "configMap": {"name": name, "items": [{"key": JOB_FILE, "path": JOB_FILE}]}}


def _secret_volume(name: str, secret: str, file: str) -> Document:
    return {
        "name": name,
        "secret": {"secretName": secret, "defaultMode": 0o400, "items": [{"key": file, "path": file}]},
    }
