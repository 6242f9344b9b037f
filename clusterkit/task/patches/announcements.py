"""Lets every worker read the files that the chief's callbacks write: who reads waits for who writes, and vice versa.

Workers meet at each call of a callback that writes, by announcements in TensorFlow's coordination service. The chief
writes after the other workers have begun the same call, so they have read what was there before. Their calls return
after the chief's one, so whatever reads the file later, in a callback or after `fit`, reads what the chief has written.
This costs no time, since the next step would wait for all of them, too.

Why not a barrier: it would hang if a worker lacks the callback. Here two workers wait for each other only if both have
announced a callback of the same class for the same path, which each does before the first step of `fit`.
"""

from __future__ import annotations

import json
import os
import sys
import threading
import time
from collections import Counter
from typing import Any

PATIENCE = 600.0  # seconds; after a wait of this length, a worker no longer waits for the other worker's callback
BEGUN_WITHIN = 60.0  # seconds; a worker that had no step in `fit` waits no longer than this for another to begin it
POLL = 500  # milliseconds; between two requests, Python handles signals
END = "on_train_end"


class Announcements:
    """The callbacks and calls that this process has announced, and the workers whose calls it awaits."""

    def __init__(self) -> None:
        self._calls: Counter[str] = Counter()
        self._announced = set[str]()
        self._awaited: dict[str, bool] = {}  # maps a key of another worker's callback to whether this worker awaits it

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

    def follow(self, who: str, callback: str, call: str, met: bool) -> None:
        """Wait until a call is announced, if the key `callback` is, by which another worker says that it has it.

        `met` is False if this `fit` had no step, so that the other worker may not have begun it yet.
        """
        if callback not in self._awaited:
            self._awaited[callback] = is_known(callback) if met else bool(is_announced(callback, BEGUN_WITHIN))
        if self._awaited[callback] and is_announced(call, PATIENCE) is False:
            self._awaited[callback] = False
            name, place = callback.split("/")[1:3]
            said = f"{name} of {who} has not come to {bytes.fromhex(place).decode()} within {PATIENCE:.0f} s"
            print(f"clusterkit: {said}. {_own_task()} no longer waits for it.", file=sys.stderr, flush=True)


announcements = Announcements()


def meet(kind: Any, attribute: str, methods: tuple[str, ...], leads: bool, load: Any) -> None:
    """Patch a callback so that the workers meet at each call of the methods. `leads` is True in the chief."""
    hook = load("task/patches/hook")

    def name(self: Any, *args: Any, **kwargs: Any) -> None:
        place = str(getattr(self, attribute)).encode(errors="replace").hex()  # keys are divided at each slash
        self._callback_key, self._trains = f"clusterkit/{kind.__name__}/{place}", False

    def begin(self: Any, model: Any) -> None:
        self._trains = False
        if spans_workers(model):
            for task in _other_tasks() if leads else [_own_task()]:
                announcements.announce(f"{self._callback_key}/{'chief' if leads else 'worker'}/{task}")

    hook.after(kind, "__init__", name)
    hook.after(kind, "set_model", begin)
    if END in methods:
        hook.before(kind, "on_epoch_begin", lambda self, epoch, logs=None: setattr(self, "_trains", True))
    for method in methods:
        _meet_at(kind, method, attribute, leads, hook)


def _meet_at(kind: Any, method: str, attribute: str, leads: bool, hook: Any) -> None:
    plain = getattr(kind, method)

    def has_step(self: Any) -> bool:
        return method != END or self._trains

    def meets(self: Any) -> bool:
        """Return whether there may be files to wait for; not if `fit` had no step and found none."""
        files = sys.modules["tensorflow"].io.gfile
        return spans_workers(self.model) and (has_step(self) or files.exists(getattr(self, attribute)))

    def lead(self: Any, *args: Any, **kwargs: Any) -> Any:
        call = announcements.number(f"{self._callback_key}/{method}")
        for task in _other_tasks() if meets(self) else ():
            announcements.follow(task, f"{self._callback_key}/worker/{task}", f"{call}/{task}", has_step(self))
        try:
            return plain(self, *args, **kwargs)
        finally:  # also after an exception that the program may handle, so that no worker waits in vain
            if spans_workers(self.model):
                announcements.announce(call)

    def follow(self: Any, *args: Any, **kwargs: Any) -> Any:
        call = announcements.number(f"{self._callback_key}/{method}")
        waits = meets(self)
        if spans_workers(self.model):
            announcements.announce(f"{call}/{_own_task()}")
        result = plain(self, *args, **kwargs)
        if waits:
            announcements.follow("the chief", f"{self._callback_key}/chief/{_own_task()}", call, has_step(self))
        return result

    hook.replace(kind, method, lead if leads else follow)


def is_known(callback: str) -> bool:
    """Return whether another worker has announced its callback, which it does before the first step.

    To get an answer at once, try to announce the same key, which has one announcement at most.
    """
    try:
        _context().set_config_key_value(callback, "0")
    except sys.modules["tensorflow"].errors.AlreadyExistsError:
        return True
    except Exception:  # no coordination service, or a worker has failed
        return False
    return False


def is_announced(key: str, within: float) -> bool | None:
    """Wait until the key is announced, at most `within` seconds; return None if the service does not answer."""
    until = time.monotonic() + within
    late = sys.modules["tensorflow"].errors.DeadlineExceededError
    while True:
        try:
            _context().get_config_key_value(key, POLL)
            return True
        except TypeError:  # older versions of TensorFlow take no timeout
            return _is_announced_without_polling(key, within)
        except late:
            if time.monotonic() >= until:
                return False
        except Exception:  # no coordination service, or a worker has failed: the next step raises the error
            return None


def _is_announced_without_polling(key: str, within: float) -> bool | None:
    found: list[bool] = []
    ended = threading.Event()

    def wait() -> None:
        try:
            _context().get_config_key_value(key)
            found.append(True)
        except Exception:  # as in is_announced
            return
        finally:
            ended.set()

    threading.Thread(target=wait, daemon=True).start()
    if not ended.wait(within):
        return False
    return True if found else None


def spans_workers(model: Any) -> bool:
    """Return whether the model trains on several workers in step, under MultiWorkerMirroredStrategy."""
    strategy = getattr(model, "distribute_strategy", None)
    return strategy is not None and bool(strategy.extended._in_multi_worker_mode())


def _own_task() -> str:
    task = json.loads(os.environ["TF_CONFIG"])["task"]
    return f"{task['type']}:{task['index']}"


def _other_tasks() -> list[str]:
    cluster = json.loads(os.environ["TF_CONFIG"])["cluster"]
    tasks = [f"{kind}:{index}" for kind in ("chief", "worker") for index in range(len(cluster.get(kind, ())))]
    return [task for task in tasks if task != _own_task()]


def _context() -> Any:
    return sys.modules["tensorflow.python.eager.context"].context()
