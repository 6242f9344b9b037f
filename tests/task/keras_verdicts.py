"""What several workers do with each feature of Keras 3's `fit`, `evaluate` and `predict`: the table of docs/keras.md.

    python -m tests.task.keras_verdicts     # writes it into the page

The cases are in tests/children/keras_cases_*.py. Each is equal to one process, unless it has a limit here.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from clusterkit.words.repairs import REPAIRS
from tests.support import CHILDREN, ROOT

PAGE = ROOT / "docs" / "keras.md"

TOLERANCE = 1e-5  # relative and absolute; measured: 4e-6. Sums of 32-bit numbers in another order
SUBJECTS = {
    "losses": "losses, reductions, weights, masks",
    "metrics": "metrics, evaluation, single batches",
    "goals": "losses, metrics and layers that look at a whole batch",
    "data": "kinds of data",
    "steps": "steps of a program's own",
    "programs": "steps as guides and papers write them",
    "optimizers": "optimizers, precision",
    "layers": "layers",
    "compiled": "options of compile and fit, callbacks",
}


@dataclass(frozen=True, slots=True)
class Limit:
    """What is different with several workers: in which numbers (all of them if none is named), and a sentence."""

    sentence: str
    numbers: tuple[str, ...] = ()
    tolerance: float = float("inf")


HALF = Limit("16-bit numbers are equal to about 1e-3, since sums in another order are rounded differently.", (), 2e-3)
APART = Limit(
    "Batch normalization that is not synchronized uses the statistics of each replica's rows, as TensorFlow intends."
)
UNKNOWN = Limit(
    "If the number of batches is unknown, one process counts one `iterations` more in each epoch than it has trained; "
    "several workers count right.",
    ("steps",),
)
LIMITS = {
    "mixed_bfloat16": HALF,
    "mixed_float16": HALF,
    "mixed_float16_where_one_row_overflows": HALF,
    "rows_of_unknown_number": UNKNOWN,
    "rows_of_a_dataset_shuffled_twice": UNKNOWN,
    "rows_of_a_generator": UNKNOWN,
    "rows_of_a_generator_dataset": UNKNOWN,
    "rows_of_sampled_datasets": UNKNOWN,
    "layer_that_samples_with_tensorflow_until_a_short_batch": Limit(
        "`tf.random.normal` and its like in a layer begin their numbers anew when a step is traced again, as for a "
        "shorter last batch; `keras.random.normal` with a `SeedGenerator` does not."
    ),
    "layer_not_synchronized": APART,
    "layer_not_synchronized_after_a_logarithm": APART,
    "rows_of_a_dataset_that_is_not_sharded": Limit(
        "A dataset with AutoShardPolicy.OFF is read by every worker, in an order of its own."
    ),
}


def cases(subject: str) -> list[str]:
    """Return the names of a subject's cases, without running the file."""
    tree = ast.parse((CHILDREN / f"keras_cases_{subject}.py").read_text())
    tables = {ast.unparse(node.targets[0]): node.value for node in tree.body if isinstance(node, ast.Assign)}
    return [name for node in tree.body for name in _named(node, tables)]


def _named(node: ast.stmt, tables: Mapping[str, ast.expr]) -> Iterator[str]:
    if isinstance(node, ast.FunctionDef) and any(ast.unparse(each) == "case" for each in node.decorator_list):
        yield node.name
    call = node.value if isinstance(node, ast.Expr) else None
    if isinstance(call, ast.Call) and ast.unparse(call.func) == "several":
        prefix = ast.literal_eval(call.args[1])
        for keyword in call.keywords:
            names = [keyword.arg] if keyword.arg else _keys(keyword.value, tables)
            yield from (f"{prefix}_{name}" for name in names)


def _keys(value: ast.expr, tables: Mapping[str, ast.expr]) -> list[str]:
    """The keys of a dict: a table of the module's by its name, or a comprehension over names."""
    if isinstance(table := tables.get(ast.unparse(value)), ast.Dict):
        return [ast.literal_eval(key) for key in table.keys if key is not None]
    assert isinstance(value, ast.DictComp)
    return list(ast.literal_eval(value.generators[0].iter))


def table() -> str:
    """Return the table of docs/keras.md."""
    rows = ["| subject | equal to one process | with a limit |", "| --- | --- | --- |"]
    for subject, title in SUBJECTS.items():
        names = cases(subject)
        limited = [name for name in names if name in LIMITS]
        equal = ", ".join(name.replace("_", " ") for name in names if name not in LIMITS)
        rows.append(f"| {title} | {equal} | {', '.join(name.replace('_', ' ') for name in limited)} |")
    return "\n".join(rows)


def patches() -> str:
    """Return the table of patches of docs/keras.md."""
    rows = ["| patch | what it changes | why a program that is right without it stays right |", "| --- | --- | --- |"]
    rows += [f"| `{name}` | {repair.change} | {repair.safe} |" for name, repair in REPAIRS.items()]
    return "\n".join(rows)


def limits() -> str:
    """Return the sentences of docs/keras.md, with the cases that they are about."""
    about: dict[str, list[str]] = {}
    for name, limit in LIMITS.items():
        about.setdefault(limit.sentence, []).append(name.replace("_", " "))
    return "\n".join(f"- {sentence} ({', '.join(names)})" for sentence, names in about.items())


def filled(page: str) -> str:
    """Return the page with the table and the limits as they are now."""
    for name, text in (("table", table()), ("limits", limits()), ("patches", patches())):
        before, mark, rest = page.partition(f"<!-- {name} keras -->\n")
        page = f"{before}{mark}{text}\n<!-- end -->{rest.partition('<!-- end -->')[2]}"
    return page


if __name__ == "__main__":
    PAGE.write_text(filled(PAGE.read_text()))
