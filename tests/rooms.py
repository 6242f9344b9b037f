"""The rooms of the code: who may import whom, and who may import what. tests/test_house.py holds them to it."""

from __future__ import annotations

# Each room, and the rooms that it may import. Whoever is in a row stands above those in it: there are no circles.
ROOMS = {
    "text": set[str](),
    "words": {"text"},
    "task": set[str](),
    "training": set[str](),
    "system": {"words"},
    "store": {"text", "words", "system"},
    "network": {"words", "system"},
    "faults": {"text", "words", "system", "store", "network"},
    "machine": {"text", "words", "faults"},
    "ledger": {"text", "words", "store", "machine"},
    "companions": {"words", "system", "store", "task"},
    "hooks": {"text", "words", "system", "store", "companions", "ledger", "task"},
    "engines/options": {"words"},
    "job": {"text", "words", "system", "store", "faults", "engines/options"},
    "check": {"text", "words", "job"},
    "explain": {"text", "words", "system", "store", "machine", "check"},
    "warm": {"words", "system", "store", "job", "task", "check"},
    "backends/link": {"text", "words", "system", "store", "__init__"},
    "backends": {
        *("text", "words", "system", "store", "network", "faults", "machine", "job", "task", "warm"),
        "backends/link",
    },
    "engines": {"text", "words", "store", "job", "backends", "backends/link", "engines/options", "__init__"},
    "views": {"text", "words", "system", "store", "ledger"},
    "doctor": {"text", "words", "system", "store", "network", "job", "warm", "backends", "views"},
    "tensorboard": {"words", "system", "store", "companions", "ledger", "task"},
    "page": {
        *("text", "words", "system", "store", "companions", "faults", "ledger", "job", "backends", "views", "task"),
        "__init__",
    },
    "supervisor": {
        *("text", "words", "system", "store", "machine", "ledger", "job", "warm", "backends", "engines"),
        *("views", "tensorboard", "page", "hooks", "check", "explain", "__init__"),
    },
    "api": {"text", "words", "system", "store", "ledger", "job", "task", "warm", "views"},
    # A campaign is a program over the Python API: it starts, shares and ends runs as a test suite does.
    "chaos": {"text", "words", "store", "job", "machine", "ledger", "views", "api", "supervisor"},
    # An exam is a campaign whose runs are compared with each other.
    "exam": {
        "text",
        "words",
        "system",
        "store",
        "network",
        "job",
        "check",
        "ledger",
        "views",
        "api",
        "chaos",
        "__init__",
    },
    "cli": {
        *("text", "words", "system", "store", "network", "faults", "ledger", "job", "warm", "backends", "views", "api"),
        *("tensorboard", "page", "supervisor", "chaos", "exam", "check", "explain", "doctor", "engines", "examples"),
        "__init__",
    },
    "notebook": {"text", "words", "system", "store", "job", "task", "views", "api", "cli"},
    "pytest_plugin": {"text", "words", "store", "api", "exam"},
    "patches": {"words", "job", "task"},
    "examples": set[str](),
    "__init__": {"words", "store", "api"},
    "__main__": {"cli"},
}
# Rules: their time, seeds and environment are arguments. They import no other modules of clusterkit than such.
PURE = (
    *("text", "words", "machine"),
    *(f"job/{name}" for name in ("debugging", "devices", "jobfile", "keras", "options", "plan", "spec", "step_regex")),
    *("job/other_launchers", "engines/options", "faults/aim", "words/grammar", "store/paths"),
    *("warm/environ_writes", "warm/own_variables", "warm/servable", "hooks/moments"),
    *("backends/local/reports", "backends/local/blocked_threads"),
    *("backends/link/frames", "backends/link/session", "backends/link/stream"),
    *(f"ledger/{name}" for name in ("account", "attempts", "conditions", "costs", "incident", "incidents", "ledger")),
    *(f"ledger/{name}" for name in ("interruptions", "situation", "startup", "status", "stretch", "subjects")),
    *("chaos/invariants", "chaos/model", "chaos/schedule", "chaos/shrinking"),
    *(f"exam/{name}" for name in ("bound", "clipping", "diagnosis", "equality", "model", "pace", "position")),
    *(f"exam/{name}" for name in ("recording", "resume", "tables", "text", "verdict")),
    *("check/rules", "check/bindings", "check/case", "check/findings", "check/misplaced", "check/source"),
    "explain/rows",
    *(f"explain/{name}" for name in ("former", "former_names", "frames", "matching", "row", "table")),
    *("doctor/diagnosis", "doctor/machine_rules", "doctor/rules", "notebook/output"),
    *(f"views/{name}" for name in ("goodput", "prefixed", "repeats", "tables", "tracebacks")),
    *("page/bundle", "page/model/campaigns", "page/model/entities"),
    *("engines/slurm/answers", "engines/slurm/reasons", "engines/slurm/script"),
    *(f"engines/kubernetes/{name}" for name in ("documents", "manifest", "pods")),
)
# What runs with the interpreter of the tasks, which may know nothing of clusterkit. `task/call` is not among them: it
# reads what cloudpickle wrote, and that interpreter is the API's own.
INSIDE = (
    *("task/debug_session", "task/debugger", "task/debugger_pdb", "task/entry", "task/join", "task/patches"),
    *("task/peers", "engines/ssh/remote_start"),
    *("warm/confinement", "warm/fork_server", "warm/fresh", "warm/warm_server", "network/switch"),
)
IMPURE = {"subprocess", "threading", "socket", "signal", "time", "random", "os", "asyncio", "multiprocessing"}
