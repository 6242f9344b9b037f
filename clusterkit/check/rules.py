"""The rules of `clusterkit check`: one entry each, with what it finds and which tracebacks that explains."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from clusterkit.check.findings import Finding, Location
from clusterkit.check.source import Source
from clusterkit.words.job import JobSpec, TfConfig
from clusterkit.words.model import Shape, TaskType

MULTI_WORKER = "tensorflow.distribute.MultiWorkerMirroredStrategy"
PARAMETER_SERVER = "tensorflow.distribute.ParameterServerStrategy"
OURS = "clusterkit.training.strategy"  # makes one that fits the job
ALONE = {f"tensorflow.distribute.{name}Strategy" for name in ("Mirrored", "OneDevice", "CentralStorage")}
_STRATEGIES = {MULTI_WORKER, PARAMETER_SERVER, OURS, "tensorflow.distribute.TPUStrategy", *ALONE}
_SERVER = "tensorflow.distribute.Server"
_ASKS = re.compile(r"(?i)TF_CONFIG|CLUSTERKIT|SLURM|task|role|rank|horovod")  # of a program that looks at its cluster
_SAVED = re.compile(r".*\.(?:keras|h5)")
# Of Keras 3; those of Keras 2 know of several workers.
_WRITES = {"keras.callbacks.ModelCheckpoint": "filepath", "keras.callbacks.BackupAndRestore": "backup_dir"}

# Calls that initialize TensorFlow's context, each tried on TensorFlow 2.21; those of Keras only in Keras 3.
_INITIALIZES = re.compile(
    r"tensorflow\.(?:constant|Variable|zeros|ones|fill|eye|range|linspace|cast|convert_to_tensor|identity|reshape|stack"
    r"|concat|expand_dims|squeeze|transpose|matmul|one_hot|print|(?:math\.)?reduce_\w+|random\.(?:normal|uniform"
    r"|truncated_normal|shuffle|get_global_generator|stateless_\w+|Generator\.\w+)|data\.(?:TFRecord|TextLine)Dataset"
    r"|data\.Dataset\.(?:range|list_files|zip|counter|random|from_\w+)|config\.(?:experimental\.)?list_logical_devices"
    r"|distribute\.(?:MultiWorker)?MirroredStrategy|distribute\.OneDeviceStrategy|summary\.create_file_writer)"
    r"|keras\.(?:optimizers\.(?!schedules)[A-Z]\w+|metrics\.(?!Metric\b)[A-Z]\w+)"
)


class Hides(NamedTuple):
    """A file beside the program that is imported instead of something else: `random.py`, Python's own `random`."""

    file: str
    module: str
    whose: str


class Hit(NamedTuple):
    """Where a rule applies, and the word that its `explains` has in the place of `{0}`."""

    place: Location
    what: str
    advice: str
    word: str = ""


class Case(NamedTuple):
    """A program, its own modules after it, and its job.

    `strict` leaves out what a run may not reach: what is in a branch, say. After a failure, it was reached.
    """

    sources: Sequence[Source]
    job: JobSpec
    keras: int = 3  # the major version that `tf.keras` is
    hides: Sequence[Hides] = ()
    strict: bool = True

    @property
    def tasks(self) -> str:
        """`a chief, 2 workers and 1 ps`, for sentences."""
        counts = {kind: count for kind, count in self.job.counts.items() if count and kind is not TaskType.EVALUATOR}
        plural = {kind: "s" * (kind is TaskType.WORKER and count > 1) for kind, count in counts.items()}
        words = ["a chief" if kind is TaskType.CHIEF else f"{n} {kind}{plural[kind]}" for kind, n in counts.items()]
        return " and ".join(filter(None, [", ".join(words[:-1]), words[-1]]))

    def calls(self, *names: str) -> Iterator[tuple[Source, str, ast.Call]]:
        """The calls of these."""
        for source in self.sources:
            for name, call in source.calls():
                if name in names and self.applies(source, call):
                    yield source, name, call

    def applies(self, source: Source, node: ast.AST) -> bool:
        """Whether every run comes to the node; after a failure any node will do."""
        main, names = self.sources[0], (source.module, f".{source.module}")
        imported = source is main or any(main.is_sure(each) for each in main.nodes if _imports(each, names))
        return not self.strict or (imported and source.is_sure(node))

    def names(self, wanted: set[str]) -> set[str]:
        """Those of these that the program names."""
        return {source.dotted(node) for source in self.sources for node in source.nodes} & wanted


def hides_module(case: Case) -> Iterator[Hit]:
    """A file that is imported instead of a package."""
    for file, module, whose in case.hides:
        what = f"This file hides {whose} {module} from everything that the tasks import, TensorFlow included."
        yield Hit(Location(file, 1), what, "Rename it.", module)


def tf_config(case: Case) -> Iterator[Hit]:
    """The cluster that the task was told of is replaced by one that is written in the program."""
    if case.job.tf_config is TfConfig.OURS:
        return
    writes = [(source, node) for source in case.sources for node in source.nodes if _writes_tf_config(source, node)]
    texts = [source.fixed(getattr(node, "value", None)) for source, node in writes]
    if len(case.job.cluster) > 1 and all(found and any("cluster" in text for text in found) for found in texts):
        for source, node in writes:
            if case.applies(source, node):
                what = f"TF_CONFIG is overwritten with the same value in each of the {len(case.job.cluster)} tasks."
                advice = "clusterkit has set it in every task; with --tf-config ours the program's own is ignored."
                yield Hit(source.place(node), what, advice)


def strategy_too_late(case: Case) -> Iterator[Hit]:
    """MultiWorkerMirroredStrategy after something that initialized TensorFlow."""
    for source, name, call in case.calls(MULTI_WORKER, OURS) if case.job.shape is Shape.MULTI_WORKER else ():
        lines = [
            source.place(node).line
            for node in source.before(call)
            if isinstance(node, ast.Call)
            and _INITIALIZES.fullmatch(called := source.dotted(node.func))
            and (case.keras == 3 or not called.startswith("keras."))
        ]
        if (lines or not case.strict) and not (name == OURS and call.args):
            when = f"after line {min(lines)} has initialized TensorFlow" if lines else "when TensorFlow is initialized"
            what = f"The strategy is made {when}, and with {case.tasks} it has to come first."
            advice = "Make it before tensors, variables, datasets, optimizers and other strategies."
            yield Hit(source.place(call), what, advice)


def wrong_strategy(case: Case) -> Iterator[Hit]:
    """The only strategy of the program is one for another job."""
    kinds, is_ps = case.names(_STRATEGIES), case.job.shape is Shape.PARAMETER_SERVER
    for source, name, call in case.calls(*kinds) if len(kinds) == 1 else ():
        short = name.rpartition(".")[2]
        if name == PARAMETER_SERVER and not is_ps and not case.names({_SERVER}):  # of a cluster of its own
            what, advice = f"{short} needs parameter servers, and the job is {case.tasks}.", "Add --ps 1."
        elif name == MULTI_WORKER and is_ps:
            what = f"{short} can't be made in a parameter server, and the job is {case.tasks}."
            advice = "Leave out --ps, or use ParameterServerStrategy."
        elif name in ALONE and len(case.job.cluster) > 1 and not any(map(_asks, case.sources)):
            what = f"{short} is for the devices of one process: each of the tasks ({case.tasks}) trains on its own."
            advice = "Use MultiWorkerMirroredStrategy, or start one worker."
        else:
            continue
        yield Hit(source.place(call), what, advice)


def shared_file(case: Case) -> Iterator[Hit]:
    """One path that every worker writes to."""
    if case.job.shape is not Shape.MULTI_WORKER or not case.names({MULTI_WORKER, OURS}) or case.names({"os.chdir"}):
        return
    for source in case.sources:
        for name, call in source.calls():
            named = (word.value for word in call.keywords if word.arg == _WRITES.get(name, "filepath"))
            path = next((texts[0] for value in (*call.args[:1], *named) if (texts := source.fixed(value))), "")
            saves = getattr(call.func, "attr", "") in ("save", "save_weights") and _SAVED.fullmatch(path)
            if path and (saves or (name in _WRITES and case.keras == 3)) and case.applies(source, call):
                what = f"Every task ({case.tasks}) writes to {path} at the same time."
                advice = "Give each task a path of its own, or use clusterkit.training.Checkpointer or Backup."
                yield Hit(source.place(call), what, advice, path)


class Rule(NamedTuple):
    """What it finds; `explains` is a pattern of a traceback, with the hit's word in the place of `{0}`."""

    id: str
    find: Callable[[Case], Iterator[Hit]]
    explains: str


RULES = (
    Rule("hides-module", hides_module, r"module '{0}['.]|from (?:partially initialized module )?'{0}'|named '{0}\.|"
         r'File "(?:[^"]*/)?{0}(?:/__init__)?\.py"'),
    Rule("tf-config-overwritten", tf_config, "Could not start gRPC server|[Aa]ddress already in use|opened no port"),
    Rule("strategy-too-late", strategy_too_late, "Collective ops must be configured at program startup"),
    Rule("wrong-strategy", wrong_strategy, "no id for task_type|at least one ps"),
    Rule("shared-file", shared_file, "{0}|unable to (?:synchronously )?lock file"),
)  # fmt: skip


def check(case: Case) -> list[Finding]:
    """What the rules find."""
    return [
        Finding(rule.id, hit.place, hit.what, hit.advice, rule.explains.format(re.escape(hit.word)))
        for rule in RULES
        for hit in rule.find(case)
    ]


def _imports(node: ast.AST, names: Sequence[str]) -> bool:
    match node:
        case ast.Import(names=aliases):
            return any(alias.name in names for alias in aliases)
        case ast.ImportFrom(module=module, names=aliases, level=level):
            base = f"{'.' * bool(level)}{module or ''}"
            return base in names or any(f"{base.removesuffix('.')}.{alias.name}" in names for alias in aliases)
    return False


def _writes_tf_config(source: Source, node: ast.AST) -> bool:
    match node:
        case ast.Assign(targets=[ast.Subscript(value=place, slice=ast.Constant(value="TF_CONFIG"))]):
            return source.dotted(place) == "os.environ"
    return False


def _asks(source: Source) -> bool:
    """Whether the file says anything from which it may know which task it is."""
    said = (getattr(node, field, "") for node in source.nodes for field in ("value", "id", "attr", "name", "module"))
    return any(isinstance(word, str) and _ASKS.search(word) for word in said)
