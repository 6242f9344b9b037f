"""Records, for an exam of a parameter-server job, what the coordinator's checkpoints hold, and how much it schedules.

`ClusterCoordinator.schedule` returns before a worker runs the function, at some time until `join` returns. So it is a
matter of chance what a checkpoint lacks that is saved between the two. Where the exam asks for it, scheduled functions
are held back until the program waits for them. A program that is right does not notice, since workers may be as late as
that by themselves; a checkpoint that is saved too early lacks all of them.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from functools import partial
from typing import Any

WORD = "deferred"  # the word in CLUSTERKIT_RECORD_STEPS with which scheduled functions are held back
MOST_HELD = 200  # functions; TensorFlow's queue has room for 256, and `schedule` blocks while it is full
# Seconds after which held functions run although the program does not wait for them: it may look at what they change.
IDLE, LOOK_EVERY = 0.5, 0.05
LONGEST_SAVE = 20.0  # seconds after which held functions run although the program still saves
WORKER_THREADS = "WorkerClosureProcessingLoop"  # begins the names of TensorFlow's threads that run functions
MOST_SAVES = 20  # the variables of the last saves of an attempt are kept
UPDATED = ("weight", "optimizer", "counter", "batch-norm")


class HeldFunctions:
    """The functions that a coordinator has scheduled; they are held back if `is_deferred`.

    `plain_put` is the method of TensorFlow's queue that adds a function.
    """

    def __init__(self, plain_put: Callable[..., Any], *, is_deferred: bool) -> None:
        self.plain_put = plain_put
        self.is_deferred = is_deferred
        self.scheduled = 0
        self.queues: list[Any] = []
        self.held: list[tuple[Any, Any]] = []  # pairs of a queue and a function
        self.lock = threading.RLock()
        self.touched = 0.0  # the monotonic time at which the program last scheduled a function, or has saved
        self.saving_since: float | None = None
        self.watcher: threading.Thread | None = None

    def put(self, queue: Any, closure: Any, tag: Any = None) -> None:
        """Hold a function back, or pass it on. Functions with a tag make a worker's resources, such as its dataset."""
        if tag is not None:
            self.plain_put(queue, closure, tag)
            return
        if not any(queue is known for known in self.queues):
            self.queues.append(queue)
        self.scheduled += 1
        if not self.is_deferred:
            self.plain_put(queue, closure)
            return
        self.hold(queue, closure)
        if len(self.held) >= MOST_HELD or queue._error:  # the error of an earlier function is raised here
            self.release()

    def hold(self, queue: Any, closure: Any) -> None:
        closure.tag = None
        with self.lock:
            self.held.append((queue, closure))
            self.touched = time.monotonic()
        if self.watcher is None:
            self.watcher = threading.Thread(target=self.watch, name="clusterkit-held-functions", daemon=True)
            self.watcher.start()

    def release(self, *_: object, **__: object) -> None:
        """Pass on all functions that are held back, in their order. Raises the error of a function that has failed."""
        if threading.current_thread().name.startswith(WORKER_THREADS):
            return  # it reads what the function has returned that it has just run
        with self.lock:
            self.saving_since = None
            while self.held:
                try:
                    self.plain_put(*self.held.pop(0))
                except BaseException:
                    self.cancel()
                    raise

    def cancel(self) -> None:
        """Cancel what is held back, as TensorFlow cancels what is in its queue when a function has failed."""
        cancelled, self.held = self.held, []
        for _, closure in cancelled:
            closure.mark_cancelled()

    def pending(self) -> int:
        """Return how many scheduled functions have not ended."""
        with self.lock:
            running = sum(queue._queue.qsize() + queue.inflight_closure_count for queue in self.queues)
            return len(self.held) + int(running)

    def begin_save(self) -> None:
        self.saving_since = time.monotonic()

    def end_save(self) -> None:
        self.saving_since, self.touched = None, time.monotonic()

    def watch(self) -> None:
        """Pass on what is held back if the program waits for it without the coordinator, as by reading a variable."""
        while True:
            time.sleep(LOOK_EVERY)
            if self.is_overdue(time.monotonic()):
                self.release()

    def is_overdue(self, now: float) -> bool:
        since = self.saving_since
        is_saving = since is not None and now - since < LONGEST_SAVE
        # The program's own thread has to raise the error of a function that has failed.
        has_failed = any(queue._error for queue in self.queues)
        return bool(self.held) and not is_saving and not has_failed and now - self.touched > IDLE


class Coordination:
    """Writes what a coordinator does to the record: see the lines that `record_…` write."""

    def __init__(self, held: HeldFunctions, recorder: Any) -> None:
        self.held = held
        self.recorder = recorder
        self.output = recorder.output
        self.saves = 0
        self.depth = 0  # the number of nested functions that save
        self.has_begun = False
        # The number of scheduled functions and the variables at a save for which some functions have not ended.
        self.early: tuple[int, dict[str, Any]] | None = None

    def put(self, queue: Any, closure: Any, tag: Any = None) -> None:
        if tag is None and not self.has_begun:
            self.has_begun = True
            if self.held.is_deferred:
                self.output.guarded("The first state is not recorded", self.record_first)
        self.held.put(queue, closure, tag)

    def record_first(self) -> None:
        """Record the variables with which the program begins, which it may have restored."""
        values = self.recorder.registry.snapshot(self.output.note)
        self.output.write_values("first", "first", values)

    def begin_save(self, *_: object, **__: object) -> None:
        """Record what the coordinator holds when it begins to save, and how many functions have not ended."""
        self.depth += 1
        if self.depth > 1 or not self.held.scheduled or not self.held.is_deferred:
            return
        self.held.begin_save()
        self.output.guarded("A save is not recorded", self.record_save)

    def record_save(self) -> None:
        values = self.recorder.registry.snapshot(self.output.note)
        pending = self.held.pending()
        self.saves += 1
        if self.saves > MOST_SAVES:
            self.output.remove_values(f"save-{self.saves - MOST_SAVES}")
        place = f"save-{self.saves}"
        self.output.write_values("save", place, values, scheduled=self.held.scheduled, pending=pending)
        self.early = (self.held.scheduled, updated(values)) if pending else None

    def end_save(self, *_: object, **__: object) -> None:
        self.depth = max(self.depth - 1, 0)
        if not self.depth:
            self.held.end_save()

    def settle(self, *_: object, **__: object) -> None:
        """If functions have ended that had not when the program saved, record what they have changed."""
        if self.early is None or self.held.pending():
            return
        (scheduled, before), self.early = self.early, None
        self.output.guarded("What has changed is not recorded", partial(self.record_change, scheduled, before))

    def record_change(self, scheduled: int, before: dict[str, Any]) -> None:
        after = updated(self.recorder.registry.snapshot(self.output.note))
        changed = [name for name, value in before.items() if name in after and value.tobytes() != after[name].tobytes()]
        if changed:
            self.output.write("changed-after-save", scheduled=scheduled, name=changed[0])

    def end(self) -> None:
        """Record how many functions the program has scheduled."""
        self.output.write("scheduled", number=self.held.scheduled)


def updated(values: Any) -> dict[str, Any]:
    """Return the values of the variables that training updates, by name."""
    return {about["name"]: value for about, value in values if about["kind"] in UPDATED}


_coordination: list[Coordination] = []


def watch(module: Any, load: Any, recorder: Any) -> None:
    """Patch the queue of TensorFlow's coordinator, and record the saves of this process."""
    hook, kind = load("task/patches/hook"), module._CoordinatedClosureQueue
    is_deferred = WORD in recorder.words
    held = HeldFunctions(kind.put, is_deferred=is_deferred)
    coordination = recorder.coordination = Coordination(held, recorder)
    _coordination.append(coordination)
    hook.replace(kind, "put", lambda queue, closure, tag=None: coordination.put(queue, closure, tag))
    for name in ("wait", "done"):
        hook.before(kind, name, held.release)
        hook.after(kind, name, coordination.settle)
    if is_deferred:
        hook.before(module.RemoteValueImpl, "_wait_and_maybe_error", held.release)
        watch_saves(load("task/patches/phases").phases, coordination)


def watch_saves(phases: Any, coordination: Coordination) -> None:
    """Have the program's main thread report the beginning and the end of each save."""
    plain, calls = phases.reach, {"saving": coordination.begin_save, "saved": coordination.end_save}

    def reach(phase: str) -> None:
        if phase in calls and threading.current_thread() is threading.main_thread():
            calls[phase]()
        plain(phase)

    phases.reach = reach


def watch_checkpointer(module: Any, load: Any) -> None:
    """Patch clusterkit's own checkpoints: `save` copies the values, and another thread writes them."""
    hook = load("task/patches/hook")

    def begin(*_: object, **__: object) -> None:
        for coordination in _coordination:
            coordination.begin_save()

    def end(*_: object, **__: object) -> None:
        for coordination in _coordination:
            coordination.end_save()

    hook.before(module.Checkpointer, "_begin", begin)
    hook.after(module.Checkpointer, "_begin", end)
