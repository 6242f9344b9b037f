"""The house rules of trust, held over the syntax trees: what is started, what is opened, and what is sent to whom.

What clusterkit starts itself never looks at the working directory. What it trusts belongs to this user or root, and
nobody else can write to it; what is not trusted is opened as a regular file. Each rule is one test, which names all
files that break it.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path

import pytest

from tests.rooms import OPENS, STARTS, UNPICKLES, UNUSUAL_STARTS
from tests.test_house import MODULES, name_of, room_of

STARTING = re.compile(
    r"subprocess\.(run|Popen|call|check_call|check_output|getoutput|getstatusoutput)|start_session|start_agents|Helper"
    r"|os\.(exec\w+|posix_spawnp?|spawn\w+|system|popen|startfile)|(asyncio\.)?create_subprocess_(exec|shell)|pty\.spawn"
    r"|multiprocessing\.\w*|ProcessPoolExecutor"
)
INTERPRETER = re.compile(r"(^|[._])(python|executable)$")
SAFE, OWN_FILES = {"-P", "-I"}, {"ENTRY", "CENSUS"}
READERS = {
    *("store", "ledger", "views", "explain", "cli", "api", "page", "hooks", "notebook", "tensorboard", "companions"),
    *("supervisor", "warm", "pytest_plugin"),
}


@cache
def tree(path: Path) -> ast.Module:
    """A file's syntax tree."""
    return ast.parse(path.read_text())


def calls(path: Path) -> Iterator[tuple[str, ast.Call]]:
    """Every call in a file, with the function's name."""
    for node in ast.walk(tree(path)):
        if isinstance(node, ast.Call):
            yield ast.unparse(node.func), node


def modules_with(condition: Callable[[str, ast.Call], bool], paths: list[Path]) -> set[str]:
    """The modules with a call that meets the condition."""
    return {name_of(path) for path in paths if any(condition(name, call) for name, call in calls(path))}


def command_lines(path: Path) -> Iterator[list[ast.expr]]:
    """The lists and tuples of a file that begin with an interpreter."""
    for node in ast.walk(tree(path)):
        if isinstance(node, ast.List | ast.Tuple) and node.elts and INTERPRETER.search(ast.unparse(node.elts[0])):
            yield node.elts


def is_unsafe(words: list[ast.expr]) -> bool:
    """Whether a command line lets the interpreter look at the working directory: without -P, -I and a file of ours."""
    first = words[1] if len(words) > 1 else None
    if isinstance(first, ast.Constant) and isinstance(first.value, str) and first.value.startswith("-"):
        return first.value not in SAFE
    is_own = ast.unparse(words[0]) == "sys.executable"
    return is_own and not (isinstance(first, ast.Name) and first.id in OWN_FILES)


def test_everybody_who_starts_a_process_is_known() -> None:
    """A new one goes into the table, with what it starts."""
    assert modules_with(lambda name, _: STARTING.fullmatch(name) is not None, MODULES) == set(STARTS)


def test_no_interpreter_looks_at_the_working_directory() -> None:
    """Whatever lies there: `typing.py` and `clusterkit.py` of somebody else are not run."""
    unsafe = {name_of(path) for path in MODULES if any(map(is_unsafe, command_lines(path)))}
    assert unsafe == set(UNUSUAL_STARTS)


def test_clusterkits_own_interpreter_is_started_in_known_ways() -> None:
    """Where it is named, it is compared, given to tasks, or begins a command line that the rule above has seen."""
    seen = {
        name_of(path)
        for path in MODULES
        if any(ast.unparse(words[0]) == "sys.executable" for words in command_lines(path))
    }
    own = {module for module, what in STARTS.items() if what.startswith("own interpreter")}
    makers = modules_with(lambda name, _: name == "own_python", MODULES) | seen
    others = own - makers
    assert others <= {"warm/warm_client", "warm/warm_server"}, "these start the interpreter of a Launch, and a command"


@pytest.mark.parametrize(
    ("text", "unsafe"),
    [
        ("[sys.executable, '-c', code]", True),
        ("[sys.executable, '-m', 'clusterkit']", True),
        ("[sys.executable, *words]", True),
        ("[sys.executable]", True),
        ("(python, '-c', code)", True),
        ("[self._python, '-m', name]", True),
        ("[sys.executable, '-P', '-c', code]", False),
        ("[python, '-I', '-S', '-c', 'pass']", False),
        ("[launch.python, ENTRY, number]", False),
        ("[sys.executable, ENTRY]", False),
        ("(self.python, *module)", False),
        ("['ssh', '-T', host]", False),
    ],
)
def test_the_rule_sees_what_it_is_for(text: str, unsafe: bool) -> None:
    """A wall without a hole has been tried."""
    node = ast.parse(text, mode="eval").body
    assert isinstance(node, ast.List | ast.Tuple)
    is_interpreter = INTERPRETER.search(ast.unparse(node.elts[0])) is not None
    assert (is_interpreter and is_unsafe(node.elts)) is unsafe


def opens(name: str, call: ast.Call) -> bool:
    """Whether a call opens a file without system/files."""
    if name in ("open", "io.open", "os.open", "io.FileIO"):
        return True
    if not isinstance(call.func, ast.Attribute):
        return False
    if call.func.attr in ("read_text", "read_bytes"):
        return True
    modes = [arg.value for arg in call.args[:1] if isinstance(arg, ast.Constant) and isinstance(arg.value, str)]
    return call.func.attr == "open" and any(re.fullmatch(r"[rwxabt+]{1,3}", mode) for mode in modes)


def test_files_of_runs_are_opened_as_regular_files() -> None:
    """A link, a named pipe or a terabyte in the place of one holds nobody up; other files are in the table."""
    paths = [path for path in MODULES if room_of(path) in READERS]
    assert modules_with(opens, paths) == set(OPENS)


def test_everybody_who_unpickles_is_known() -> None:
    """What is unpickled runs code, so it has to come from this user's own processes."""
    names = {
        "pickle.load",
        "pickle.loads",
        "cloudpickle.load",
        "cloudpickle.loads",
        "pickle.Unpickler",
        "marshal.loads",
    }
    assert modules_with(lambda name, _: name in names, MODULES) == set(UNPICKLES)


def test_nothing_is_sent_before_the_peer_is_known() -> None:
    """Whoever connects to a Unix socket asks the kernel whose the other end is."""

    def connects(name: str, call: ast.Call) -> bool:
        return name.endswith(".connect") and isinstance(call.args[0], ast.Name | ast.Call)

    unix = [path for path in MODULES if "AF_UNIX" in path.read_text() and room_of(path) != "task"]
    connecting = modules_with(connects, unix)
    assert connecting == {"store/control", "store/debugging", "warm/warm_client"}
    assert connecting <= modules_with(lambda name, _: name == "check_peer", MODULES)


def test_whoever_listens_asks_who_connects() -> None:
    """On Unix sockets, and on TCP of this machine."""
    listening = {name_of(path) for path in MODULES if re.search(r"\.listen\(\d+\)", path.read_text())}
    asks = {name_of(path) for path in MODULES if re.search(r"is_trusted\(|is_own\(|SO_PEERCRED|uid_of\(|\.accept\(uid",
                                                           path.read_text())}  # fmt: skip
    others = {
        "backends/link/listener": "agents have the run's key",
        "doctor/machine": "a trial, to which nobody else is let in",
        "store/control": "supervisor/control accepts",
        "warm/warm_client": "warm_server.py accepts",
    }
    assert listening - asks <= set(others), listening - asks


def test_the_state_directory_is_refused_in_one_place() -> None:
    """`state_dir` refuses one that is not this user's alone; whoever takes the bare path asks for the reason itself."""
    bare = modules_with(lambda name, _: name == "state_path", MODULES)
    asking = modules_with(lambda name, _: name in ("refuse_untrusted", "why_untrusted"), MODULES)
    assert bare <= asking
    named = {name_of(path) for path in MODULES if re.search(r"environ[.\[(get]*\"CLUSTERKIT_HOME\"", path.read_text())}
    assert named == {"store/store"}
    assert "store/directory" in modules_with(lambda name, _: name == "refuse_untrusted_parent", MODULES)


def test_whoever_acts_on_a_run_asks_whose_it_is() -> None:
    """Before a request is sent, a guardian signalled, or a debugger attached."""
    assert modules_with(lambda name, _: name == "refuse_foreign", MODULES) == {"store/control", "store/debugging"}
