"""Makes every worker wait for the files that the chief's callbacks write, so that any worker can read them.

The chief announces each finished call of a callback's method in TensorFlow's coordination service. In another worker,
the same call returns only after that. So whatever reads the file later, in a callback or after `fit`, reads what the
chief has written. The wait costs no time, since the next step would wait for the chief too.

Why not a barrier: a program in which only the chief has the callback would hang. Here a worker waits only if the chief
has announced a callback for the same path, which the chief does before the first step of `fit`. The chief waits for
others only before it removes a backup from which `fit` had nothing to train.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections import Counter
from typing import Any

PATIENCE = 600.0  # seconds; a worker that has waited so long for the chief no longer waits for this callback
RESTORED_WITHIN = 60.0  # seconds; the chief waits no longer than this for workers that restore its backup
BEGUN_WITHIN = 5.0  # seconds; a worker that had no step in `fit` waits no longer than this for the chief to begin it
POLL = 500  # milliseconds; between two requests, Python handles signals


class Announcements:
    """The calls that this process has announced or awaited."""

    def __init__(self) -> None:
        self._calls: Counter[str] = Counter()
        self._announced = set[str]()
        self._followed: dict[str, bool] = {}  # maps each callback to whether this worker waits for the chief's calls

    def announce(self, key: str) -> None:
        """Announce a key once; do nothing if there is no coordination service."""
        if key not in self._announced:
            self._announced.add(key)
            try:
                _context().set_config_key_value(key, "1")
            except Exception:  # no coordination service, or a worker has failed, which ends the job
                return

    def number(self, call: str) -> str:
        """Count a call; return its key, which is the same for the same call in every worker."""
        self._calls[call] += 1
        return f"{call}/{self._calls[call]}"

    def follow(self, callback: str, call: str, met: bool = True) -> None:
        """Wait until the chief has announced the call, if the chief has the callback.

        `met` is False if this `fit` had no step, so that the chief may not have begun it yet.
        """
        if callback not in self._followed:
            self._followed[callback] = is_lead(callback) if met else is_announced(_own_key(callback), BEGUN_WITHIN)
        if self._followed[callback] and not is_announced(call, PATIENCE):
            self._followed[callback] = False
            name, place = callback.split("/")[1:]
            said = f"{name} in the chief has not written {bytes.fromhex(place).decode()} within {PATIENCE:.0f} s"
            print(f"clusterkit: {said}. This worker no longer waits for it.", file=sys.stderr, flush=True)


announcements = Announcements()


def lead(kind: Any, attribute: str, methods: tuple[str, ...], load: Any) -> None:
    """Patch the chief's callback to announce that the chief has it, and each call of the methods that has ended."""
    hook = load("task/patches/hook")
    _name_callback(kind, attribute, hook)

    def begin(self: Any, model: Any) -> None:
        for task in _other_tasks() if spans_workers(model) else ():
            announcements.announce(f"{self._callback_key}/{task}")

    hook.after(kind, "set_model", begin)
    for method in methods:
        plain = getattr(kind, method)

        def announced(self: Any, *args: Any, plain: Any = plain, method: str = method, **kwargs: Any) -> Any:
            call = announcements.number(f"{self._callback_key}/{method}")
            try:
                return plain(self, *args, **kwargs)
            finally:  # also after an exception that the program may handle, so that no worker waits in vain
                if spans_workers(self.model):
                    announcements.announce(call)

        hook.replace(kind, method, announced)


def follow(kind: Any, attribute: str, methods: tuple[str, ...], load: Any) -> None:
    """Patch another worker's callback to wait, at the end of each call of the methods, for the chief's same call."""
    hook = load("task/patches/hook")
    _name_callback(kind, attribute, hook)
    for method in methods:
        plain = getattr(kind, method)

        def followed(self: Any, *args: Any, plain: Any = plain, method: str = method, **kwargs: Any) -> Any:
            call = announcements.number(f"{self._callback_key}/{method}")
            result = plain(self, *args, **kwargs)
            if spans_workers(self.model):
                announcements.follow(self._callback_key, call, met=self._trains if method == "on_train_end" else True)
            return result

        hook.replace(kind, method, followed)


def tell_begin(kind: Any, load: Any) -> None:
    """Patch another worker's BackupAndRestore to announce that this worker has restored the backup."""

    def begun(self: Any, logs: Any = None) -> None:
        if spans_workers(self.model):
            announcements.announce(_own_key(announcements.number(f"{self._callback_key}/restored")))

    hook = load("task/patches/hook")
    _note_epochs(kind, hook)
    hook.after(kind, "on_train_begin", begun)


def keep_until_restored(kind: Any, load: Any) -> None:
    """Patch the chief's BackupAndRestore to wait for the other workers before it removes a backup of a finished `fit`.

    If the backup is of the last epoch, `fit` has no step in which the workers would meet, so a slower worker could find
    the backup removed, and train all epochs alone. In any other `fit`, nothing has to wait.
    """
    hook = load("task/patches/hook")

    def begin(self: Any, logs: Any = None) -> None:
        self._restored = announcements.number(f"{self._callback_key}/restored")

    def wait(self: Any, logs: Any = None) -> None:
        if not self._trains and spans_workers(self.model) and _exists(self.backup_dir):
            until = time.monotonic() + RESTORED_WITHIN
            for task in _other_tasks():
                is_announced(f"{self._restored}/{task}", until - time.monotonic())

    _note_epochs(kind, hook)
    hook.before(kind, "on_train_begin", begin)
    hook.before(kind, "on_train_end", wait)


def is_lead(callback: str) -> bool:
    """Return whether the chief has announced the callback. The chief does so before the first step.

    To get an answer at once, try to announce the same key, which has one announcement at most.
    """
    try:
        _context().set_config_key_value(_own_key(callback), "0")
    except sys.modules["tensorflow"].errors.AlreadyExistsError:
        return True
    except Exception:  # no coordination service, or a worker has failed
        return False
    return False


def is_announced(key: str, within: float) -> bool:
    """Wait until the key is announced, at most `within` seconds; return False if the wait has failed."""
    until = time.monotonic() + within
    late = sys.modules["tensorflow"].errors.DeadlineExceededError
    while True:
        try:
            _context().get_config_key_value(key, POLL)
            return True
        except late:
            if time.monotonic() >= until:
                return False
        except Exception:  # no coordination service, or a worker has failed: the next step raises the error
            return False


def spans_workers(model: Any) -> bool:
    """Return whether the model trains on several workers in step, under MultiWorkerMirroredStrategy."""
    strategy = getattr(model, "distribute_strategy", None)
    return strategy is not None and bool(strategy.extended._in_multi_worker_mode())


def _name_callback(kind: Any, attribute: str, hook: Any) -> None:
    """Patch a callback's constructor to keep a name that is the same in every worker: its class and its path."""

    def name(self: Any, *args: Any, **kwargs: Any) -> None:
        place = str(getattr(self, attribute)).encode(errors="replace").hex()  # keys are divided at each slash
        self._callback_key = f"clusterkit/{kind.__name__}/{place}"

    hook.after(kind, "__init__", name)


def _note_epochs(kind: Any, hook: Any) -> None:
    """Patch a callback to note whether its `fit` trains an epoch."""
    hook.before(kind, "on_train_begin", lambda self, logs=None: setattr(self, "_trains", False))
    hook.before(kind, "on_epoch_begin", lambda self, epoch, logs=None: setattr(self, "_trains", True))


def _own_key(key: str) -> str:
    return f"{key}/{_own_task()}"


def _own_task() -> str:
    task = json.loads(os.environ["TF_CONFIG"])["task"]
    return f"{task['type']}:{task['index']}"


def _other_tasks() -> list[str]:
    cluster = json.loads(os.environ["TF_CONFIG"])["cluster"]
    tasks = [f"{kind}:{index}" for kind in ("chief", "worker") for index in range(len(cluster.get(kind, ())))]
    return [task for task in tasks if task != _own_task()]


def _exists(path: str) -> bool:
    return bool(sys.modules["tensorflow"].io.gfile.exists(path))


def _context() -> Any:
    return sys.modules["tensorflow.python.eager.context"].context()
