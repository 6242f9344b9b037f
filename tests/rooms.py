"""The rooms of the code: who may import whom, and who may import what. tests/test_house.py holds them to it."""

from __future__ import annotations

# Each room, and the rooms that it may import. Whoever is in a row stands above those in it: there are no circles.
ROOMS = {
    "words": set[str](),
    "task": set[str](),
    "training": set[str](),
    "system": {"words"},
    "client": {"words", "system"},
    "network": {"words", "system"},
    "faults": {"words", "system", "client", "network"},
    "machine": {"words", "faults"},
    "ledger": {"words", "client", "machine"},
    "companions": {"words", "system", "client", "task"},
    "hooks": {"words", "system", "client", "companions", "ledger", "task"},
    "engines/options": {"words"},
    "job": {"words", "system", "client", "faults", "engines/options"},
    "check": {"words", "system", "job"},
    "warm": {"words", "system", "client", "job", "task", "check"},
    "backends/link": {"words", "system", "client", "__init__"},
    "backends": {"words", "system", "client", "network", "faults", "machine", "job", "task", "warm", "backends/link"},
    "engines": {"words", "client", "job", "backends", "backends/link", "engines/options", "__init__"},
    "views": {"words", "system", "client", "ledger"},
    "doctor": {"words", "system", "client", "network", "job", "backends", "views"},
    "tensorboard": {"words", "system", "client", "companions", "ledger", "task"},
    "dashboard": {
        *("words", "system", "client", "companions", "faults", "ledger", "job", "backends", "views", "task"),
        "__init__",
    },
    "supervisor": {
        *("words", "system", "client", "machine", "ledger", "job", "warm", "backends", "engines"),
        *("views", "tensorboard", "dashboard", "hooks", "check", "__init__"),
    },
    "api": {"words", "system", "client", "ledger", "job", "task", "warm", "views"},
    # A campaign is a program over the Python API: it starts, shares and ends runs as a test suite does.
    "chaos": {"words", "client", "job", "machine", "ledger", "views", "api"},
    "cli": {
        *("words", "system", "client", "network", "faults", "ledger", "job", "warm", "backends", "views"),
        *("tensorboard", "dashboard", "supervisor", "chaos", "check", "doctor", "engines", "examples", "__init__"),
    },
    "pytest_plugin": {"words", "client", "views", "api"},
    "patches": {"words", "job", "task"},
    "examples": set[str](),
    "__init__": {"words", "client", "api"},
    "__main__": {"cli"},
}
# Rules: their time, seeds and environment are arguments. They import no other modules of clusterkit than such.
PURE = (
    *("words", "machine"),
    *(f"job/{name}" for name in ("debugging", "devices", "flags", "jobfile", "jobtext", "keras", "options")),
    *(f"job/{name}" for name in ("plan", "spec", "step_regex")),
    *("job/tfconfig", "engines/options", "faults/aim", "words/grammar", "client/paths", "supervisor/params"),
    *("warm/environ_writes", "warm/own_variables", "warm/servable", "hooks/document", "hooks/moments"),
    *("backends/local/reports", "backends/local/blocked_threads"),
    *("backends/link/frames", "backends/link/hello", "backends/link/session", "backends/link/stream"),
    *(f"ledger/{name}" for name in ("account", "attempts", "conditions", "costs", "curve", "faults", "incident")),
    *(f"ledger/{name}" for name in ("incidents", "ledger", "startup", "status", "stragglers", "stretch", "subjects")),
    *("ledger/takeover", "ledger/training_time"),
    *("chaos/invariants", "chaos/model", "chaos/schedule", "chaos/shrinking", "chaos/tally"),
    *("check/findings", "check/rules", "check/source"),
    *("doctor/diagnosis", "doctor/machine_rules", "doctor/python_rules", "doctor/rules"),
    *("views/prefixed", "views/stragglers", "views/tables"),
    *(f"dashboard/{name}" for name in ("bundle", "campaigns", "entities", "markup", "trace")),
    *(f"engines/slurm/{name}" for name in ("ends", "errors", "queue", "script", "steps", "waits")),
    *(f"engines/kubernetes/{name}" for name in ("commands", "documents", "jobset", "manifest", "names", "objects")),
    *(f"engines/kubernetes/{name}" for name in ("pods", "rules", "text")),
)
# What runs with the interpreter of the tasks, which may know nothing of clusterkit. `task/call` is not among them: it
# reads what cloudpickle wrote, and that interpreter is the API's own.
INSIDE = (
    *("task/debug_session", "task/debugger", "task/debugger_pdb", "task/entry", "task/join", "task/patches"),
    *("task/peers", "engines/ssh/there"),
    *("warm/confinement", "warm/fork_server", "warm/fresh", "warm/importing", "warm/warm_server", "network/switch"),
)
IMPURE = {"subprocess", "threading", "socket", "signal", "time", "random", "os", "asyncio", "multiprocessing"}
