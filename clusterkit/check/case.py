"""Types for the rules of `clusterkit check`: a rule takes a `Case`, and yields a `Hit` for each likely mistake."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple, Protocol

from clusterkit.check.findings import Location, Severity
from clusterkit.check.source import Source
from clusterkit.text.spelling import listed
from clusterkit.words.job import Convention, JobSpec, RestartScope
from clusterkit.words.model import Shape, TaskType

MULTI_WORKER = "tensorflow.distribute.MultiWorkerMirroredStrategy"
PARAMETER_SERVER = "tensorflow.distribute.ParameterServerStrategy"
OUR_STRATEGY = "clusterkit.training.strategy"  # the function that returns a strategy for the job


class HidingFile(NamedTuple):
    """A file that shadows a module, as `random.py` hides Python's own `random`.

    `kind` is the text before the module's name in messages, such as `the package`.
    """

    file: str
    module: str
    kind: str


class Hit(NamedTuple):
    """A place where a rule found a likely mistake.

    `word` is the subject of the mistake, such as the module that a file shadows.
    """

    location: Location
    what: str
    advice: str
    word: str = ""
    severity: Severity = Severity.WARNING


class Environment(Protocol):
    """What the interpreter of the tasks can import, beside the modules of the program itself."""

    @property
    def interpreter(self) -> str:
        """The path of the interpreter."""

    def has_module(self, name: str) -> bool:
        """Return whether a top-level module can be imported, from the environment or as one of the program's own."""

    def is_package(self, name: str) -> bool:
        """Return whether the environment has this package, and the program has no module of the same name."""

    def missing_part(self, name: str, keras: int) -> str:
        """Return the first part of a full name that its package does not define; "" if it exists, or if nobody knows.

        For `tensorflow.contrib.slim`, the result is `tensorflow.contrib`. `keras` is the major version of `tf.keras`.
        """

    def version(self, package: str) -> str:
        """Return the version of a package; "" if it is unknown."""


class Case(NamedTuple):
    """A program that the rules check, and the program's job. In `sources`, the program's own file comes first.

    If `strict` is True, the rules ignore code that a run may not reach, such as code in branches. When a failure has
    to be explained, `strict` is False, since the failed code may be in a branch. `environment` is None if the packages
    of the tasks' interpreter are unknown.
    """

    sources: Sequence[Source]
    job: JobSpec
    keras: int = 3  # the major version of `tf.keras`
    hiding_files: Sequence[HidingFile] = ()
    strict: bool = True
    environment: Environment | None = None

    @property
    def tasks(self) -> str:
        """Return the tasks as text for messages, such as `a chief, 2 workers and 1 ps`."""
        counts = {kind: count for kind, count in self.job.counts.items() if count and kind is not TaskType.EVALUATOR}
        plural = {kind: "s" * (kind is TaskType.WORKER and count > 1) for kind, count in counts.items()}
        words = ["a chief" if kind is TaskType.CHIEF else f"{n} {kind}{plural[kind]}" for kind, n in counts.items()]
        return listed(words)

    @property
    def is_distributed(self) -> bool:
        """Return whether the job's tasks are expected to train together, connected by TensorFlow."""
        apart = self.job.restart.scope is RestartScope.TASK or self.job.convention is not Convention.TENSORFLOW
        return self.job.shape is not Shape.SINGLE and not apart

    @property
    def joins(self) -> bool:
        """Return whether the job is distributed and no code mentions TF_CONFIG.

        If so, the program's strategy certainly joins the job's cluster.
        """
        return self.is_distributed and not any(source.mentions(re.compile("TF_CONFIG")) for source in self.sources)

    def severity(self, is_certain: bool = True) -> Severity:
        """Return ERROR for code that certainly fails in every run, and WARNING for other code."""
        return Severity.ERROR if self.strict and is_certain else Severity.WARNING

    def fits(self) -> Iterator[tuple[Source, ast.Call]]:
        """Yield the calls of `fit` on Keras models, which are the objects that the program also compiles."""
        for source in self.sources:
            for call in source.model_calls("fit"):
                if self.applies(source, call):
                    yield source, call

    def calls(self, *names: str) -> Iterator[tuple[Source, str, ast.Call]]:
        """Yield those calls of the named functions and classes to which the rules apply."""
        for source in self.sources:
            for name, call in source.calls():
                if name in names and self.applies(source, call):
                    yield source, name, call

    def applies(self, source: Source, node: ast.AST) -> bool:
        """Return whether the rules apply to a node: either `strict` is False, or every run evaluates the node."""
        main, names = self.sources[0], (source.module, f".{source.module}")
        imported = source is main or any(main.is_certain(each) for each in main.nodes if _imports(each, names))
        return not self.strict or (imported and source.is_certain(node))

    def names(self, wanted: set[str]) -> set[str]:
        """Return the wanted names that the program uses."""
        return {source.dotted(node) for source in self.sources for node in source.nodes} & wanted


def _imports(node: ast.AST, names: Sequence[str]) -> bool:
    match node:
        case ast.Import(names=aliases):
            return any(alias.name in names for alias in aliases)
        case ast.ImportFrom(module=module, names=aliases, level=level):
            base = f"{'.' * bool(level)}{module or ''}"
            return base in names or any(f"{base.removesuffix('.')}.{alias.name}" in names for alias in aliases)
    return False
