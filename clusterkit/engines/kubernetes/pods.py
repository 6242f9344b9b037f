"""The templates of pods: their commands, which user they run as, what they may write, what they see."""

from __future__ import annotations

from math import ceil

from clusterkit.engines.kubernetes.manifest import HOME, JSON, MOST, Document, Manifest, Place
from clusterkit.job.devices import computing
from clusterkit.job.jobfile import job_text
from clusterkit.job.options import JobOptions, job_flags
from clusterkit.words.secrets import has_credentials, hidden_in

PORT = 7077  # on which the supervisor listens for agents
KEY_DIRECTORY, KEY = "/run/clusterkit/key", "agents.pem"
JOB_DIRECTORY, JOB_FILE = "/etc/clusterkit", "job.toml"
POD_NAME, SUPERVISOR_HOST = "POD_NAME", "SUPERVISOR_HOST"  # variables of the agents' pods


def supervisor_words(manifest: Manifest) -> list[str]:
    """The command of the supervisor's pod: what stands in the job file of the pod is not on the command line."""
    options = {name: value for name, value in manifest.options.items() if name not in ("env", "task", "hosts")}
    return [
        *("clusterkit", "up", "--engine", "agents", "--hosts", str(manifest.hosts), "--listen", f"[::]:{PORT}"),
        *("--agent-key", f"{KEY_DIRECTORY}/{KEY}", "--run-id", manifest.name, "--continue"),
        *(["-f", f"{JOB_DIRECTORY}/{JOB_FILE}"] if job_file(manifest) else []),
        *job_flags(JobOptions(**options)),  # type: ignore[typeddict-item]
    ]


def agent_words() -> list[str]:
    """The command of the agents' pods, in which Kubernetes replaces the variables."""
    return [
        *("clusterkit", "agent", "--connect", f"$({SUPERVISOR_HOST}):{PORT}", "--key", f"{KEY_DIRECTORY}/{KEY}"),
        *("--host", f"$({POD_NAME})"),
    ]


def job_file(manifest: Manifest) -> str:
    """The job file in the supervisor's pod: variables, which may be secrets, and tables. Empty if there are none."""
    options = {name: value for name, value in manifest.options.items() if name in ("env", "task") and value}
    return job_text(JobOptions(**options), secrets=True).lstrip("\n")  # type: ignore[typeddict-item]


def verbatim(text: str) -> str:
    """Write a word of a container's command, or a variable's value, in which `$(NAME)` would stand for a variable."""
    return text.replace("$", "$$")


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
    return {"app.kubernetes.io/name": "clusterkit", "app.kubernetes.io/instance": run}


def metadata(place: Place, name: str) -> Document:
    return {
        "name": name,
        **({} if place.namespace is None else {"namespace": place.namespace}),
        "labels": of_run(place.run),
    }


def job_name(manifest: Manifest) -> tuple[str, bool]:
    """The name of the object with the job file, and whether it has to be a Secret."""
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
    if is_secret:
        return _secret_volume("job", name, JOB_FILE)
    return {"name": "job", "configMap": {"name": name, "items": [{"key": JOB_FILE, "path": JOB_FILE}]}}


def _secret_volume(name: str, secret: str, file: str) -> Document:
    return {
        "name": name,
        "secret": {"secretName": secret, "defaultMode": 0o400, "items": [{"key": file, "path": file}]},
    }
