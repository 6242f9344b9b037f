"""Lets a warm server run the job, while this process only waits and forwards signals."""

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
from clusterkit.supervisor.prepare import PendingRun
from clusterkit.supervisor.terminal_stop import pausing_on_stop
from clusterkit.system.files import open_fd
from clusterkit.system.poller import Wakeup
from clusterkit.system.process import ENDING, code_of, own_python
from clusterkit.warm.choice import marks
from clusterkit.warm.confinement import own_attributes
from clusterkit.warm.shared_servers import servers_to_try
from clusterkit.warm.warm_client import SharedServer, WarmSession, ask

LIMITS = sorted({getattr(resource, name) for name in dir(resource) if name.startswith("RLIMIT_")})


def _read_only(values: dict[Any, Any]) -> MappingProxyType[Any, Any]:
    return MappingProxyType(values)  # pickle can't find the class by its name, but finds this function


copyreg.pickle(MappingProxyType, lambda proxy: (_read_only, (dict(proxy),)))


def start_from_server(run: PendingRun, session: WarmSession | None, lifeline: int | None) -> int | PendingRun:
    """Have a warm server run the job; return the exit code. If no warm server does, return the run with warnings."""
    assert run.launch is not None, "only a run with a fork server can start from a warm server"
    for server in servers_to_try(run.launch, session, lifeline):
        code = server if isinstance(server, str) else hand_over(server, run, run.directory, lifeline)
        if isinstance(code, int):
            return code
        run = run.with_warning(code)
    return run


def hand_over(server: SharedServer, work: Any, run: RunDirectory, lifeline: int | None) -> int | str:
    """Have the warm server run `work`, a value that can be pickled; return the exit code, or why the server refused."""
    flush()
    read_end, write_end = os.pipe2(os.O_CLOEXEC)
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, ENDING)  # blocked until signals can be forwarded
    with os.fdopen(read_end, "rb") as report_file, os.fdopen(write_end, "wb") as report_end, _lifeline() as own_end:
        try:
            answer = _send(server, _message(server, run), report_end.fileno(), pickle.dumps(work), own_end, lifeline)
        except OSError as error:
            answer = {"refused": f"it does not answer ({error.strerror or error})"}
        report_end.close()
        if "refused" in answer:
            signal.pthread_sigmask(signal.SIG_SETMASK, mask)
            return f"The run begins without the warm server: {answer['refused']}."
        with forwarding(answer["pid"]), pausing_on_stop(run), Wakeup() as wakeup:
            signal.pthread_sigmask(signal.SIG_SETMASK, mask)
            while not wakeup.wait(report_file.fileno()):
                pass
            return _exit_code(report_file.read(), run)


@contextmanager
def _lifeline() -> Iterator[int]:
    """Yield a lifeline: the read end of a pipe that closes when this process ends."""
    read_end, write_end = os.pipe2(os.O_CLOEXEC)
    try:
        yield read_end
    finally:
        os.close(read_end)
        os.close(write_end)


def _send(
    server: SharedServer, message: dict[str, Any], report: int, work: bytes, own_end: int, lifeline: int | None
) -> dict[str, Any]:
    with os.fdopen(os.memfd_create("run", os.MFD_CLOEXEC), "wb", buffering=0) as file:
        file.write(work)
        file.seek(0)
        with open_fd(".", os.O_PATH | os.O_DIRECTORY) as cwd:
            descriptors = [0, 1, 2, cwd, report, file.fileno(), own_end, *([] if lifeline is None else [lifeline])]
            return ask(server.socket, message, descriptors)


def _message(server: SharedServer, run: RunDirectory) -> dict[str, Any]:
    umask = os.umask(0o077)
    os.umask(umask)
    return {
        "do": "run",
        "command": own_python("-c", code_of("clusterkit.supervisor.guardian"), run.run_id),
        "env": dict(os.environ),
        "limits": [(number, resource.getrlimit(number)) for number in LIMITS],
        "umask": umask,
        "cores": sorted(os.sched_getaffinity(0)),
        "nice": os.getpriority(os.PRIO_PROCESS, 0),
        "ignored": [n for n in (*ENDING, signal.SIGQUIT) if signal.getsignal(n) is signal.SIG_IGN],
        "log": str(server.log),
        "marks": marks(run),
        "told": own_attributes(),
    }


def _exit_code(report: bytes, run: RunDirectory) -> int:
    """Return the exit code that the guardian reported. If the guardian was killed, wait until the run has ended."""
    if report:
        return int(report)
    print("clusterkit: the guardian was killed; the supervisor ends the run.", file=sys.stderr)
    run.wait_until_over()
    return 1
