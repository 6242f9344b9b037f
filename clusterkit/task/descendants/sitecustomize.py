"""Patches the Python programs that a task's command starts, such as that of `train.sh` or of `uv run train.py`.

The plan of such a task puts this file's directory first in PYTHONPATH, so that every interpreter imports this file at
its start. The file only waits until the program imports TensorFlow or Keras. It then patches both, as entry.py does in
a task that is itself a Python program. Processes that such a program starts are not patched.

The interpreter may be older than those that clusterkit supports, and then nothing is patched.
"""

import os
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
PATCHES, PATHS = "CLUSTERKIT_PATCHES", "PYTHONPATH"
PACKAGES = ("tensorflow", "keras", "tf_keras")


class FirstImport:
    """A meta path finder that applies the patches when one of PACKAGES is imported for the first time."""

    def find_spec(self, name: str, path: object = None, target: object = None) -> object:
        if name not in PACKAGES:
            return None
        sys.meta_path.remove(self)  # type: ignore[arg-type]
        names = os.environ.pop(PATCHES, "")
        leave(PATHS)
        if not names:
            return None
        from importlib.util import module_from_spec, spec_from_file_location

        spec = spec_from_file_location("clusterkit_entry", os.path.join(os.path.dirname(HERE), "entry.py"))
        entry = module_from_spec(spec)  # type: ignore[arg-type]
        spec.loader.exec_module(entry)  # type: ignore[union-attr]
        finder = entry.load("task/patches/hook").install(names.split(","), entry.load)
        return finder and finder.find_spec(name, path, target)


def leave(variable: str) -> None:
    """Remove this directory from a variable, which the program's own processes would inherit."""
    paths = [path for path in os.environ.get(variable, "").split(os.pathsep) if path != HERE]
    os.environ[variable] = os.pathsep.join(paths)
    if not paths:
        del os.environ[variable]


sys.path[:] = [path for path in sys.path if path != HERE]
if sys.version_info >= (3, 11) and os.environ.get(PATCHES):
    sys.meta_path.insert(0, FirstImport())  # type: ignore[arg-type]
this = sys.modules.pop(__name__)
try:
    __import__(__name__)  # that of the user, which this file hides
except ImportError as error:
    if error.name != __name__:
        raise
finally:
    sys.modules.setdefault(__name__, this)
