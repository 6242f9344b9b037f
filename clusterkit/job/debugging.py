"""Debugging options: the variables that configure each task's debugger, and checks of the options."""

from __future__ import annotations

from collections.abc import Iterator

from clusterkit.store.paths import RunPaths
from clusterkit.words.job import Breakpoints, JobSpec, Network, Servers
from clusterkit.words.model import Task, tasks_named

DEBUGGER = "CLUSTERKIT_DEBUGGER"  # such as `hold,pdb:PATH`: the debugger's modes, and the path of its socket
EDITOR = "CLUSTERKIT_DEBUGPY"  # `PORT` or `PORT,wait`: debugpy's port, and whether the task waits for the editor
QUIET = "PYDEVD_DISABLE_FILE_VALIDATION"  # silences debugpy's warning about the interpreter's frozen modules


def debugging_env(job: JobSpec, paths: RunPaths, task: Task) -> dict[str, str]:
    """Return the variables for task/debugger.py; empty if the task has no debugger."""
    debug, port = job.debug, job.debug.editor_port(task)
    if job.hosts.count:
        return {DEBUGGER: "hosts"}
    flags = {
        # `up` replaces AUTO if it runs on a terminal. Elsewhere, breakpoints hold the task only with --pdb.
        "hold": debug.breakpoints is Breakpoints.HOLD or (debug.post_mortem and debug.breakpoints is Breakpoints.AUTO),
        "off": debug.breakpoints is Breakpoints.SKIP,
        "pdb": debug.post_mortem,
        "editor": port is not None,
    }
    wanted = ",".join(name for name, is_wanted in flags.items() if is_wanted)
    env = {DEBUGGER: f"{wanted}:{paths.debugger(task)}"} if wanted else {}
    if port is not None:
        env |= {EDITOR: f"{port}{',wait' * debug.wait}", QUIET: "1"}
    return env


def debugging_problems(job: JobSpec) -> Iterator[str]:
    debug = job.debug
    asked = {
        "--breakpoints hold": debug.breakpoints is Breakpoints.HOLD,
        "--pdb": debug.post_mortem,
        "--debugpy": bool(debug.editors),
    }
    if job.hosts.count:
        for flag in (flag for flag, is_asked in asked.items() if is_asked):
            yield f"{flag} is for tasks of this machine. Leave it out, or --hosts."
    if debug.editors and job.network is Network.VIRTUAL:
        yield "--debugpy can't be combined with --network virtual, in which no editor reaches the task."
    if debug.wait and not debug.editors:
        yield "--debugpy-wait is for a task with an editor. Add --debugpy worker:0."
    for text in debug.editors:
        if problem := _editor_problem(job, text):
            yield f"--debugpy {text}: {problem}"


def _editor_problem(job: JobSpec, text: str) -> str:
    name, equals, port = text.partition("=")
    try:
        name = tasks_named(name)
    except ValueError as error:
        return str(error)
    tasks = [task for task in job.tasks if name in (str(task), str(task.type))]
    if not tasks:
        return "the job has no such task."
    if equals and not (port.isascii() and port.isdecimal() and 0 < int(port[:6]) < 1 << 16):
        return f"{port!r} is not a port. Write {name}=5678, or {name} for a free one."
    if equals and len(tasks) > 1:
        return f"{len(tasks)} tasks can't listen on one port. Name one task."
    if job.servers is Servers.BUILTIN and any(map(job.is_server, tasks)):
        return "it runs clusterkit's own server (--servers builtin), and not the program."
    return ""
