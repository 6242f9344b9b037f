"""A JobSet: one pod in which the supervisor runs, and a pod for each agent.

Kubernetes replaces pods, and clusterkit decides what restarts: no failure of an agent's pod ends its Job or the JobSet,
and the supervisor's exit code is the JobSet's result.
"""

from __future__ import annotations

from clusterkit.engines.kubernetes.manifest import HOME, MOST, Document, Manifest
from clusterkit.engines.kubernetes.pods import (
    JOB_MOUNT,
    KEY_MOUNT,
    POD_NAME,
    SUPERVISOR_HOST,
    agent_words,
    container,
    job_file,
    job_name,
    job_volume,
    key_volume,
    labels,
    metadata,
    of_agent,
    supervisor_words,
    template,
    tolerations,
    verbatim,
)
from clusterkit.engines.kubernetes.pods import SUPERVISOR as SUPERVISORS_RESOURCES
from clusterkit.engines.kubernetes.rules import AGENT, SUPERVISOR
from clusterkit.words.outcome import CRASHED, PROVED_NOTHING

FINAL = (1, 2, PROVED_NOTHING, CRASHED, 124, 130, 143)  # exit codes of `up` with which the run is over
KILLS = 20  # how often a supervisor that was killed is replaced; evictions and lost nodes are not counted


def jobset(manifest: Manifest) -> Document:
    """The JobSet of a job. It makes the headless Service itself, under the run's name."""
    return {
        "apiVersion": "jobset.x-k8s.io/v1alpha2",
        "kind": "JobSet",
        "metadata": metadata(manifest.place, manifest.name),
        "spec": {
            "network": {"enableDNSHostnames": True, "subdomain": manifest.name, "publishNotReadyAddresses": True},
            "successPolicy": {"operator": "All", "targetReplicatedJobs": [SUPERVISOR]},
            "failurePolicy": {"maxRestarts": 0},
            "replicatedJobs": [
                {"name": SUPERVISOR, "replicas": 1, "template": {"spec": _supervisor(manifest)}},
                {"name": AGENT, "replicas": 1, "template": {"spec": _agents(manifest)}},
            ],
        },
    }


def supervisor_host(manifest: Manifest) -> str:
    """The name under which the pods find the supervisor's, and one that replaced it, too."""
    return f"{manifest.name}-{SUPERVISOR}-0-0.{manifest.name}"


def _supervisor(manifest: Manifest) -> Document:
    has_file = job_file(manifest) != ""
    env: list[Document] = [{"name": "CLUSTERKIT_HOME", "value": HOME}]
    mounts = [KEY_MOUNT, *([JOB_MOUNT] if has_file else [])]
    words = [*map(verbatim, supervisor_words(manifest))]
    only = container(manifest, SUPERVISOR, words, env, SUPERVISORS_RESOURCES, mounts)
    volumes = [key_volume(manifest.place.key), *([job_volume(*job_name(manifest))] if has_file else [])]
    return {
        "parallelism": 1,
        "completions": 1,
        "completionMode": "Indexed",
        "backoffLimit": KILLS,
        "podReplacementPolicy": "Failed",  # there are never two supervisors of a run
        "podFailurePolicy": {
            "rules": [
                {
                    "action": "FailJob",
                    "onExitCodes": {"containerName": SUPERVISOR, "operator": "In", "values": list(FINAL)},
                },
                {"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]},
            ]
        },
        "template": template(manifest, SUPERVISOR, only, volumes, restartPolicy="Never"),
    }


def _agents(manifest: Manifest) -> Document:
    env: list[Document] = [
        {"name": POD_NAME, "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}},
        {"name": SUPERVISOR_HOST, "value": supervisor_host(manifest)},
    ]
    only = container(manifest, AGENT, agent_words(), env, of_agent(manifest), [KEY_MOUNT])
    spread: Document = {
        "maxSkew": 1,
        "topologyKey": "kubernetes.io/hostname",
        "whenUnsatisfiable": "ScheduleAnyway",
        "labelSelector": {"matchLabels": labels(manifest, AGENT)},
    }
    return {
        "parallelism": manifest.agents,
        "completions": manifest.agents,
        "completionMode": "Indexed",
        "backoffLimit": MOST,
        "template": template(
            manifest,
            AGENT,
            only,
            [key_volume(manifest.place.key)],
            restartPolicy="OnFailure",
            topologySpreadConstraints=[spread],
            **tolerations(bool(manifest.job.devices.gpus)),
        ),
    }
