"""What `up` will start, spelled out for `config`."""

from __future__ import annotations

import json
import shlex
import sys
from contextlib import ExitStack
from typing import Any

from clusterkit.backends.local.resources import addresses, claim_endpoints
from clusterkit.client.store import RunStore, new_run_id
from clusterkit.job.plan import attempt_env, plan_tasks
from clusterkit.supervisor.prepare import Prepared
from clusterkit.words import wire
from clusterkit.words.job import Network
from clusterkit.words.secrets import without_secrets

NETWORKS = {
    Network.HOST: (
        "The ports are examples of free ones: `up` chooses and holds its own.",
        "TensorFlow's servers listen on every address of this machine (0.0.0.0), without authentication;",
        "with --network virtual they listen inside the run alone.",
    ),
    Network.VIRTUAL: ("The addresses are those of a network that is the run's alone.",),
}


def resolved(prepared: Prepared, secrets: bool, as_json: bool) -> str:
    """The job and every task's plan, as JSON or as a page for people.

    The values of variables that look like secrets are in it only on demand. The ports are free ones, let go again: `up`
    chooses its own.
    """
    document = _document(prepared, secrets)
    return json.dumps(document, indent=2) + "\n" if as_json else _page(document)


def _document(prepared: Prepared, secrets: bool) -> dict[str, Any]:
    job = prepared.job if secrets else without_secrets(prepared.job)
    run_id = prepared.run_id or new_run_id()
    run = RunStore().run(run_id, job.checkpoint_dir)
    with ExitStack() as stack:
        endpoints = claim_endpoints(job, stack)
    at, tasks = addresses(job), {}
    for task, plan in plan_tasks(job, endpoints, run, sys.executable).items():
        env = {**plan.env, **attempt_env(1, "resume" if job.resume else "")}
        tasks[str(task)] = {
            "endpoint": endpoints.get(task),
            "address": at.get(task),
            "command": list(plan.command),
            "cwd": plan.cwd,
            "TF_CONFIG": json.loads(env["TF_CONFIG"]) if "TF_CONFIG" in env else None,
            "env": env,
        }
    return {"job": {"shape": job.shape.value, "leader": str(job.leader), **wire.encode(job)}, "tasks": tasks}


def _page(document: dict[str, Any]) -> str:
    job = document["job"]
    lines = [f"# {job['shape']}; the leader is {job['leader']}"]
    lines += [f"# {line}" for line in NETWORKS[job["network"]]]
    lines += [f"{key} = {json.dumps(value)}" for key, value in job.items() if key not in ("shape", "leader")]
    for task, plan in document["tasks"].items():
        lines += ["", f"[{task}]", f"command = {shlex.join(plan['command'])}"]
        if plan["address"]:
            lines.append(f"address = {plan['address']}")
        if plan["cwd"]:
            lines.append(f"cwd = {plan['cwd']}")
        lines += [f"{name}={value}" for name, value in sorted(plan["env"].items())]
    return "\n".join(lines) + "\n"
