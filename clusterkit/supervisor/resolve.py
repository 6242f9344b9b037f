"""The output of `clusterkit config`: the job that `up` would start, as a job file and as each task's plan."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import sys
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any, cast

from clusterkit.backends.local.resources import addresses, claim_endpoints
from clusterkit.job.jobfile import job_text
from clusterkit.job.options import JobOptions
from clusterkit.job.plan import attempt_env, plan_tasks, python_path
from clusterkit.store.store import RunStore, new_run_id
from clusterkit.supervisor.prepare import Prepared
from clusterkit.text.printable import printable
from clusterkit.words import wire
from clusterkit.words.job import JobSpec, Network
from clusterkit.words.model import ProgramKind, Shape
from clusterkit.words.secrets import without_secrets

NETWORKS = {
    Network.HOST: (
        "TensorFlow's servers listen on every address of this machine (0.0.0.0),",
        "without authentication; with --network virtual, only inside the run.",
    ),
    Network.VIRTUAL: ("The addresses belong to a virtual network that only this run uses.",),
}
PORTS = "The ports are examples of free ones: `up` chooses and holds its own."


def resolved_json(prepared: Prepared, secrets: bool) -> str:
    """Return the job and every task's plan as JSON, with hidden values only if `secrets` is set."""
    return json.dumps(_document(prepared, secrets), indent=2) + "\n"


def resolved_file(prepared: Prepared, options: JobOptions, secrets: bool, tasks: bool) -> str:
    """Return a job file for the same job, with absolute paths and, if `tasks` is set, every task's plan as comments.

    Hidden values are included only if `secrets` is set. The ports are only examples, since `up` chooses its own.
    Raises BadJob for options that a job file can't hold.
    """
    job = prepared.job
    head = [f"{job.shape.value}; the leader is {job.leader}", f"{job.shape_text}. Run it with: clusterkit up -f FILE"]
    head += [] if prepared.run_id is None else ["A job file has no run id: --run-id is left out."]
    head += [] if job.shape is Shape.SINGLE else NETWORKS[job.network]
    text = _comments(head) + job_text(_with_absolute_paths(options, job), secrets)
    return text + (_comments(_plans(_document(prepared, secrets)["tasks"])) if tasks else "")


def _with_absolute_paths(options: JobOptions, job: JobSpec) -> JobOptions:
    """Return the options with absolute paths and the full id of the run to resume."""
    found: dict[str, Any] = {
        **_setup_with_absolute_paths(dict(options)),
        **({"resume": job.resume} if job.resume else {}),
    }
    if job.program.kind is not ProgramKind.MODULE:
        target = job.program.target
        in_path = None if Path(target).exists() else shutil.which(target)
        found["program"] = str(Path(in_path or target).absolute())
    found |= {name: str(Path(found[name]).absolute()) for name in ("checkpoint_dir", "pcap") if name in found}
    if "task" in found:
        found["task"] = {kind: _setup_with_absolute_paths(dict(table)) for kind, table in found["task"].items()}
    return cast(JobOptions, found)


def _setup_with_absolute_paths(setup: dict[str, Any]) -> dict[str, Any]:
    """Return the setup with absolute paths. An interpreter without a slash is not changed: it is looked up in PATH."""
    names = [name for name in ("cwd", "python") if name == "cwd" or "/" in str(setup.get("python", ""))]
    return setup | {name: str(Path(setup[name]).absolute()) for name in names if name in setup}


def _document(prepared: Prepared, secrets: bool) -> dict[str, Any]:
    job = prepared.job if secrets else without_secrets(prepared.job)
    run_id = prepared.run_id or new_run_id()
    run = RunStore().run(run_id, job.checkpoint_dir)
    with ExitStack() as stack:
        endpoints = claim_endpoints(job, job.tasks, stack)
    at, tasks = addresses(job), {}
    for task, plan in plan_tasks(job, endpoints, run, sys.executable).items():
        path = python_path(plan, {**os.environ, **plan.env})
        env = {**plan.env, **attempt_env(1, "resume" if job.resume else ""), **path}
        tasks[str(task)] = {
            "endpoint": endpoints.get(task),
            "address": at.get(task),
            "command": list(plan.command),
            "cwd": plan.cwd,
            "TF_CONFIG": json.loads(env["TF_CONFIG"]) if "TF_CONFIG" in env else None,
            "env": env,
        }
    return {"job": {"shape": job.shape.value, "leader": str(job.leader), **wire.encode(job)}, "tasks": tasks}


def _plans(tasks: Mapping[str, dict[str, Any]]) -> Iterator[str]:
    yield from ("", PORTS)
    for task, plan in tasks.items():
        yield from ("", f"[{task}]", f"command = {shlex.join(plan['command'])}")
        if plan["address"]:
            yield f"address = {plan['address']}"
        if plan["cwd"]:
            yield f"cwd = {plan['cwd']}"
        yield from (f"{name}={value}" for name, value in sorted(plan["env"].items()))


def _comments(lines: Iterable[str]) -> str:
    """Return each line as a comment, with control characters escaped."""
    return "".join(f"# {printable(line)}".rstrip() + "\n" for line in lines)
