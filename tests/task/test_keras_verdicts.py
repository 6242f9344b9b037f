"""Each case of the table of docs/keras.md calls what it is named after."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support import CHILDREN
from tests.task.keras_verdicts import SUBJECTS, cases

# What a case's name says, and an identifier (or a string) that its code then has, which the file itself doesn't define.
MEANT = {
    r"\bclip": r"clip|^minimum$",
    r"clipped (gradients|by value)": r"^clip_by_value$",
    r"clipped by norm": r"^clip_by_norm$",
    r"clipped by a global norm": r"^clip_by_global_norm$",
    r"optimizer clipnorm": r"^clipnorm$",
    r"optimizer clipvalue": r"^clipvalue$",
    r"optimizer global clipnorm|clipped together": r"^global_clipnorm$",
    r"\bregulariz": r"regularizer",
    r"\bmask": r"^mask_zero$|^boolean_mask$",
    r"boolean mask": r"^boolean_mask$",
    r"\bweights\b": r"^(sample|class|loss|add)_weights?$|^WEIGHTS$",
    r"class weights": r"^class_weight$",
    r"weighted metrics": r"^weighted_metrics$",
    r"\baccumul": r"^gradient_accumulation_steps$|^assign_add$",
    r"accumulation by hand": r"^cond$",
    r"\baverag": r"^use_ema$|^reduce_mean$|^compute_average_loss$|^assign",
    r"optimizer average|accumulation averaged|schedule and average": r"^use_ema$",
    r"overwritten": r"^ema_overwrite_frequency$",
    r"average loss": r"^compute_average_loss$",
    r"\bschedule": r"^schedules$|^LearningRateScheduler$",
    r"loss scale": r"^LossScaleOptimizer$",
    r"(?<!not )synchronized": r"^synchronized$",
    r"not synchronized": r"^BatchNormalization$",
    r"dropout": r"^(?:Alpha|Gaussian)?Dropout$|^dropout$",
    r"noise": r"^GaussianNoise$",
    r"random images": r"^RandomFlip$",
    r"samples with keras|a normal number": r"^normal$",
    r"a uniform number": r"^uniform$",
    r"whole numbers": r"^randint$",
    r"\bgenerator\b": r"^yield$",
    r"generator dataset": r"^from_generator$",
    r"pydataset": r"^PyDataset$",
    r"jacobian": r"jacobian$",
    r"batch jacobian": r"^batch_jacobian$",
    r"penalty": r"^watch$",
    r"gradient of its inputs|attacks its inputs|nested tapes": r"^watch$",
    r"persistent": r"^persistent$",
    r"replicas": r"^num_replicas_in_sync$",
    r"global batch": r"^BATCH$",
    r"hardest": r"^top_k$",
    r"reversed": r"^reverse$",
    r"square root": r"^sqrt$",
    r"\bsigns\b": r"^sign$",
    r"sharpness": r"^assign_sub$",
    r"keeps variables": r"^Variable$",
    r"shares a function": r"^function$",
    r"argument of a result": r"^scale$",
    r"sums of numbers": r"^Sum$",
    r"summed": r"^sum$",
    r"ignored class": r"^ignore_class$",
    r"circles": r"^Circle$",
    r"correlation$": r"^PearsonCorrelation$|^norm$",
    r"\badapted": r"^adapt$",
    r"spectral": r"^SpectralNormalization$",
    r"attention": r"^MultiHeadAttention$",
    r"convolution": r"^Conv2D$",
    r"embedding": r"^Embedding$",
    r"sparse": r"^sparse$",
    r"\bshuffled": r"^shuffle$",
    r"validation split": r"^validation_split$",
    r"\bfiles\b": r"^TextLineDataset$",
    r"sampled": r"^sample_from_datasets$",
    r"frozen": r"^trainable$",
    r"momentum": r"^momentum$",
    r"eagerly": r"^run_eagerly$",
    r"several steps": r"^steps_per_execution$",
    r"\bjit\b": r"^jit_compile$",
    r"without scaling": r"^auto_scale_loss$",
    r"initial epoch": r"^initial_epoch$",
    r"bfloat16": r"^mixed_bfloat16$",
    r"float16": r"^mixed_b?float16$",
    r"batch at a time": r"^train_on_batch$",
    r"on a batch": r"^predict_on_batch$",
}
FILES = {subject: CHILDREN / f"keras_cases_{subject}.py" for subject in SUBJECTS}
NAMES = {name: subject for subject in SUBJECTS for name in cases(subject)}


class Source:
    """The code of a file of cases."""

    def __init__(self, text: str) -> None:
        self.tree = ast.parse(text)
        self.made: dict[str, ast.AST] = {}  # what the file's own names stand for
        for node in self.tree.body:
            if isinstance(node, ast.FunctionDef | ast.ClassDef):
                self.made[node.name] = node
            elif isinstance(node, ast.Assign):
                targets = ast.walk(node.targets[0])
                self.made.update((name.id, node.value) for name in targets if isinstance(name, ast.Name))
        own = {node.name for node in ast.walk(self.tree) if isinstance(node, ast.FunctionDef | ast.ClassDef)}
        self.own = own - set(NAMES)  # a case is called by none

    def words(self, case: str) -> set[str]:
        """The identifiers and strings of a case, with the functions, classes and tables of the file that it uses."""
        left, seen, words = list(self._begun(case)), set[int](), set[str]()
        assert left, case
        while left:
            for node in ast.walk(left.pop()):
                word = _word(node)
                if word is not None and word not in self.own:
                    words.add(word)
                used = self._used(node, case)
                if used is not None and id(used) not in seen:
                    seen.add(id(used))
                    left.append(used)
        return words

    def _begun(self, case: str) -> Iterator[ast.AST]:
        for node in self.tree.body:
            if isinstance(node, ast.FunctionDef) and node.name == case:
                yield from node.body  # without the decorator, whose name is another's
            call = node.value if isinstance(node, ast.Expr) else None
            if isinstance(call, ast.Call) and ast.unparse(call.func) == "several":
                prefix = f"{ast.literal_eval(call.args[1])}_"
                for keyword in call.keywords:
                    value = self._value(keyword, case.removeprefix(prefix)) if case.startswith(prefix) else None
                    yield from (call.args[2], value) if value is not None else ()

    def _value(self, keyword: ast.keyword, key: str) -> ast.AST | None:
        """What a keyword of `several` gives for the key, if it does."""
        if keyword.arg is not None:
            return keyword.value if keyword.arg == key else None
        if isinstance(keyword.value, ast.DictComp):
            return ast.Constant(key) if key in ast.literal_eval(keyword.value.generators[0].iter) else None
        return _entry(self.made.get(ast.unparse(keyword.value)), key)

    def _used(self, node: ast.AST, case: str) -> ast.AST | None:
        """What a name stands for: of a table that has an entry for this case, only the entry."""
        found = self.made.get(node.id) if isinstance(node, ast.Name) else None
        entries = [entry for key in _keys(found) if case.endswith(f"_{key}") and (entry := _entry(found, key))]
        return entries[-1] if entries else found


def _keys(table: ast.AST | None) -> list[str]:
    keys = table.keys if isinstance(table, ast.Dict) else []
    return sorted((key.value for key in keys if isinstance(key, ast.Constant) and isinstance(key.value, str)), key=len)


def _entry(table: ast.AST | None, key: str) -> ast.AST | None:
    pairs = zip(table.keys, table.values, strict=True) if isinstance(table, ast.Dict) else ()
    return next((value for name, value in pairs if isinstance(name, ast.Constant) and name.value == key), None)


def _word(node: ast.AST) -> str | None:
    match node:
        case ast.Name(word) | ast.Attribute(attr=word) | ast.keyword(arg=word):
            return word
        case ast.Constant(str(word)):  # a docstring is none of the words that are looked for: it has a space
            return word
        case ast.Yield() | ast.YieldFrom():
            return "yield"
    return None


def missing(source: Source, case: str) -> list[str]:
    """What the case's name says and its code does not have."""
    words, name = source.words(case), case.replace("_", " ")
    needed = [pattern for said, pattern in MEANT.items() if re.search(said, name)]
    return [pattern for pattern in needed if not any(re.search(pattern, word) for word in words if " " not in word)]


@pytest.fixture(scope="module")
def sources() -> dict[str, Source]:
    return {subject: Source(path.read_text()) for subject, path in FILES.items()}


def test_each_case_calls_what_it_is_named_after(sources: dict[str, Source]) -> None:
    """Such as clipping, a mask or a jacobian."""
    wrong = {name: lacking for name, subject in NAMES.items() if (lacking := missing(sources[subject], name))}
    assert wrong == {}


@pytest.mark.parametrize("said", MEANT)
def test_each_word_is_in_a_name(said: str) -> None:
    """No row of the table outlives its cases."""
    assert any(re.search(said, name.replace("_", " ")) for name in NAMES)


def changed(path: Path, old: str, new: str) -> Source:
    """A file of cases in which something is not done."""
    text = path.read_text()
    assert old in text
    return Source(text.replace(old, new))


@pytest.mark.parametrize(
    ("name", "old", "new"),
    [
        ("step_of_clipped_gradients", "tf.clip_by_value(each, -0.2, 0.2)", "each"),
        ("step_clipped_by_value", "tf.clip_by_value(gradient, -0.2, 0.2)", "gradient"),
        ("mask_of_words", "mask_zero=mask", "trainable=True"),
        ("optimizer_loss_scale", "optimizers.LossScaleOptimizer(optimizers.SGD(0.2), ", "optimizers.SGD(0.2, "),
        ("rows_of_a_generator", "yield X[first", "return X[first"),
        ("layer_of_words_clipped_adam", "Adam(0.01, clipnorm=0.05)", "Adam(0.01)"),
    ],
)
def test_a_case_that_does_something_else_is_found(name: str, old: str, new: str) -> None:
    """As a step of clipped gradients once clipped none."""
    assert missing(changed(FILES[NAMES[name]], old, new), name)
