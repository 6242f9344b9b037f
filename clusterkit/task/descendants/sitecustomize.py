"""Patches the Python programs that a task's command starts, such as that of `train.sh` or of `uv run train.py`.

The plan of such a task puts this file's directory first in PYTHONPATH, so that every interpreter imports this file at
its start. When the program imports TensorFlow or Keras, both are patched, as entry.py does in a task that is itself a
Python program. Processes that such a program starts are not patched.

The interpreter may be older than those that clusterkit supports, and then nothing is patched.
"""

import _thread
import atexit
import os
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
PATCHES, PATHS = "CLUSTERKIT_PATCHES", "PYTHONPATH"
PACKAGES = ("tensorflow", "keras", "tf_keras")
MARK, LATER = "clusterkit_patched", "when TensorFlow is imported"  # see hook.py


class FirstImport:
    """A meta path finder that applies the patches when one of PACKAGES is imported for the first time."""

    def __init__(self, names: "list[str]") -> None:
        self.names = names
        self.lock = _thread.allocate_lock()

    def find_spec(self, name: str, path: object = None, target: object = None) -> object:
        if name not in PACKAGES:
            return None
        with self.lock:
            if getattr(sys, MARK, None) != LATER:  # entry.py or another thread has applied the patches
                return None
            finder = patch(self.names)
        return finder.find_spec(name, path, target)  # type: ignore[attr-defined]


def patch(names: "list[str]") -> object:
    """Apply the patches, and return the finder that applies them to modules that are imported later."""
    from importlib.util import module_from_spec, spec_from_file_location

    spec = spec_from_file_location("clusterkit_entry", os.path.join(os.path.dirname(HERE), "entry.py"))
    entry = module_from_spec(spec)  # type: ignore[arg-type]
    spec.loader.exec_module(entry)  # type: ignore[union-attr]
    steps = entry.load("task/patches/steps")
    steps.steps.process = steps.sender()
    finder = entry.load("task/patches/hook").install(names, entry.load)

    def imported(module: object) -> None:
        if PATCHES in os.environ and "phases" in names:
            atexit.register(entry.load("task/patches/phases").phases.reach_once, "ending")
        leave()

    for name in PACKAGES:
        finder.due.setdefault(name, []).append(imported)
    plain = sys.excepthook

    def show(kind: object, error: BaseException, traceback: object) -> None:
        entry.hide_own_frames(error)
        plain(type(error), error, error.__traceback__)

    sys.excepthook = show
    return finder


def leave() -> None:
    """Remove the variables by which processes that the program starts would be patched, too."""
    sys.meta_path[:] = [finder for finder in sys.meta_path if not isinstance(finder, FirstImport)]
    os.environ.pop(PATCHES, None)
    paths = os.environ.get(PATHS, "").split(os.pathsep)
    others = [path for path in paths if not path or os.path.abspath(path) != HERE]
    if others and len(others) < len(paths):
        os.environ[PATHS] = os.pathsep.join(others)
    elif not others:
        os.environ.pop(PATHS, None)


sys.path[:] = [path for path in sys.path if not path or os.path.abspath(path) != HERE]
if sys.version_info >= (3, 11) and os.environ.get(PATCHES):
    NAMES = os.environ[PATCHES].split(",")
    setattr(sys, MARK, LATER)
    if "recorder" in NAMES:  # it seeds random numbers before the program draws any
        patch(NAMES)
    else:
        sys.meta_path.insert(0, FirstImport(NAMES))  # type: ignore[arg-type]
this = sys.modules.pop(__name__)
try:
    __import__(__name__)  # that of the user, which this file hides
except ImportError as error:
    if error.name != __name__:
        raise
finally:
    sys.modules.setdefault(__name__, this)
