"""Decides which tasks a fork server can fork, by their modules and by the variables that are read during imports."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass

from clusterkit.job.keras import LEGACY, YES

# Variables that are read when the interpreter starts, or when TensorFlow, Keras, NumPy or a dependency is imported.
# The list was found by tracing every getenv(). Other variables, such as TF_CONFIG and GRPC_*, are read after the fork.
_READ_AT_IMPORT = re.compile(
    r"TF_(?!CONFIG$|NUM_INTRAOP_THREADS$|NUM_INTEROP_THREADS$|GRPC_|FLAG_|XLA_FLAGS$|DETERMINISTIC_"
    r"|FORCE_GPU_ALLOW_GROWTH$).*"
    r"|TF2_BEHAVIOR|XLA_(?!FLAGS$).*|CUDA_(?!VISIBLE_DEVICES$).*|NVIDIA_.*|ROCM_.*|HIP_.*"
    r"|OMP_.*|KMP_.*|GOMP_.*|OPENBLAS_.*|GOTO_.*|MKL_.*|BLIS_.*|VECLIB_.*|NUMEXPR_.*|NPY_.*|NUMPY_.*"
    r"|LD_.*|MALLOC_.*|GLIBC_TUNABLES|PYTHON.*|KERAS_.*|PROTOCOL_BUFFERS_.*|ABSL_.*|GLOG_.*|HDF5_.*|GCS_.*"
    r"|HOME|LANG|LANGUAGE|LC_.*|SCIPY_.*|SKLEARN_.*|JOBLIB_.*|LOKY_.*|MPL.*|MATPLOTLIBRC|PILLOW_.*|PSUTIL_.*|WRAPT_.*"
)
# Variables that are read before the first line of a program runs, so a program can't set them for itself.
_TOO_LATE = re.compile(r"LD_.*|MALLOC_.*|GLIBC_.*|PYTHON.*|HOME|LANG|LANGUAGE|LC_.*")
_TENSORFLOW_ONLY = re.compile(r"TF_.*|TF2_.*|XLA_.*|KERAS_.*|CUDA_.*|NVIDIA_.*|ROCM_.*|HIP_.*|GCS_.*")


def has_early_effect(name: str) -> bool:
    """Return whether setting this variable in a program, before the import of TensorFlow, has an effect."""
    return _READ_AT_IMPORT.fullmatch(name) is not None and not _TOO_LATE.fullmatch(name)


def is_for_tensorflow(name: str) -> bool:
    """Return whether a variable is read only by TensorFlow and Keras, and not by NumPy or another dependency."""
    return _TENSORFLOW_ONLY.fullmatch(name) is not None


@dataclass(frozen=True, slots=True)
class Preload:
    """The modules that a fork server imports."""

    tensorflow: bool  # True if the server imports TensorFlow and Keras
    modules: tuple[str, ...] = ()  # the names of other modules to import
    path: str | None = None  # the program's directory, which may contain some of `modules`

    @property
    def needed_path(self) -> str | None:
        """`path` if `modules` must be imported; otherwise None, so that programs in any directory share one server."""
        return self.path if self.modules else None


def at_import(env: Mapping[str, str]) -> dict[str, str]:
    """Return the variables in `env` that are read during imports.

    TF_USE_LEGACY_KERAS is included only if it is set to a true value, and then always with the same value.
    """
    variables = {name: value for name, value in env.items() if _READ_AT_IMPORT.fullmatch(name)}
    legacy = {LEGACY: YES[0]} if variables.pop(LEGACY, None) in YES else {}
    return {**variables, **legacy}


def differing_variables(server: Mapping[str, str], task: Mapping[str, str]) -> list[str]:
    """Return the names of variables that are read during imports, and that differ between a server and a task."""
    server_values, task_values = at_import(server), at_import(task)
    return sorted(
        name for name in server_values.keys() | task_values.keys() if server_values.get(name) != task_values.get(name)
    )


def shadowed(imported: Mapping[str, str], directory: str, names: Collection[str]) -> list[str]:
    """Return those module names in `names` that the server has imported from a directory other than `directory`."""
    return sorted(name for name in {*names} & imported.keys() if imported[name] != directory)
