"""README.md and docs/: every command parses, every option exists, every link resolves, every page can be found."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from functools import cache
from itertools import pairwise
from pathlib import Path

import click
import pytest

import clusterkit
from clusterkit import api, training
from clusterkit.cli import COMMANDS as COMMANDS_OF_CLUSTERKIT
from clusterkit.cli import cli
from clusterkit.cli.options import PROBLEMS
from clusterkit.store import control
from clusterkit.words import events
from clusterkit.words.grammar import parse_fault
from tests.support import ROOT
from tests.task import keras_verdicts

DOCS = ROOT / "docs"
PAGES = [
    ROOT / "README.md",
    ROOT / "CONTRIBUTING.md",
    ROOT / "CHANGELOG.md",
    ROOT / "workloads/README.md",
    *sorted(DOCS.glob("*.md")),
]
FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.M | re.S)
INDENTED = re.compile(r"^    (clusterkit .*?)(?: {2,}#.*)?$", re.M)
CODE = re.compile(r"(?<!`)`([^`\n]+)`(?!`)")
LINK = re.compile(r"\[[^\]]+\]\(([^)\s]+)\)")
PLACEHOLDERS = ("…", "[", "{")  # of a command that is described, not shown
LONGEST_README = 220


def name_of(page: Path) -> str:
    """`docs/faults.md`."""
    return str(page.relative_to(ROOT))


def prose(text: str) -> str:
    """A page without its blocks."""
    return FENCE.sub("", text)


def shown(text: str) -> Iterator[str]:
    """The commands of a page: after a prompt, in a shell block, or indented."""
    for language, body in FENCE.findall(text):
        joined = body.replace("\\\n", " ")
        prompt = {"console": r"\$ ", "sh": ""}.get(language)
        if prompt is not None:
            yield from re.findall(rf"^{prompt}(clusterkit .*?)(?: {{2,}}#.*)?$", joined, re.M)
    yield from INDENTED.findall(prose(text))


def inline(text: str) -> Iterator[str]:
    """The pieces of code within sentences and tables."""
    yield from CODE.findall(prose(text))


COMMANDS = [(name_of(page), line) for page in PAGES for line in shown(page.read_text())]
MENTIONS = [
    (name_of(page), code) for page in PAGES for code in inline(page.read_text()) if code.startswith("clusterkit ")
]


def find(words: list[str]) -> tuple[click.Command, list[str]]:
    """The command that words name, and what comes after its name."""
    found: click.Command = cli
    while isinstance(found, click.Group) and words:
        group, name = found, words[0]
        if name.startswith("-"):
            break
        command = group.get_command(click.Context(group), name)
        assert command is not None, f"there is no command {name}"
        found, words = command, words[1:]
    return found, words


# Of sbatch, srun, scancel and squeue, on the pages on Slurm.
SLURM = {
    "--no-kill",
    "--requeue",
    "--no-requeue",
    "--open-mode",
    "--kill-on-bad-exit",
    "--cpus-per-task",
    "--signal",
    "--full",
}


def options_of(command: click.Command) -> set[str]:
    """Every option of a command, and of its subcommands."""
    names = {"--help", *(name for param in command.params for name in (*param.opts, *param.secondary_opts))}
    if isinstance(command, click.Group):
        context = click.Context(command)
        found = [command.get_command(context, name) for name in command.list_commands(context)]
        names = names.union(*(options_of(sub) for sub in found if sub is not None))
    return names


@cache
def known_options() -> frozenset[str]:
    """The options of clusterkit, of its pytest plugin, and of the programs that come with it."""
    doors = [ROOT / "clusterkit/pytest_plugin.py", ROOT / "clusterkit/notebook/magics.py"]
    programs = [*(ROOT / "workloads").glob("*.py"), *doors]
    theirs = {name for path in programs for name in re.findall(r'"--([\w-]+)"', path.read_text())}
    return frozenset(options_of(cli) | {f"--{prefix}{name}" for name in theirs for prefix in ("", "no-")})


@pytest.mark.parametrize(("page", "line"), COMMANDS)
def test_a_command_that_is_shown_parses(page: str, line: str) -> None:
    """Its name, options, arguments and faults are such as the command takes."""
    command, words = find(shlex.split(line)[1:])
    if "--help" in words or "--version" in words:
        return
    context = command.make_context(command.name, list(words))
    assert context.meta.get(PROBLEMS, {}) == {}
    for word, before in zip(words, ["", *words], strict=False):
        if before == "--fault" or (command.name == "fault" and " " in word):
            parse_fault(word)


@pytest.mark.parametrize(("page", "code"), MENTIONS)
def test_a_command_that_is_mentioned_exists(page: str, code: str) -> None:
    """With the options that stand beside it."""
    words = code.replace("[", " ").replace("]", " ").split()[1:]
    command, rest = find([word for word in words if not word.startswith(PLACEHOLDERS)])
    named = {word.partition("=")[0] for word in rest if word.startswith("--")}
    assert named <= (options_of(command) if command.name != "up" else known_options())


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_an_option_that_is_mentioned_exists(page: Path) -> None:
    """A page that names an option which was renamed or removed is out of date."""
    named = {option for code in inline(page.read_text()) for option in re.findall(r"^--[a-z][\w-]*", code)}
    assert named <= known_options() | (SLURM if "slurm" in page.stem else set())


def anchors_of(path: Path) -> set[str]:
    """The anchors of a page's headings, as GitHub makes them."""
    headings = re.findall(r"^#+ (.+)$", prose(path.read_text()), re.M)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_links_resolve(page: Path) -> None:
    """Each relative link names a file, and each anchor a heading of that file."""
    broken = []
    for link in LINK.findall(prose(page.read_text())):
        if re.match(r"https?://", link):
            continue
        name, _, anchor = link.partition("#")
        target = (page.parent / name).resolve() if name else page
        if not target.exists() or (anchor and anchor not in anchors_of(target)):
            broken.append(link)
    assert broken == []


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_what_commands_print_is_a_real_runs(page: Path) -> None:
    """Each console block is one that `make docs` runs."""
    lines = page.read_text().splitlines()
    above = [before for before, line in pairwise(lines) if line == "```console"]
    assert [line for line in above if not line.startswith("<!-- run")] == []


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_a_page_has_no_path_of_the_machine_that_made_it(page: Path) -> None:
    """`make docs` leaves out the directories in which it ran."""
    assert re.findall(r"/(?:root|home|tmp)/.*", page.read_text()) == []


@pytest.mark.parametrize(
    ("page", "names"),
    [
        ("commands.md", list(COMMANDS_OF_CLUSTERKIT)),
        ("training.md", training.__all__),
        ("python.md", [name for name in clusterkit.__all__ if name != "__version__"]),
    ],
)
def test_a_reference_is_complete(page: str, names: list[str]) -> None:
    """It has every command, every name of the training library, every name of the API."""
    code = " ".join(inline((DOCS / page).read_text()))
    assert [name for name in names if not re.search(rf"\b{name}\b", code)] == []


def test_the_python_page_names_what_exists() -> None:
    """Classes, exceptions and events that were renamed or removed are out of date."""
    names = {name for code in inline((DOCS / "python.md").read_text()) for name in re.findall(r"^[A-Z][a-z]\w+$", code)}
    modules = (clusterkit, api, events, control)
    assert {name for name in names if not any(hasattr(module, name) for module in modules)} == {"TimeoutError"}


def test_the_rows_of_tensorflows_failures_are_its_tests() -> None:
    """The last column has the name of each test, and of no other."""
    rows = re.findall(r"\| ([^|]*) \|$", (DOCS / "tensorflow-failures.md").read_text(), re.M)
    named = {
        name.partition("[")[0] for row in rows for name in CODE.findall(row) if name.startswith(("ps_job", "gang"))
    }
    tests = (ROOT / "tests/e2e/test_tensorflow_facts.py").read_text()
    assert named == set(re.findall(r"^def test_(\w+)", tests, re.M))


def test_the_table_of_keras_is_that_of_its_tests() -> None:
    """Every case of tests/children/keras_cases_*.py, and the limits that the comparison allows."""
    assert keras_verdicts.filled(keras_verdicts.PAGE.read_text()) == keras_verdicts.PAGE.read_text()


def test_the_readme_is_short() -> None:
    """What does not fit goes to docs/."""
    assert len((ROOT / "README.md").read_text().splitlines()) <= LONGEST_README


def test_the_index_links_every_page() -> None:
    """Also those that are not linked from elsewhere."""
    linked = {link.partition("#")[0] for link in LINK.findall((DOCS / "index.md").read_text())}
    assert {page.name for page in DOCS.glob("*.md")} - {"index.md"} <= linked
