"""The commands that run in the pods. They are here alone, and so are the places of what they read."""

from __future__ import annotations

from clusterkit.engines.kubernetes.manifest import Manifest
from clusterkit.job.jobfile import job_text
from clusterkit.job.options import JobOptions, job_flags

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
    """The text of the job file in the supervisor's pod: variables, and what only some task types have.

    They may be secrets, which must not be on a command line. Empty if there are none.
    """
    options = {name: value for name, value in manifest.options.items() if name in ("env", "task") and value}
    return job_text(JobOptions(**options), secrets=True).lstrip("\n")  # type: ignore[typeddict-item]


def verbatim(text: str) -> str:
    """Write a word of a container's command, or a variable's value, in which `$(NAME)` would stand for a variable."""
    return text.replace("$", "$$")
