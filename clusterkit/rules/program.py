"""What a program's text says about how it trains: the strategies it makes, what it fits, saves and asks for."""

from __future__ import annotations

import ast
import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from clusterkit.rules.expressions import Mark
from clusterkit.rules.origins import ALONE, MULTI_WORKER, OURS, PARAMETER_SERVER
from clusterkit.rules.vocabulary import Words

_FIT = {"epochs", "steps_per_epoch", "validation_data", "validation_steps", "validation_split", "initial_epoch"}
_STEPS = re.compile(r"(?:keras\.optimizers\.\w+|\?)\.(?:apply|apply_gradients|minimize)|tensorflow\.GradientTape")
_SAVES = re.compile(
    r"keras\.callbacks\.ModelCheckpoint|keras\.(?:models\.|saving\.)?\w+\.(?:save|save_weights|export)"
    r"|keras\.(?:models|saving)\.save_model|tensorflow\.saved_model\.save"
    r"|tensorflow\.train\.(?:Checkpoint\.(?:save|write)|CheckpointManager)"
)
_TENSORFLOW = {"tensorflow", "keras", "tf_keras"}


@dataclass(frozen=True)  # no slots: what is asked for again and again is kept
class Program:
    """A program that was followed: the marks of the walk, and all its words."""

    marks: Sequence[Mark]
    words: Words
    is_opaque: bool  # it imports code that was not looked into

    @cached_property
    def has_tensorflow(self) -> bool:
        """Whether it imports TensorFlow or Keras itself."""
        return bool(self.words.imported & _TENSORFLOW)

    def calls(self, *names: str) -> list[Mark]:
        """The calls of these, certain ones first."""
        found = [mark for mark in self.marks if mark.name in names]
        return sorted(found, key=lambda mark: not mark.certain)

    @cached_property
    def strategies(self) -> set[str]:
        """The kinds of strategies that it makes, anywhere."""
        kinds = {MULTI_WORKER, PARAMETER_SERVER, "tensorflow.distribute.TPUStrategy", OURS, *ALONE}
        return {mark.name for mark in self.marks} & kinds

    @cached_property
    def fits(self) -> list[Mark]:
        """Calls of `fit` of a Keras model, certain ones first."""
        found = [mark for mark in self.marks if _is_fit(mark)]
        return sorted(found, key=lambda mark: not mark.certain)

    @cached_property
    def steps(self) -> list[Mark]:
        """Where it trains: fits, or takes gradients."""
        return [*self.fits, *(mark for mark in self.marks if _STEPS.fullmatch(mark.name))]

    @cached_property
    def saves(self) -> list[Mark]:
        """Where TensorFlow or Keras writes the model or a checkpoint to a path that the program gives."""
        return [mark for mark in self.marks if _SAVES.fullmatch(mark.name)]

    def says(self, pattern: str) -> bool:
        """Whether a name in it, of anything, has the pattern in it."""
        find = re.compile(pattern).search
        return any(find(name) for name in self.words.names)


def keyword(mark: Mark, name: str, position: int | None = None) -> ast.expr | None:
    """An argument of a call."""
    if not isinstance(mark.node, ast.Call):
        return None
    for word in mark.node.keywords:
        if word.arg == name:
            return word.value
    if position is not None and len(mark.node.args) > position:
        return mark.node.args[position]
    return None


def keywords(mark: Mark) -> set[str | None]:
    """The names of a call's arguments; None is among them where it has `**more`."""
    return {word.arg for word in mark.node.keywords} if isinstance(mark.node, ast.Call) else set()


def _is_fit(mark: Mark) -> bool:
    if not mark.name.endswith(".fit"):
        return False
    return mark.name.startswith("keras.") or (mark.name == "?.fit" and bool(keywords(mark) & _FIT))
