"""Describes what a task's main thread is doing or waiting for, based on the stacks that faulthandler wrote."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import PurePosixPath

from clusterkit.text.lines import is_own

# A task can write anything to its stack file, so these patterns limit the length of every part.
_FRAME = re.compile(
    r'^  File "(?P<file>.{0,4096})", line (?P<line>\d{1,9}) in (?P<function>.{1,500})$', flags=re.MULTILINE
)
_MOST_FRAMES = 200  # the maximum number of frames read per thread; faulthandler writes at most 100
_MOST_THREADS = 10  # the maximum number of other threads to describe
_OUTERMOST = "<module>"


@dataclass(frozen=True, slots=True)
class StackFrame:
    """One frame of a stack, as printed by faulthandler."""

    file: str
    line: int
    function: str

    def __str__(self) -> str:
        where = f"{PurePosixPath(self.file).name}:{self.line}"
        return where if self.function == _OUTERMOST else f"{where} in {self.function}"

    @property
    def own(self) -> bool:
        """Return whether the code belongs to the program and not to a library."""
        return is_own(self.file)


@dataclass(frozen=True, slots=True)
class ThreadActivity:
    """A thread's activity, such as `waits in Server.join`.

    `own`: True if the thread is not waiting for another task. `connects`: True if it is connecting to the cluster.
    """

    text: str
    own: bool
    connects: bool = False


_IN_A_STEP = "waits in {} (a step or a collective)"
_RUNTIME = _IN_A_STEP.format("TensorFlow's runtime")
_CONNECTS = (
    "waits in ParameterServerStrategy(), which connects to every task",
    "waits in MultiWorkerMirroredStrategy() for the others (coordination service)",
)

_TRAINER = r"keras/src/backend/\w+/trainer.py|tf_keras/src/engine/training.py"  # Keras 3 and 2

# Columns: the end of the file name, the function, and the activity's `text` and `own`. The first row that matches
# any frame between the program's code and the innermost frame is used, so specific rows come first.
_TENSORFLOW = (
    ("clusterkit/training/checkpointer.py", "save|wait", "writes a checkpoint", True),
    ("clusterkit/training/background.py", "finish", "writes a checkpoint", True),
    ("clusterkit/training/checkpointer.py", "_choose", "looks for a checkpoint", True),
    ("clusterkit/training/checkpoint_store.py", "follow_chief", "waits for the chief's choice of a checkpoint", False),
    ("clusterkit/training/checkpointer.py", "restore", "reads a checkpoint", True),
    ("clusterkit/task/patches/announcements.py", "follow", "waits for other workers at a callback", False),
    ("tensorflow/python/checkpoint/checkpoint.py", "save|write|_write", "writes a checkpoint", True),
    ("tensorflow/python/checkpoint/checkpoint.py", "restore|read", "reads a checkpoint", True),
    ("distribute/coordinator/cluster_coordinator.py", "join", "waits in ClusterCoordinator.join", False),
    ("distribute/coordinator/cluster_coordinator.py", "create_per_worker_dataset|create_per_worker_resource"
     "|_create_per_worker_resources", "waits in ClusterCoordinator.create_per_worker_dataset", False),
    ("distribute/coordinator/cluster_coordinator.py", "fetch", "waits in ClusterCoordinator.fetch", False),
    ("distribute/coordinator/values.py|distribute/coordinator/remote_value.py", "fetch|get|_wait_and_maybe_error",
     "waits in RemoteValue.fetch", False),
    ("distribute/coordinator/cluster_coordinator.py", "put", "waits in ClusterCoordinator.schedule", False),
    ("distribute/parameter_server_strategy_v2.py", "__init__|_connect_to_cluster",
     _CONNECTS[0], False),
    ("tensorflow/python/eager/remote.py", "connect_to_cluster",
     "waits in tf.config.experimental_connect_to_cluster", False),
    ("tensorflow/python/training/server_lib.py", "join", "waits in Server.join", False),
    ("tensorflow/python/training/session_manager.py", "wait_for_session",
     "waits for the chief to initialize variables (wait_for_session)", False),
    ("tensorflow/python/client/session.py", "_call_tf_sessionrun", "waits in Session.run", False),
    ("distribute/collective_all_reduce_strategy.py", "__init__|_initialize_multi_worker",
     _CONNECTS[1], False),
    ("tensorflow/python/eager/context.py", "get_config_key_value|wait_at_barrier",
     "waits for the others (coordination service)", False),
    ("tensorflow/python/data/ops/iterator_ops.py|data/ops/multi_device_iterator_ops.py",
     "__next__|_next_internal|next|get_next", "waits for its next batch (tf.data)", True),
    ("tensorflow/python/eager/execute.py", "quick_execute|execute",
     _RUNTIME, False),
    ("tensorflow/python/framework/ops.py", "_numpy|_numpy_internal|numpy|__float__|__int__|__bool__",
     _RUNTIME, False),
    (r"tensorflow/python/ops/gen_\w+_ops.py", r"\w+", _RUNTIME, False),
    ("tensorflow/python/distribute/cross_device_ops.py", r"\w+", _RUNTIME, False),  # run by threads of a pool
)  # fmt: skip
_PYTHON = (
    ("subprocess.py", r"wait|_wait|communicate|_communicate", "waits for another process"),
    ("multiprocessing/popen_fork.py", r"wait|poll", "waits for another process"),
    ("queue.py", "get|put", "waits for a queue"),
    ("concurrent/futures/_base.py", "result|wait", "waits for a future"),
    ("asyncio/base_events.py", "_run_once", "waits in asyncio's loop"),
    ("multiprocessing/connection.py", "wait|_recv|_poll|accept", "waits for a pipe of multiprocessing"),
    ("threading.py", "join|_wait_for_tstate_lock", "waits for a thread to end"),
    ("threading.py", "wait|acquire|__enter__", "waits for a lock or an event"),
    ("socket.py", "readinto|accept|create_connection", "waits for a socket"),
    ("ssl.py", "read|recv|do_handshake", "waits for a socket"),
    ("selectors.py", "select", "waits for a socket or a pipe"),
)
# A C function has no frame, so these patterns match the Python line that calls the function.
_SOURCE = (
    (r"\bsleep\(", "sleeps (time.sleep)"),
    (r"\binput\(", "waits for input"),
    (r"\.acquire\(|^with\b.*lock", "waits for a lock"),
    (r"\.(recv|recv_into|recvfrom|accept|connect|sendall)\(", "waits for a socket"),
    (r"\b(select\.select|poll|epoll)\(", "waits for a socket or a pipe"),
)


def main_thread(dump: str) -> tuple[StackFrame, ...]:
    """Return the main thread's frames, innermost first, or no frames if the dump does not contain the main thread.

    faulthandler writes the newest thread first, so the main thread comes last. With more than 100 threads, it omits the
    oldest threads; the main thread is then the one marked as current, because the main thread handles the signal.
    """
    found = _threads(dump)
    if not found:
        return ()
    whole = [frames for _, frames in found if frames[-1].function == _OUTERMOST]
    current = [frames for is_current, frames in found if is_current]
    return (whole or current or [found[-1][1]])[-1]


def other_threads(dump: str) -> tuple[StackFrame, ...]:
    """Return, for at most ten other threads that run the program's own code, the innermost frame of that code."""
    main = main_thread(dump)
    own = ([frame for frame in frames if frame.own] for _, frames in _threads(dump) if frames != main)
    return tuple(islice((frames[0] for frames in own if frames), _MOST_THREADS))


def doing(frames: Sequence[StackFrame], source: str = "") -> ThreadActivity | None:
    """Describe what a thread is doing or waiting for; None without frames. `source` is the innermost line of code."""
    if not frames:
        return None
    place = next((at for at, frame in enumerate(frames) if frame.own), None)
    inner = frames[: len(frames) if place is None else place]
    for files, functions, text, own in _TENSORFLOW:
        if any(_is(frame, files, functions) for frame in inner):
            method = next((frame.function for frame in inner if _is(frame, _TRAINER, "fit|evaluate|predict")), None)
            text = _IN_A_STEP.format(method) if method and text is _RUNTIME else text
            return ThreadActivity(text, own, text in _CONNECTS)
    at = f"at {frames[0 if place is None else place]}"
    for files, functions, text in _PYTHON:
        if any(_is(frame, files, functions) for frame in inner):
            return ThreadActivity(f"{text} {at}", own=True)
    for pattern, text in _SOURCE if not inner else ():
        if re.search(pattern, source.strip()):
            return ThreadActivity(f"{text} {at}", own=True)
    if any(_is(frame, "polymorphic_function/tracing_compilation.py", "trace_function") for frame in frames):
        return ThreadActivity(f"traces a tf.function {at}", own=True)
    return ThreadActivity(f"is {at}", own=True)


def _threads(dump: str) -> list[tuple[bool, tuple[StackFrame, ...]]]:
    """Return the frames of each thread, and whether the thread is the current one."""
    stacks = re.split(r"^(?=(?:Current thread|Thread) 0x)", dump, flags=re.MULTILINE)
    return [(text.startswith("Current"), _frames(text)) for text in stacks if _FRAME.search(text)]


def _frames(text: str) -> tuple[StackFrame, ...]:
    matches = islice(_FRAME.finditer(text), _MOST_FRAMES)
    return tuple(StackFrame(match["file"], int(match["line"]), match["function"]) for match in matches)


def _is(frame: StackFrame, files: str, functions: str) -> bool:
    return bool(re.search(f"/({files})$", frame.file)) and bool(re.fullmatch(functions, frame.function))
