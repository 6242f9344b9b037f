"""A TFJob: a pod for each task, for clusters that have Kubeflow's training operator v1 and no JobSet."""

from __future__ import annotations

from clusterkit.engines.kubernetes.commands import verbatim
from clusterkit.engines.kubernetes.manifest import HOME, JSON, MOST, Document, Manifest
from clusterkit.engines.kubernetes.objects import env_name, metadata
from clusterkit.engines.kubernetes.pods import container, template, tolerations
from clusterkit.engines.kubernetes.resources import of_task
from clusterkit.job.devices import GPUS, computing, usual_env
from clusterkit.job.keras import chosen_env
from clusterkit.job.plan import program_of
from clusterkit.words.job import RestartPolicy, Setup
from clusterkit.words.model import Program, ProgramKind, Task, TaskType
from clusterkit.words.secrets import hidden_in

CONTAINER = "tensorflow"  # the operator looks for a container of this name
REPLICAS = {
    TaskType.CHIEF: "Chief",
    TaskType.WORKER: "Worker",
    TaskType.PS: "PS",
    TaskType.EVALUATOR: "Evaluator",
}
_RESTARTS = {
    RestartPolicy.NEVER: "Never",
    RestartPolicy.ON_FAILURE: "OnFailure",
    RestartPolicy.ALWAYS: "Always",
}

LACKS = (
    "What a TFJob does not do, and --kind jobset does:",
    "- Each pod restarts alone. The workers of a MultiWorkerMirroredStrategy do not restart together, and the chief",
    "  does not restart with a lost parameter server, although both strategies need it.",
    "- A restart asks Kubernetes for a container; nothing is forked, and backoff grows to minutes.",
    "- Nobody names the cause of a failure, detects stalls, injects faults or reports recoveries; there is no merged",
    "  log and no `clusterkit ps`. The program's progress is read by nobody.",
    "- Keras is not patched where it fails on several workers, and no port is held between two attempts.",
)


def tfjob(manifest: Manifest) -> Document:
    """The TFJob of a job. The operator writes TF_CONFIG and makes a Service for each pod."""
    job = manifest.job
    replicas: dict[str, JSON] = {
        REPLICAS[kind]: _replica(manifest, Task(kind, 0), count) for kind, count in job.counts.items() if count
    }
    limit: Document = {"activeDeadlineSeconds": min(max(1, round(job.limits.job)), MOST)} if job.limits.job else {}
    return {
        "apiVersion": "kubeflow.org/v1",
        "kind": "TFJob",
        "metadata": metadata(manifest.place, manifest.name),
        "spec": {
            "runPolicy": {"cleanPodPolicy": "Running", "backoffLimit": min(job.restart.budget, MOST), **limit},
            "tfReplicaSpecs": replicas,
        },
    }


def secrets_of(manifest: Manifest) -> dict[str, str]:
    """The variables that are in a Secret, by their keys in it."""
    setups = manifest.job.every_setup
    return {
        where + name: setup.env[name]
        for where, setup in setups.items()
        for name in hidden_in(setup.env, manifest.job.show_env)
    }


def _replica(manifest: Manifest, task: Task, count: int) -> Document:
    job, own = manifest.job, manifest.job.setups.get(task.type, Setup())
    only = container(manifest, CONTAINER, _words(manifest, task), _env(manifest, task), of_task(manifest, task), [])
    directory = own.cwd or job.setup.cwd
    if directory is not None:
        only = {**only, "workingDir": directory}
    gpus = bool(job.devices.gpus) and task in computing(job)
    return {
        "replicas": count,
        "restartPolicy": _RESTARTS[job.restart.policy],
        "template": template(manifest, task.type.value, only, [], **tolerations(gpus)),
    }


def _words(manifest: Manifest, task: Task) -> list[str]:
    own, program = manifest.job.setups.get(task.type, Setup()), program_of(manifest.job, task)
    python = own.python or manifest.job.setup.python or "python"
    return [*map(verbatim, (*_start(program, python), *program.args))]


def _start(program: Program, python: str) -> list[str]:
    """A program is one of Python's if it is called so: its file is in the image alone."""
    if program.kind is ProgramKind.MODULE:
        return [python, "-m", program.target]
    return [python, program.target] if program.target.endswith((".py", ".pyw")) else [program.target]


def _env(manifest: Manifest, task: Task) -> list[Document]:
    job = manifest.job
    takes_none = job.devices.gpus is not None and not (job.devices.gpus and task in computing(job))
    plain = {
        "PYTHONUNBUFFERED": "1",
        "CLUSTERKIT_CHECKPOINT_DIR": job.checkpoint_dir or f"{HOME}/runs/{manifest.name}/checkpoints",
        **usual_env(job.devices),
        **chosen_env(job),
        **({GPUS: ""} if takes_none else {}),
    }
    found: dict[str, Document] = {name: {"name": name, "value": verbatim(value)} for name, value in plain.items()}
    for where in ("", f"task.{task.type}."):
        setup = job.every_setup.get(where, Setup())
        found |= {name: _variable(manifest, where, name, value) for name, value in setup.env.items()}
    return list(found.values())


def _variable(manifest: Manifest, where: str, name: str, value: str) -> Document:
    if not hidden_in({name: value}, manifest.job.show_env):
        return {"name": name, "value": verbatim(value)}
    return {"name": name, "valueFrom": {"secretKeyRef": {"name": env_name(manifest), "key": where + name}}}
