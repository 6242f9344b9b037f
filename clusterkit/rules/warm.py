"""Which tasks a fork server can serve: what it has read at import has to be what the task would have read."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
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


# What a program may set for its own imports; the rest has been read when its first line runs.
_NOT_FOR_ITSELF = re.compile(r"LD_.*|MALLOC_.*|GLIBC_.*|PYTHON.*|HOME|LANG|LANGUAGE|LC_.*")
_NAME = re.compile(r"""["'](\w+)["']""")
_READ = re.compile(r"""(?:environ\.get|getenv)\(|environ\[["']\w+["']\](?!\s*=[^=])| in \S*environ\b|\.pop\(""")
_SET = re.compile(
    r"""(?:os\.)?environ(?:\[["'](\w+)["']\]\s*=|\.setdefault\(\s*["'](\w+)["']\s*,)\s*(["'])([^"'\\]*)\3\s*\)?\s*(?:#.*)?"""
)


@dataclass(frozen=True, slots=True)
class OwnVariables:
    """Import-time variables that a program sets itself: `values` can be read in its text, `unclear` names can't.

    `defaults` are the names that it leaves alone where they are set already.
    """

    values: Mapping[str, str]
    defaults: frozenset[str]
    unclear: frozenset[str]

    def given(self, env: Mapping[str, str]) -> dict[str, str]:
        """What comes on top of this environment."""
        return {name: v for name, v in self.values.items() if name not in self.defaults or name not in env}


def own_variables(lines: Iterable[str]) -> OwnVariables:
    """Find `os.environ["TF_ENABLE_ONEDNN_OPTS"] = "0"` and the like. What is indented may not be reached."""
    values: dict[str, str] = {}
    defaults, unclear = set[str](), set[str]()
    for line in lines:
        if "environ" not in line and "env(" not in line:
            continue
        names = {n for n in _NAME.findall(line) if _AT_IMPORT.fullmatch(n) and not _NOT_FOR_ITSELF.fullmatch(n)}
        if not names or line.lstrip().startswith("#"):
            continue
        if found := _SET.fullmatch(line.rstrip()):
            values[found[1] or found[2]] = found[4]
            defaults |= {found[2]} - {None}
        elif not _READ.search(line):
            unclear |= names
    return OwnVariables(values, frozenset(defaults), frozenset(unclear))


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


def shadowed(imported: Mapping[str, str], directory: str, names: Collection[str]) -> list[str]:
    """Modules in a program's directory that a fresh interpreter may import where the server has imported another's.

    `imported` are the server's top-level modules, each with the directory that it comes from; `names` are those in
    the program's.
    """
    return sorted(name for name in {*names} & imported.keys() if imported[name] != directory)
