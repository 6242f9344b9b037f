"""Collects the facts that `doctor` evaluates. Runs only short tests and, with --deep, a small job."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

from clusterkit.backends.local.resources import preflight as local_preflight
from clusterkit.backends.local.resources import shortages
from clusterkit.doctor.diagnosis import Rating
from clusterkit.doctor.machine import collect_machine, try_ports, try_state
from clusterkit.doctor.rules import Facts, Interpreter, Unmet
from clusterkit.job import preflight
from clusterkit.job.options import GivenOptions
from clusterkit.job.program import with_program
from clusterkit.job.spec import describe
from clusterkit.network.virtual import why_not
from clusterkit.store.store import RunStore
from clusterkit.system.process import code_of, own_python
from clusterkit.text.durations import shown
from clusterkit.views.naming import failed
from clusterkit.words.errors import BadJob
from clusterkit.words.job import JobSpec, Network, Setup
from clusterkit.words.outcome import RunResult

# The program is run by path, since clusterkit may not be installed for the tasks' interpreter.
PROGRAM = Path(__file__).resolve().parents[1] / "training" / "two_workers.py"
WITHIN = 120.0  # seconds; the timeout of the small job, which usually takes 10 to 30 s
OURS = "CLUSTERKIT_"  # the prefix of environment variables that would change the small job
CENSUS_WITHIN = 60.0  # seconds; the timeout of the census, which usually takes a fraction of a second
ANY_PROGRAM = "PROGRAM"  # a placeholder, used if the user did not name a program
INTERPRETER_OPTIONS = {"python", "env", "cwd"}  # if only these options are given, the user did not ask about a job


def run_job(python: str, env: Mapping[str, str], network: Network, program: Path = PROGRAM) -> tuple[Rating, str]:
    """Run a job of two workers with this interpreter and environment; return a rating and a sentence about the job."""
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="clusterkit-doctor-") as home:
        own = {name: value for name, value in env.items() if not name.startswith(OURS)}
        ran = subprocess.run(
            [
                *own_python("-c", code_of("clusterkit.cli"), "up", "--workers", "2", "--quiet", "--no-color"),
                *("--run-id", "deep", "--restart", "never", "--grace-period", "2", "--timeout", str(WITHIN)),
                *("--network", network.value, "--python", python, str(program)),
            ],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            env={**own, "CLUSTERKIT_HOME": home},
        )
        result = RunStore(Path(home)).run("deep").result()
    seconds = shown(time.monotonic() - began)
    if ran.returncode == 0:
        return Rating.FINE, f"A job of two workers succeeded after {seconds}."
    why = _why(result) if result is not None else ran.stderr.decode(errors="replace").strip()
    return Rating.WRONG, f"A job of two workers failed after {seconds}: {why.rstrip('.')}. Fix that first."


def _why(result: RunResult) -> str:
    if result.cause is None:
        return result.reason
    last = result.cause.exception or next((line for line in reversed(result.cause.tail) if line.strip()), "")
    return failed(result.cause) + (f" ({last.strip()})" if last else "")


CENSUS = str(Path(__file__).with_name("census.py"))


def collect_facts(given: GivenOptions, deep: bool = False) -> Facts:
    """Collect all facts; if `deep`, also run a small job. Raises BadJob for options that no machine can satisfy."""
    job = _job(given)
    env = {**os.environ, **job.setup.env}
    asked = job if given.options.keys() - INTERPRETER_OPTIONS else None
    refusals = [] if asked is None else [*local_preflight(asked).problems]
    if asked is not None and asked.tensorboard:
        refusals += preflight.tensorboard_problems()
    if asked is not None and asked.needs_dashboard:
        refusals += preflight.dashboard_problems()
    interpreters = tuple(_interpreters(job))
    first = interpreters[0]
    return Facts(
        interpreters=interpreters,
        machine=collect_machine(env),
        ports=try_ports(),
        state=try_state(),
        env=env,
        no_network=why_not(network=True, disk=False),
        no_full_disk=why_not(network=False, disk=True),
        keras_backend=_keras_backend(env),
        job=asked,
        shortages=() if asked is None else tuple(shortages(asked)),
        refusals=tuple(refusals),
        deep=run_job(first.path, env, job.network) if deep and first.has_tensorflow else None,
    )


def _job(given: GivenOptions) -> JobSpec:
    """Return the specification of the job. Its interpreters are not checked here, but evaluated by the rules."""
    is_named = bool(given.options.get("program") or given.options.get("module"))
    if not is_named:
        given = given._replace(options={**given.options, "program": ANY_PROGRAM})
    job, problems, clear = describe(given)
    job, of_program = with_program(job) if is_named else (job, [])
    problems += [*of_program, *preflight.directory_problems(job)]
    if problems or not clear:
        raise BadJob(problems)
    return job


def _interpreters(job: JobSpec) -> Iterator[Interpreter]:
    """Examine each of the job's interpreters, in the environment and directory of the first task type that uses it."""
    seen = set()
    for kind in dict.fromkeys(task.type for task in job.tasks):
        own = job.setups.get(kind, Setup())
        python = own.python or job.setup.python or sys.executable
        if "/" in python:
            python = str(Path(python).absolute())
        if python not in seen:
            seen.add(python)
            env = {**os.environ, **job.setup.env, **own.env}
            yield ask_interpreter(python, env, own.cwd or job.setup.cwd)


def ask_interpreter(python: str, env: Mapping[str, str], cwd: str | None) -> Interpreter:
    """Examine an interpreter and its packages, by running census.py in the tasks' environment and directory."""
    try:
        ran = subprocess.run(
            [python, CENSUS], stdin=subprocess.DEVNULL, capture_output=True, timeout=CENSUS_WITHIN, env=env, cwd=cwd
        )
    except OSError as error:
        return Interpreter(python, error.strerror or str(error))
    except subprocess.TimeoutExpired:
        return Interpreter(python, f"it did not answer within {CENSUS_WITHIN:g} s")
    try:
        # Parse only the last line, since sitecustomize, for example, may print other lines before it.
        answer = json.loads(ran.stdout.splitlines()[-1])
        unmet = tuple(Unmet(**one) for one in answer.pop("unmet"))
        return Interpreter(path=python, tensorflows=tuple(answer.pop("tensorflows")), unmet=unmet, **answer)
    except (IndexError, ValueError, KeyError, TypeError, AttributeError):
        last = ran.stderr.decode(errors="replace").strip().splitlines()[-1:]
        return Interpreter(python, f"it exited with code {ran.returncode}" + "".join(f" ({line})" for line in last))


def _keras_backend(env: Mapping[str, str]) -> str | None:
    home = env.get("KERAS_HOME") or Path(env.get("HOME") or Path.home(), ".keras")
    try:
        return str(json.loads(Path(home, "keras.json").read_text())["backend"])
    except (OSError, ValueError, KeyError, TypeError):
        return None
