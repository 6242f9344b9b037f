"""A forked task, a cold one and `python program.py` behave in the same way."""

from __future__ import annotations

import difflib
import os
import py_compile
import re
import sys
import tempfile
import zipfile
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from clusterkit.system import procfs
from tests.children.plain import FILES, PROGRAMS
from tests.support import wait_until
from tests.warm.parity import tensorflows
from tests.warm.parity.cases import CASES, MORE_FILES, Case
from tests.warm.parity.client import DEADLINE, Driver, Outcome, request
from tests.warm.parity.keras import CHOICES, PROGRAM, Choice, Start

pytestmark = [pytest.mark.tensorflow, pytest.mark.timeout(150)]

NOT_INHERITED = ("CLUSTERKIT", "TF_", "PYTHON", "PYTEST")
BASE = {
    **{name: value for name, value in os.environ.items() if not name.startswith(NOT_INHERITED)},
    "PYTHONUNBUFFERED": "1",
    "PYTHONDONTWRITEBYTECODE": "1",
    "TF_CPP_MIN_LOG_LEVEL": "2",
}
# What TensorFlow's C++ logs about itself: times, pids, and at import, which a fork's server has done for it. Until
# TensorFlow 2.19 that has errors, too, one for each of three CUDA libraries that are registered twice, and with 2.19
# four warnings.
AT_IMPORT = (
    r"WARNING: All log messages before absl|I\d{4} [0-9:.]+ +\d+ "
    r"|.*Unable to register cu\w+ factory: |.*computation placer already registered"
)
IMPORT_LOG = re.compile(f"^(?:{AT_IMPORT}).*\\n", re.M)
STAMP = re.compile(r"^(?:\d{4}-\d\d-\d\d [0-9:.]+: ([WEF])|([WEF]\d{4}) [0-9:.]+ +\d+) ", re.M)
Run = Callable[[Case], dict[str, Outcome]]


@pytest.fixture(scope="module")
def driver(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Driver]:
    """One driver, and so one server with TensorFlow, for all tests."""
    started = Driver(tmp_path_factory.mktemp("servers"))
    yield started
    assert started.stop() == 0


@pytest.fixture
def temporary() -> Iterator[str]:
    """A directory for the programs' temporary files, short because of sockets' paths."""
    with tempfile.TemporaryDirectory(prefix="ck-") as name:
        yield name


@pytest.fixture
def run(driver: Driver, tmp_path: Path, temporary: str) -> Run:
    """Run a program in every way that its case asks for."""
    here = tmp_path / "here"
    for name, source in {**FILES, **MORE_FILES}.items():
        (here / name).parent.mkdir(parents=True, exist_ok=True)
        (here / name).write_text(source)

    def run(case: Case) -> dict[str, Outcome]:
        if case.target == "program.py":
            (here / "program.py").write_bytes(as_bytes(case.source))
        env = {name: value for name, value in BASE.items() if not (case.buffered and name == "PYTHONUNBUFFERED")}
        own = {"DIFFERENT": "in the task", "TMPDIR": temporary, "TZ": "America/Caracas"}
        own |= {"CUDA_VISIBLE_DEVICES": "-1", "TF_NUM_INTRAOP_THREADS": "3"}
        ways = ["plain"] * case.plain + ["cold"] * case.cold + ["warm"] * case.warm + ["warm again"] * case.differs
        driver.send(request(case, str(here), {**env, **own, **case.env}, {**env, **case.server}, ways))
        return driver.receive(len(ways) * (DEADLINE + 10))

    return run


def as_bytes(source: str) -> bytes:
    """A program's file, with the escapes for bytes that text can't contain replaced."""
    encoding = "latin-1" if "latin-1" in source else "utf-8"
    return source.encode(encoding).replace(b"<NUL>", b"\0").replace(b"<LATIN>", b"\xe9")


def with_matrix(cases: list[Case]) -> Iterator[Any]:
    """The cases; those about TensorFlow run with each of its versions."""
    for case in cases:
        marks = pytest.mark.matrix if f"### {case.about} " in tensorflows.TEXT else ()
        yield pytest.param(case, marks=marks)


def difference(first: Outcome, other: Outcome) -> Iterator[str]:
    """A description of the difference for the failure's message."""
    for name in first:
        before, after = (str(outcome[name]).splitlines() for outcome in (first, other))
        yield from (line[:300] for line in difflib.unified_diff(before, after, name, name, lineterm="", n=1))


CRASH = re.compile(r"Fatal Python error: .*", re.DOTALL)  # and the stack of a crash, which a plain start leaves out


def check(told: dict[str, Outcome], case: Case) -> None:
    """Check that every way ended in time, left nothing, and had the same results, or different ones if required."""
    if case.differs:
        assert len({outcome["output"] for outcome in told.values()}) == len(told), told
        told = {way: {**outcome, "output": ""} for way, outcome in told.items()}
    for outcome in told.values():
        outcome["output"] = STAMP.sub(r"\1\2 ", IMPORT_LOG.sub("", outcome["output"]))
        if "plain" in told:
            outcome["output"] = CRASH.sub("", outcome["output"])
        outcome["stacks"] = re.sub("0x[0-9a-f]+", "0x", outcome["stacks"])
    first, *others = told
    for way, outcome in told.items():
        assert not outcome["late"], f"{way}: {outcome}"
        assert outcome["left"] == [], f"{way}: {outcome}"
    for way in others:
        same = told[way] == told[first]
        assert same, f"{way} is not as {first}:\n" + "\n".join(difference(told[first], told[way]))
    assert (told[first]["code"] != 0) is case.fails, told[first]


@pytest.mark.parametrize("case", [*with_matrix(CASES)], ids=lambda case: case.about)
def test_a_fork_is_like_a_fresh_start(case: Case, run: Run) -> None:
    """Output, to the byte, exit code or signal, stack dumps, and no process left."""
    check(run(case), case)


@pytest.mark.parametrize(
    "choice",
    [
        pytest.param(choice, id=choice.about, marks=() if choice.about == "Keras 2" else pytest.mark.long)
        for choice in CHOICES
    ],
)
def test_keras_is_what_a_fresh_start_imports(choice: Choice, run: Run, tmp_path: Path) -> None:
    """For either version, however it is chosen and imported."""
    hidden = {}
    if not choice.package:
        (tmp_path / "sitecustomize.py").write_text("import sys\nsys.modules['tf_keras'] = None\n")
        hidden = {"PYTHONPATH": str(tmp_path)}
    case = Case(choice.about, PROGRAM, cold=False, server={**choice.server, **hidden})

    def told(start: Start, ways: str, plain: bool = False) -> dict[str, Outcome]:
        args = (start.before, start.first, ways)
        return run(replace(case, plain=plain, args=args, env={**start.env, **hidden}))

    full = told(choice.plain, "all" if choice.package else "few", plain=True)
    check(full, case)
    for start in choice.warm:
        few = told(start, "few")["warm"]["output"]
        assert few
        assert full["plain"]["output"].startswith(few), start


@pytest.mark.parametrize("name", PROGRAMS)
def test_programs_of_the_entry_are_the_same_warm(name: str, run: Run) -> None:
    """The programs of test_entry.py, which starts them cold. Without TensorFlow, whose exit takes 0.3 s."""
    told = run(Case(name, PROGRAMS[name], cold=False, tensorflow=False))
    check(told, Case(name, fails=told["plain"]["code"] != 0))


@pytest.mark.parametrize(
    "module",
    ["pkg.mod", "pkg", "pkg.fails", "pkg.broken", "pkg.pool", "pkg.leaves", "pkg.gone", "gone", "app", "beside"],
)
def test_a_module_is_like_a_fresh_start(module: str, run: Run) -> None:
    """`python -m module`: relative imports, `__spec__`, `__package__`, pickling."""
    told = run(Case(module, how="module", target=module))
    check(told, Case(module, fails=told["plain"]["code"] != 0))


TARGETS = [
    Case("a script elsewhere", target="deep/er/far.py"),
    Case("a path that is not normal", target="./deep/../deep/er//far.py"),
    Case("a symbolic link", target="link.py"),
    Case("an archive", target="app.pyz"),
    Case("a directory", target="app"),
    Case("a directory without a program", target="deep"),
    Case("a compiled program", target="compiled.pyc"),
    Case("a script that is gone", target="gone.py"),
    Case("a script in a directory that is gone", target="gone/gone.py"),
    Case("modules with names of the entry's own", target="shadow/far.py"),
]


@pytest.mark.parametrize("case", TARGETS, ids=lambda case: case.about)
def test_a_program_is_found_as_python_finds_it(case: Case, run: Run, tmp_path: Path) -> None:
    """`__file__`, `sys.path[0]`, `sys.argv[0]`, and the message for a missing program."""
    here = tmp_path / "here"
    (here / "deep/er").mkdir(parents=True)
    (here / "shadow").mkdir()
    shadowed = "import ctypes, faulthandler\nprint(ctypes.mine, faulthandler.__file__)\n"
    (here / "shadow/far.py").write_text(shadowed)
    (here / "shadow/ctypes.py").write_text("mine = 5\n")
    (here / "shadow/faulthandler.py").write_text("")
    source = "import sys\nprint(sys.argv, sys.orig_argv, sys.path, __file__, __loader__.path)\n1 / 0\n"
    (here / "deep/er/far.py").write_text(source)
    (here / "link.py").symlink_to("deep/er/far.py")
    py_compile.compile(str(here / "deep/er/far.py"), str(here / "compiled.pyc"))
    with zipfile.ZipFile(here / "app.pyz", "w") as archive:
        for name in ("__main__.py", "near.py"):
            archive.write(here / "app" / name, name)
    if case.target.startswith("shadow"):  # no supervisor asks a fork server for that: it looks first
        case = replace(case, warm=False)
    told = run(case)
    check(told, replace(case, fails=told["plain"]["code"] != 0))


ODD = ("\u00e4\u20ac\U0001f40d", "a\nb\t", "\udc80\udcff", " ", "--", "$HOME * 'x' \"y\"")


def test_arguments_and_environment_may_be_any_bytes(run: Run) -> None:
    """Unicode, invalid UTF-8, newlines, and variables with names that no shell allows."""
    source = "import os, sys\nprint(sys.argv, sys.orig_argv, ascii(sorted(os.environ.items())))\n"
    env = {f"ODD.{number} -": value for number, value in enumerate(ODD)}
    check(run(Case("odd", source, args=ODD, env=env)), Case("odd"))


def test_ps_shows_a_fork_as_a_plain_start(run: Run) -> None:
    """Its command line; that of a cold start contains the entry, which the interpreter needs."""
    told = run(Case("cmdline", "print(open('/proc/self/cmdline', 'rb').read())\n"))
    assert told["warm"] == told["plain"]
    assert "entry.py" in told["cold"]["output"]


COMMANDS: list[tuple[str, ...]] = [
    (
        "sh",
        "-c",
        'echo "$@" $PPID; pwd; env | sort; trap; ls -l /proc/self/fd | grep -c memfd; exit 3',
        "sh",
        "a b",
        "",
    ),
    (sys.executable, "-c", "import signal as s; print([(n, s.getsignal(n)) for n in s.valid_signals()])"),
    ("./broken",),
    ("no-such-program", "x"),
]


@pytest.mark.parametrize("words", COMMANDS, ids=lambda words: words[0])
def test_a_command_is_like_a_fresh_start(words: tuple[str, ...], run: Run, tmp_path: Path) -> None:
    """Forked from a server that has imported nothing: arguments, environment, signals, a missing program."""
    (tmp_path / "here/broken").write_text("#!/no/such/interpreter\n")
    (tmp_path / "here/broken").chmod(0o755)
    case = Case("command", how="command", target=words[0], args=words[1:], plain=False, tensorflow=False)
    told = run(case)
    check(told, replace(case, fails=told["cold"]["code"] != 0))


def test_output_of_a_preload_is_not_repeated(run: Run, tmp_path: Path) -> None:
    """Output of the import, even if C code still buffers it, is only the server's; the module is imported."""
    source = "import ctypes\nprint('python')\nctypes.CDLL(None).printf(b'c')\nx = 5\n"
    (tmp_path / "here/preloaded.py").write_text(source)
    program = (
        "import sys\nprint('preloaded' in sys.modules)\nimport preloaded\nprint(preloaded.x, preloaded.__file__)\n"
    )
    told = run(Case("x", program, plain=False, cold=False, tensorflow=False, buffered=True, modules=("preloaded",)))
    assert told["warm"]["output"] == f"True\n5 {tmp_path}/here/preloaded.py\n"


def test_a_fork_dies_with_its_parent(tmp_path: Path) -> None:
    """And so does the server, so that nothing is left."""
    driver = Driver(tmp_path)
    pids = tmp_path / "pids"
    source = f"import os, time\nopen({str(pids)!r}, 'w').write(str(os.getpid()))\ntime.sleep(600)\n"
    (tmp_path / "program.py").write_text(source)
    case = Case("sleeps", tensorflow=False)
    driver.send(request(case, str(tmp_path), BASE, BASE, ["warm"]))
    wait_until(lambda: pids.exists() and pids.read_text(), 30, "the program runs")
    pid = int(pids.read_text())
    assert not procfs.is_zombie(pid)
    server = [other for other in procfs.children(driver.pid) if other != pid]
    assert len(server) == 1
    driver.kill()
    wait_until(lambda: all(procfs.is_zombie(process) for process in (pid, *server)), 10, "both are gone")
