"""Which tasks a fork server can serve."""

from __future__ import annotations

import pytest

from clusterkit.rules.plan import attempt_env
from clusterkit.rules.warm import at_import, differing, own_variables, shadowed

AT_IMPORT = [
    "TF_ENABLE_ONEDNN_OPTS",
    "TF_CPP_MIN_LOG_LEVEL",
    "TF_XLA_FLAGS",
    "XLA_FLAGS",
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
    "GRPC_VERBOSITY",
    "HOME",
    "LANG",
    "LC_ALL",
]
IN_TIME = [
    "TF_CONFIG",
    "TF_NUM_INTRAOP_THREADS",
    "TF_NUM_INTEROP_THREADS",
    "TF_GRPC_REUSE_PORT",
    "TF_USE_LEGACY_KERAS",
    "TF_FORCE_GPU_ALLOW_GROWTH",
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
    """Whether it has another value, or only one of the two has it."""
    assert differing({name: "1"}, {name: "2"}) == [name]
    assert differing({name: "1"}, {}) == differing({}, {name: "1"}) == [name]
    assert differing({name: "1"}, {name: "1"}) == []
    assert at_import({name: "1"}) == {name: "1"}


@pytest.mark.parametrize("name", [*IN_TIME, *attempt_env(2, "because")])
def test_a_variable_that_is_read_later_may_be_the_tasks_own(name: str) -> None:
    """A fork gets it in time; what clusterkit itself sets is among these."""
    assert differing({name: "1"}, {name: "2"}) == differing({}, {name: "1"}) == []
    assert at_import({name: "1"}) == {}


def test_all_differences_are_named_in_order() -> None:
    """So that one line says everything."""
    server = {"OMP_NUM_THREADS": "1", "HOME": "/root", "PATH": "/bin", "LANG": "C"}
    assert differing(server, {"OMP_NUM_THREADS": "2", "HOME": "/root", "LD_PRELOAD": "x.so"}) == [
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
    """A fresh interpreter would import that one; what was preloaded from there is that one."""
    assert shadowed(imported, "/mine", names) == found


@pytest.mark.parametrize(
    ("line", "value"),
    [
        ('os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"', "3"),
        ("os.environ['TF_CPP_MIN_LOG_LEVEL']='3'  # be quiet", "3"),
        ('environ["TF_CPP_MIN_LOG_LEVEL"] = ""', ""),
        ('os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")', "3"),
    ],
)
def test_a_plain_value_that_a_program_sets_is_the_fork_servers_too(line: str, value: str) -> None:
    """It is imported after that line, so it counts."""
    own = own_variables(["import os", line, "import tensorflow"])
    assert own.given({}) == {"TF_CPP_MIN_LOG_LEVEL": value}
    assert not own.unclear


@pytest.mark.parametrize(
    "line",
    [
        '    os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"',
        'os.environ["TF_CPP_MIN_LOG_LEVEL"] = str(level)',
        'os.environ.update({"TF_CPP_MIN_LOG_LEVEL": "3"})',
        'os.putenv("TF_CPP_MIN_LOG_LEVEL", "3")',
        'if quiet: os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"',
    ],
)
def test_a_value_that_the_text_does_not_tell_is_unclear(line: str) -> None:
    """It may not be reached, or be computed."""
    assert own_variables([line]).unclear == {"TF_CPP_MIN_LOG_LEVEL"}


@pytest.mark.parametrize(
    "line",
    [
        'level = os.environ.get("TF_CPP_MIN_LOG_LEVEL", "0")',
        'print(os.environ["TF_CPP_MIN_LOG_LEVEL"])',
        'if os.environ["TF_CPP_MIN_LOG_LEVEL"] == "3":',
        'if "TF_CPP_MIN_LOG_LEVEL" in os.environ:',
        'os.getenv("TF_CPP_MIN_LOG_LEVEL")',
        '# os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"',
        'os.environ["TF_CONFIG"] = json.dumps(config)',
        'os.environ["CUDA_VISIBLE_DEVICES"] = "-1"',
        'os.environ["PYTHONPATH"] = "for subprocesses"',
    ],
)
def test_what_is_only_read_or_counts_later_is_nothing_to_a_fork_server(line: str) -> None:
    """As most lines that have to do with the environment."""
    own = own_variables([line])
    assert (dict(own.values), own.unclear) == ({}, frozenset())


def test_a_default_does_not_replace_what_is_set() -> None:
    """As `setdefault` says."""
    own = own_variables(['os.environ.setdefault("KERAS_BACKEND", "tensorflow")', 'os.environ["OMP_DYNAMIC"] = "0"'])
    assert own.given({"KERAS_BACKEND": "jax", "OMP_DYNAMIC": "1"}) == {"OMP_DYNAMIC": "0"}
