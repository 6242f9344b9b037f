"""Which tasks a fork server can serve: what it has read at import has to be what the task would have read."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass

# Variables that are read while the interpreter starts or while TensorFlow, Keras, NumPy and what they bring are
# imported. A fork gets all others in time, CUDA_VISIBLE_DEVICES, TF_CONFIG and TF_NUM_*_THREADS among them.
_AT_IMPORT = re.compile(
    r"TF_(?!CONFIG$|NUM_INTRAOP_THREADS$|NUM_INTEROP_THREADS$|GRPC_|USE_LEGACY_KERAS$|FORCE_GPU_ALLOW_GROWTH$).*"
    r"|TF2_BEHAVIOR|XLA_.*|CUDA_(?!VISIBLE_DEVICES$).*|NVIDIA_.*|ROCM_.*|HIP_.*"
    r"|OMP_.*|KMP_.*|GOMP_.*|OPENBLAS_.*|GOTO_.*|MKL_.*|BLIS_.*|VECLIB_.*|NUMEXPR_.*|NPY_.*|ONEDNN_.*|DNNL_.*"
    r"|LD_.*|MALLOC_.*|GLIBC_TUNABLES|PYTHON.*|KERAS_.*|PROTOCOL_BUFFERS_.*|GRPC_.*|ABSL_.*|GLOG_.*|HDF5_.*"
    r"|HOME|LANG|LANGUAGE|LC_.*|SCIPY_.*|SKLEARN_.*"
)


@dataclass(frozen=True, slots=True)
class Preload:
    """What a fork server imports: TensorFlow with Keras, and modules by name, the program's own from `path`."""

    tensorflow: bool
    modules: tuple[str, ...] = ()
    path: str | None = None


def at_import(env: Mapping[str, str]) -> dict[str, str]:
    """The variables that count when something is imported."""
    return {name: value for name, value in env.items() if _AT_IMPORT.fullmatch(name)}


def differing(server: Mapping[str, str], task: Mapping[str, str]) -> list[str]:
    """The names of the import-time variables in which two environments differ."""
    ours, theirs = at_import(server), at_import(task)
    return sorted(name for name in ours.keys() | theirs.keys() if ours.get(name) != theirs.get(name))


def shadowed(imported: Collection[str], names: Collection[str], preload: Collection[str]) -> list[str]:
    """Modules in a program's directory that a fresh interpreter may import where the server has imported another's.

    `imported` are the server's top-level modules, `names` those in the directory, `preload` what was asked for by
    name and so comes from there.
    """
    wanted = {name.partition(".")[0] for name in preload}
    return sorted(set(names) & set(imported) - wanted)
