"""Which tasks a fork server can serve."""

from __future__ import annotations

import pytest

from clusterkit.job.keras import LEGACY
from clusterkit.job.plan import attempt_env
from clusterkit.warm.servable import at_import, differing_variables, shadowed

AT_IMPORT = [
    "TF_ENABLE_ONEDNN_OPTS",
    "TF_CPP_MIN_LOG_LEVEL",
    "OMP_NUM_THREADS",
    "OPENBLAS_NUM_THREADS",
    "MKL_NUM_THREADS",
    "KMP_AFFINITY",
    "GOMP_CPU_AFFINITY",
    "LD_PRELOAD",
    "LD_LIBRARY_PATH",
    "MALLOC_ARENA_MAX",
    "GLIBC_TUNABLES",
    "PYTHONPATH",
    "PYTHONHASHSEED",
    "PYTHONUNBUFFERED",
    "KERAS_BACKEND",
    "KERAS_HOME",
    "PROTOCOL_BUFFERS_PYTHON_IMPLEMENTATION",
    "CUDA_DEVICE_ORDER",
    "CUDA_CACHE_PATH",
    "NVIDIA_TF32_OVERRIDE",
    "TF2_BEHAVIOR",
    "GCS_READ_CACHE_MAX_SIZE_MB",
    "MPLBACKEND",
    "HOME",
    "LANG",
    "LC_ALL",
]
IN_TIME = [
    "TF_CONFIG",
    "TF_NUM_INTRAOP_THREADS",
    "TF_NUM_INTEROP_THREADS",
    "TF_GRPC_REUSE_PORT",
    "TF_FORCE_GPU_ALLOW_GROWTH",
    "GRPC_FAIL_FAST",
    "GRPC_VERBOSITY",
    "XLA_FLAGS",
    "TF_XLA_FLAGS",
    "ONEDNN_VERBOSE",
    "CUDA_VISIBLE_DEVICES",
    "PATH",
    "TZ",
    "TMPDIR",
    "USER",
    "LEARNING_RATE",
    "MY_LD_PATH",
]


@pytest.mark.parametrize("name", AT_IMPORT)
def test_a_variable_that_is_read_at_import_has_to_be_the_servers(name: str) -> None:
    """A different or missing value makes the task start cold."""
    assert differing_variables({name: "1"}, {name: "2"}) == [name]
    assert differing_variables({name: "1"}, {}) == differing_variables({}, {name: "1"}) == [name]
    assert differing_variables({name: "1"}, {name: "1"}) == []
    assert at_import({name: "1"}) == {name: "1"}


@pytest.mark.parametrize("name", [*IN_TIME, *attempt_env(2, "because")])
def test_a_variable_that_is_read_later_may_be_the_tasks_own(name: str) -> None:
    """A fork gets it in time; clusterkit's own variables are among these."""
    assert differing_variables({name: "1"}, {name: "2"}) == differing_variables({}, {name: "1"}) == []
    assert at_import({name: "1"}) == {}


def test_all_differences_are_named_in_order() -> None:
    """So that one message has all of them."""
    server = {"OMP_NUM_THREADS": "1", "HOME": "/root", "PATH": "/bin", "LANG": "C"}
    assert differing_variables(server, {"OMP_NUM_THREADS": "2", "HOME": "/root", "LD_PRELOAD": "x.so"}) == [
        "LANG",
        "LD_PRELOAD",
        "OMP_NUM_THREADS",
    ]


@pytest.mark.parametrize(
    ("imported", "names", "found"),
    [
        ({"numpy": "/lib", "keras": "/lib"}, ["train", "digits"], []),
        ({"numpy": "/lib", "keras": "/lib"}, ["train", "numpy"], ["numpy"]),
        ({"numpy": "/lib", "six": "/lib", "sys": ""}, ["six", "numpy"], ["numpy", "six"]),
        ({"numpy": "/lib", "net": "/mine"}, ["net"], []),
        ({"numpy": "/lib", "net": "/mine"}, ["net", "numpy"], ["numpy"]),
        ({"net": "/elsewhere"}, ["net"], ["net"]),
        ({"numpy": "/lib"}, [], []),
        ({}, ["numpy"], []),
    ],
)
def test_a_module_beside_the_program_that_has_an_imported_ones_name(
    imported: dict[str, str], names: list[str], found: list[str]
) -> None:
    """A fresh interpreter would import the program's; a module preloaded from there is that one."""
    assert shadowed(imported, "/mine", names) == found


@pytest.mark.parametrize("value", ["1", "true", "True"])
def test_keras_2_is_chosen_at_import(value: str) -> None:
    """By any value that TensorFlow accepts for yes; every other value selects Keras 3."""
    for other in ({}, {LEGACY: "0"}, {LEGACY: ""}, {LEGACY: "yes"}, {LEGACY: "TRUE"}):
        assert differing_variables({LEGACY: value}, other) == differing_variables(other, {LEGACY: value}) == [LEGACY]
        assert at_import(other) == {}
    assert at_import({LEGACY: value}) == {LEGACY: "1"}
