"""Carries out the page's requests to control a run, through the same control socket that the commands use."""

from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import Mapping
from typing import Any

from clusterkit.backends.local.stacks import collect, dumps_of
from clusterkit.faults.aim import live_problems_of
from clusterkit.page.live import OpenRun
from clusterkit.page.logbook import BadQuestion
from clusterkit.store.cleaning import remove
from clusterkit.store.control import Client
from clusterkit.store.directory import RunDirectory
from clusterkit.text.printable import printable_lines
from clusterkit.views.naming import counted
from clusterkit.words.errors import BadJob, ClusterkitError
from clusterkit.words.events import Verb
from clusterkit.words.grammar import parse_fault
from clusterkit.words.model import Task
from clusterkit.words.outcome import signal_name

STACKS_WITHIN = 3.0  # seconds; the time limit for tasks to write their stacks
MOST_TASKS = 5000  # the maximum number of tasks in a request
REMOVE = "remove"  # the verb that removes a finished run; removing a run needs no supervisor
FIELDS = {"verb", "tasks", "signal", "force", "fault", "steps", "seconds"}


class NotAllowed(ClusterkitError):
    """A request to control a run was sent to a dashboard that only shows runs."""

    def __init__(self) -> None:
        super().__init__(
            "This dashboard only shows runs. To control runs, start one with `clusterkit dashboard --control` or "
            "`clusterkit up --dashboard-control`."
        )


async def act(opened: OpenRun, body: bytes) -> str:
    """Carry out a request, and return a sentence that describes the result. Raises ClusterkitError."""
    verb, params = _read(body)
    if not isinstance(verb, Verb):
        await asyncio.to_thread(remove, opened.run, "the dashboard")
        return f"The run {opened.run.run_id} was removed."
    answer = await asyncio.to_thread(_ask, opened.run, verb, params)
    if verb is Verb.STACKS:
        attempts = await opened.watched.ask(lambda live: live.model.attempts)
        return await asyncio.to_thread(_stacks, opened.run, answer, attempts)
    return _done(verb, params, answer)


def _read(body: bytes) -> tuple[Verb | str, dict[str, Any]]:
    try:
        given = json.loads(body)
    except (ValueError, RecursionError):
        raise BadQuestion("The request is not valid JSON.") from None
    if not isinstance(given, dict):
        raise BadQuestion("The request must be a JSON object.")
    if unknown := given.keys() - FIELDS:
        raise BadQuestion(f"The request has unknown fields: {', '.join(sorted(unknown))[:200]}.")
    verb = given.pop("verb", None)
    if not isinstance(verb, str) or verb not in {*Verb, REMOVE}:
        raise BadQuestion(f"`verb` must be one of {', '.join([*Verb, REMOVE])}.")
    tasks = given.pop("tasks", [])
    if not isinstance(tasks, list) or len(tasks) > MOST_TASKS or not all(isinstance(name, str) for name in tasks):
        raise BadQuestion('`tasks` must be a list of tasks, such as ["worker:1"].')
    try:
        given["tasks"] = [str(Task.parse(name[:40])) for name in tasks]
    except ValueError as error:
        raise BadQuestion(str(error)) from None
    return verb if verb == REMOVE else Verb(verb), given


def _ask(run: RunDirectory, verb: Verb, params: dict[str, Any]) -> dict[str, Any]:
    info = run.info()
    if info is not None and info.allocation and info.host != socket.gethostname():
        raise ClusterkitError(
            f"The supervisor of this run is on the host {info.host}. Use the commands, or a dashboard there."
        )
    if verb is Verb.FAULT:
        if not isinstance(params.get("fault"), str):
            raise BadQuestion("`fault` must be a fault, such as 'kill worker:1'.")
        try:
            fault = parse_fault(params["fault"])
            problems = list(live_problems_of(fault, info.job)) if info is not None else []
        except BadJob as error:
            problems = list(error.problems)
        if problems:
            raise BadQuestion("\n".join(problems))
    with Client(run) as client:
        return client.call(verb.value, **params)


def _done(verb: Verb, params: dict[str, Any], answer: dict[str, Any]) -> str:
    names = counted([Task.parse(name) for name in answer["tasks"]])
    sentences = {
        Verb.KILL: f"{names} got {signal_name(params.get('signal', 9))}.",
        Verb.PAUSE: f"Paused: {names}.",
        Verb.UNPAUSE: f"Resumed: {names}.",
        Verb.RESTART: f"Restarting: {names}.",
        Verb.PROFILE: f"Profiling {names}. The result is shown as a mark.",
        Verb.HEAL: f"Healed: {names or 'no fault was open'}.",
        Verb.FAULT: f"Armed: {params.get('fault')}",
    }
    return sentences.get(verb, "The run is being ended.")


def _stacks(run: RunDirectory, answer: dict[str, Any], attempts: Mapping[Task, int]) -> str:
    asked = [(task, attempts.get(task, 1)) for task in map(Task.parse, answer["tasks"])]
    dumps = dumps_of(run, asked, answer["request"])
    collect(list(dumps.values()), STACKS_WITHIN)
    parts = []
    for task, attempt in asked:
        dump = dumps[task]
        parts.append(f"{task} (attempt {attempt})\n{dump.text or f'It {dump.silence}'}")
    return printable_lines("\n".join(parts))
