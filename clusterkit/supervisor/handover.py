"""Handover: lets a warm server run the job, while this process only waits and forwards signals."""

from __future__ import annotations

import copyreg
import os
import pickle
import resource
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import MappingProxyType
from typing import Any

from clusterkit.store.directory import RunDirectory
from clusterkit.supervisor.guardian import flush, forwarding
from clusterkit.system.poller import Wakeup
from clusterkit.system.process import ENDING, code_of
from clusterkit.warm.choice import marks
from clusterkit.warm.confinement import own_attributes
from clusterkit.warm.warm_client import SharedServer, ask

LIMITS = sorted({getattr(resource, name) for name in dir(resource) if name.startswith("RLIMIT_")})


def _read_only(values: dict[Any, Any]) -> MappingProxyType[Any, Any]:
    return MappingProxyType(values)  # pickle needs a function, since it can't find the class by name


copyreg.pickle(MappingProxyType, lambda proxy: (_read_only, (dict(proxy),)))


def hand_over(place: SharedServer, work: Any, run: RunDirectory, lifeline: int | None) -> int | str:
    """Have the warm server run `work`, a value that can be pickled; return the exit code, or why the server refused."""
    flush()
    report, reported = os.pipe2(os.O_CLOEXEC)
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, ENDING)  # until signals can be forwarded
    with os.fdopen(report, "rb") as told, os.fdopen(reported, "wb") as given, _lifeline() as mine:
        try:
            answer = _ask(place, _message(place, run), given.fileno(), pickle.dumps(work), mine, lifeline)
        except OSError as error:
            answer = {"refused": f"it does not answer ({error.strerror or error})"}
        given.close()
        if "refused" in answer:
            signal.pthread_sigmask(signal.SIG_SETMASK, mask)
            return f"The run begins without the warm server: {answer['refused']}."
        with forwarding(answer["pid"]), Wakeup() as wakeup:
            signal.pthread_sigmask(signal.SIG_SETMASK, mask)
            while not wakeup.wait(told.fileno()):
                pass
            return _end_of(told.read(), run)


@contextmanager
def _lifeline() -> Iterator[int]:
    """Yield a lifeline: the read end of a pipe that closes when this process ends."""
    mine, held = os.pipe2(os.O_CLOEXEC)
    try:
        yield mine
    finally:
        os.close(mine)
        os.close(held)


def _ask(
    place: SharedServer, message: dict[str, Any], report: int, work: bytes, mine: int, lifeline: int | None
) -> dict[str, Any]:
    with os.fdopen(os.memfd_create("run", os.MFD_CLOEXEC), "wb", buffering=0) as file:
        file.write(work)
        file.seek(0)
        cwd = os.open(".", os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            given = [0, 1, 2, cwd, report, file.fileno(), mine, *([] if lifeline is None else [lifeline])]
            return ask(place.socket, message, given)
        finally:
            os.close(cwd)


def _message(place: SharedServer, run: RunDirectory) -> dict[str, Any]:
    umask = os.umask(0o077)
    os.umask(umask)
    return {
        "do": "run",
        "command": [sys.executable, "-P", "-c", code_of("clusterkit.supervisor.exec_run"), run.run_id],
        "env": dict(os.environ),
        "limits": [(number, resource.getrlimit(number)) for number in LIMITS],
        "umask": umask,
        "cores": sorted(os.sched_getaffinity(0)),
        "nice": os.getpriority(os.PRIO_PROCESS, 0),
        "ignored": [n for n in (*ENDING, signal.SIGQUIT) if signal.getsignal(n) is signal.SIG_IGN],
        "log": str(place.log),
        "marks": marks(run),
        "told": own_attributes(),
    }


def _end_of(told: bytes, run: RunDirectory) -> int:
    """Return the exit code that the guardian reported. If the guardian was killed, wait until the run has ended."""
    if told:
        return int(told)
    print("clusterkit: the guardian was killed; the supervisor ends the run.", file=sys.stderr)
    run.wait_until_over()
    return 1
