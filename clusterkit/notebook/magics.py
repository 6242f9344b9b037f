"""The IPython extension: `%cluster` runs a clusterkit command, and `%%cluster` runs a cell as a cluster's program."""

from __future__ import annotations

import ast
import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from IPython.core.interactiveshell import ExecutionInfo, ExecutionResult, InteractiveShell
from IPython.core.magic import Magics, cell_magic, line_magic, magics_class

from clusterkit.api.cluster import Cluster, live, watchers
from clusterkit.api.supervisor import Temporary
from clusterkit.cli import OTHER_NAMES
from clusterkit.cli.commands.up import command as up
from clusterkit.job.spec import UNFIT_CHARACTERS
from clusterkit.notebook.display import CellDisplay, NotebookClusters, PlainDisplay
from clusterkit.notebook.running import CellFailed, CellRun, run_command
from clusterkit.store.store import RUN_ID, RunStore, new_run_id, state_dir
from clusterkit.task import call
from clusterkit.text.spelling import did_you_mean
from clusterkit.words.errors import BadJob, ClusterkitError, RunDirectoryError

WITH = "--with"


@contextmanager
def in_a_sentence() -> Iterator[None]:
    """Convert clusterkit's errors to CellFailed, which a notebook shows without a traceback."""
    try:
        yield
    except CellFailed:
        raise
    except ClusterkitError as error:
        raise CellFailed(str(error)) from None


@magics_class
class ClusterMagics(Magics):
    """The magics of clusterkit. Keeps track of the runs that each cell has started."""

    def __init__(self, shell: InteractiveShell) -> None:
        super().__init__(shell)
        self._shell = shell
        self._programs = Temporary()  # removed only when the kernel ends, since reports of failures quote the program
        self.clusters = NotebookClusters()
        self._cell, self._known = "", set(live)
        self._left: dict[str, list[Callable[[], None]]] = {}  # maps a cell to functions that end the runs of the cell

    def before(self, info: ExecutionInfo) -> None:
        """End the runs that the previous execution of a cell left running. Called before a cell is executed."""
        self._cell = info.cell_id or str(info.raw_cell)
        self._known = set(live)
        self.clusters.waited.clear()
        for end in self._left.pop(self._cell, []):
            end()

    def after(self, result: ExecutionResult) -> None:
        """Store which clusters a cell left running. Called after a cell was executed.

        If the cell was interrupted, end the clusters for which it was waiting.
        """
        if isinstance(result.error_in_exec, KeyboardInterrupt):
            for cluster in self.clusters.waited:
                _end_cluster(cluster)
        for cluster in live - self._known:
            self._left.setdefault(self._cell, []).append(partial(_end_cluster, cluster))

    @line_magic("cluster")  # type: ignore[arg-type]
    def command(self, line: str) -> None:
        """Run a clusterkit command, as in a terminal: `%cluster ps`. `%cluster` alone lists the commands."""
        with in_a_sentence():
            words = words_of(line)
            if words and OTHER_NAMES.get(words[0], words[0]) == "up":
                self._up(words[1:])
            else:
                run_command(words or ["--help"])

    @cell_magic("cluster")  # type: ignore[arg-type]
    def cell(self, line: str, cell: str) -> None:
        """Run this cell as a cluster, in new processes: `%%cluster --workers 2 --ps 1`.

        The options are those of `clusterkit up`. `--with model_fn,data` passes the values that these names have in the
        notebook to the program. The program's arguments follow `--`.
        """
        with in_a_sentence():
            self._up(self._words_for(cell, cell_line(line)))

    def _words_for(self, cell: str, asked: CellLine) -> list[str]:
        """Write the cell's program to a file; return the arguments for `up`."""
        if given := up.make_context("up", [*asked.options], resilient_parsing=True).params.get("program"):
            raise BadJob([f"The cell is the program, so {given[0]!r} can't be one. Its arguments stand after `--`."])
        file = self._programs.path / f"cell-{len(self._shell.user_ns['In']) - 1}.py"
        pickled = file.with_suffix(".pkl") if asked.names else None
        if pickled is not None:
            hidden = self._shell.user_ns_hidden
            known = {name: value for name, value in self._shell.user_ns.items() if name not in hidden}
            pickle_values(asked.names, known, pickled)
        file.write_text(source(cell, [str(Path.cwd())], pickled), errors="surrogatepass")
        return [*asked.options, "--", str(file), *asked.args]

    def _up(self, words: Sequence[str]) -> None:
        params = up.make_context("up", [*words], resilient_parsing=True).params
        run_id = params.get("run_id") or new_run_id()
        if not RUN_ID.fullmatch(run_id):
            raise BadJob([f"--run-id {run_id!r} can't be the name of a run."])
        if RunStore().run(run_id).path.exists() and not params.get("continues"):
            raise RunDirectoryError(f"A run {run_id} already exists. Choose another --run-id, or omit it.")
        words = ["up", *(() if params.get("run_id") else ("--run-id", run_id)), "--no-color", *words]
        detached = bool(params.get("detach"))
        run = CellRun(words, run_id, state_dir(), detached)
        run.wait(PlainDisplay() if detached else CellDisplay(run_id))
        if detached:
            self._left.setdefault(self._cell, []).append(partial(_end_run, run))


def _end_run(run: CellRun) -> None:
    if run.run.is_live():
        run_command(["down", run.run.run_id])


def _end_cluster(cluster: Cluster) -> None:
    if cluster.running:
        cluster.stop()
        print(f"The run {cluster.run_id} was stopped.")


def load_ipython_extension(shell: InteractiveShell) -> None:
    """Register the magics, unless they are already registered."""
    if ClusterMagics.__name__ in shell.magics_manager.registry:
        return
    magics = ClusterMagics(shell)
    shell.register_magics(magics)
    watchers.append(magics.clusters.show)
    shell.events.register("pre_run_cell", magics.before)
    shell.events.register("post_run_cell", magics.after)


@dataclass(frozen=True, slots=True)
class CellLine:
    """The parsed line of `%%cluster`: options of `up`, names to pass from the notebook, and the program's arguments."""

    options: Sequence[str]
    names: Sequence[str] = ()
    args: Sequence[str] = ()


def words_of(line: str) -> list[str]:
    """Split a line into words, as a shell does. Raises BadJob."""
    if UNFIT_CHARACTERS.search(line):
        raise BadJob(["The line of the magic has a NUL character or half a character in it."])
    try:
        return shlex.split(line)
    except ValueError as error:
        raise BadJob([f"The line of the magic can't be split into words: {error}."]) from None


def cell_line(line: str) -> CellLine:
    """Parse the line of `%%cluster`. Raises BadJob."""
    options, names = list[str](), list[str]()
    words = iter(words_of(line))
    for word in words:
        if word == "--":
            break
        if word == WITH:
            names += next(words, "").split(",")
        elif word.startswith(f"{WITH}="):
            names += word.partition("=")[2].split(",")
        else:
            options.append(word)
    if wrong := [name for name in names if not name.isidentifier()]:
        raise BadJob([f"{WITH} {name!r}: it has to be a name, such as {WITH} model_fn,data" for name in wrong])
    return CellLine(options, tuple(dict.fromkeys(names)), tuple(words))


def pickle_values(names: Sequence[str], known: Mapping[str, Any], file: Path) -> None:
    """Pickle the values that these names have in the notebook. Raises BadJob, with a sentence for each problem."""
    problems, values = list[str](), {}
    for name in names:
        if name not in known:
            own = [one for one in known if not one.startswith("_")]
            problems.append(f"{WITH} {name}: the notebook has no such name. {did_you_mean(name, own, 'It has')}")
            continue
        try:
            call.dumps(known[name])
            values[name] = known[name]
        except Exception as error:
            problems.append(f"{WITH} {name}: it can't be pickled: {type(error).__name__}: {error}")
    if problems:
        raise BadJob(problems)
    file.write_bytes(call.dumps(values))  # pickled together, so that values still share objects afterwards


def source(cell: str, path: Sequence[str], pickled: Path | None) -> str:
    """Return the program. Its first line replaces the line of the magic, so that line numbers are those of the cell.

    `path` replaces the file's directory at the start of `sys.path`. `pickled` is the file of the notebook's values.
    """
    future, rest = _without_future(cell)
    first = [*future, "import sys", f"sys.path[:1] = {list(path)!r}"]
    if pickled is not None:
        loaded = f"__import__('pickle').loads(__import__('pathlib').Path({str(pickled)!r}).read_bytes())"
        first.append(f"globals().update({loaded})")
    return "; ".join([*first, "del sys"]) + "\n" + rest


def _without_future(cell: str) -> tuple[list[str], str]:
    """Return the cell's `from __future__` statements, which must come first, and the cell without them."""
    try:
        nodes = [node for node in ast.parse(cell).body if isinstance(node, ast.ImportFrom)]
    except (SyntaxError, ValueError):
        return [], cell  # Python will report the error
    lines = [*map(str.encode, cell.split("\n"))]  # columns are counted in bytes
    statements = [node for node in nodes if node.module == "__future__" and node.level == 0]
    for node in reversed(statements):
        last = node.end_lineno or node.lineno
        after = lines[last - 1][node.end_col_offset :]
        lines[node.lineno - 1 : last] = [
            lines[node.lineno - 1][: node.col_offset] + b"pass" + after,
            *[b""] * (last - node.lineno),
        ]
    return [*map(ast.unparse, statements)], b"\n".join(lines).decode()
