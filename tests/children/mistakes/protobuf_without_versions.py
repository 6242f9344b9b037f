"""A protobuf without `runtime_version`, as before version 5.26: a finder hides the module of the installed one."""

import sys


class Older:
    def find_spec(self, name, path=None, target=None):
        if name == "google.protobuf.runtime_version":
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)


sys.meta_path.insert(0, Older())

import tensorflow as tf  # noqa: E402

print(tf.__version__)
