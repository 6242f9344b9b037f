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
    "engines": {"text", "words", "system", "store", "job", "backends", "backends/link", "engines/options", "__init__"},
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
# Who starts processes, and what. clusterkit's own interpreter, and one of the user's that only answers a question,
# never look at the working directory; the user's programs run where the user wants them.
STARTS = {
    "api/supervisor": "own interpreter",
    "backends/hosts/allocation": "what engines start",
    "backends/local/family": "tasks",
    "cli/__init__": "this command once more, as it was typed",
    "companions": "own interpreter",
    "doctor/facts": "own interpreter, and the tasks' interpreter with a file of clusterkit's",
    "engines/local/engine": "own interpreter",
    "engines/slurm/client": "tool",
    "engines/slurm/engine": "own interpreter, through a tool",
    "engines/ssh/engine": "tool",
    "engines/ssh/remote_start": "own interpreter",
    "hooks/executor": "commands of the user",
    "job/preflight": "the tasks' interpreter, which only looks for a package",
    "network/virtual": "own interpreter",
    "notebook/running": "own interpreter",
    "system/gpus": "tool",
    "system/process": "what its callers start",
    "system/searching": "own interpreter",
    "task/entry": "the user's program",
    "warm/fork_client": "the tasks' interpreter with a file of clusterkit's",
    "warm/warm_client": "own interpreter with a file of clusterkit's",
    "warm/warm_server": "own interpreter",
}
# Interpreters that are started without -P and -I, and why they do not look at the working directory all the same.
UNUSUAL_STARTS = {
    "engines/ssh/engine": "the other host's Python may be too old for -P; the code itself drops the directory",
}
# Who opens files by other means than system/files, in the rooms that read runs, campaigns and state directories: these
# are not files of a run that somebody else may have made.
OPENS = {
    "api/supervisor": "a temporary file of this process, and Python's own directories",
    "cli/commands/explain": "a file that the user names, or standard input",
    "cli/commands/init": "clusterkit's own files, and new ones",
    "cli/commands/report": "the file that is to be replaced",
    "cli/commands/up": "standard input",
    "cli/debugging": "the user's own history",
    "cli/detached": "the console of the run that it has started itself",
    "cli/options": "a job file, which is told",
    "cli/streams": "/dev/null",
    "hooks/executor": "the log of the run that it belongs to",
    "page/report_file": "clusterkit's own files",
    "store/checkpoint_lock": "a directory",
    "store/checkpoints": "a checkpoint that a fault damages on purpose",
    "store/directory": "the lock, without following a link",
    "store/campaigns": "the lock of a campaign that begins",
    "store/verdicts": "a new, empty file",
    "supervisor/guardian": "the output of the run that begins",
    "supervisor/loop": "the journal of the run that it belongs to",
    "supervisor/prepare": "a job file",
    "tensorboard/scalars": "a file of the run that it belongs to",
    "warm/confinement": "/proc",
    "warm/fork_client": "the log of a server that begins, and the tasks' directory",
    "warm/fresh": "a descriptor, and /proc",
    "warm/python_launch": "the function that the API has pickled itself",
    "warm/shared_servers": "/proc",
    "warm/warm_client": "the lock and the log in the user's own directory",
    "warm/warm_server": "the log that the caller names",
}
# Who unpickles, and what.
UNPICKLES = {
    "api/options": "what functions have returned, of runs on this machine or where the caller trusts the hosts",
    "cli/commands/up": "standard input, from the API",
    "supervisor/guardian": "a file without a name, from the command",
    "task/call": "the function that the API has pickled",
}
IMPURE = {"subprocess", "threading", "socket", "signal", "time", "random", "os", "asyncio", "multiprocessing"}
