"""On a terminal, the title of an epoch and the last state of its progress bar are one line."""

from __future__ import annotations

import random

import pytest

from clusterkit.views.prefixed import Epochs

COLORED = (
    "\x1b[1m16/16\x1b[0m \x1b[32m━━━━━━━━━━━━━━━━━━━━\x1b[0m\x1b[37m\x1b[0m \x1b[1m1s\x1b[0m 23ms/step - loss: 9.4383"
)


def shown(*lines: str) -> list[str]:
    """What is shown of these lines."""
    epochs = Epochs()
    return [*(line for each in lines for line in epochs.feed(each)), *epochs.drain()]


@pytest.mark.parametrize(
    ("bar", "state"),
    [
        ("16/16 ━━━━━━━━━━━━━━━━━━━━ 1s 23ms/step - loss: 9.4383", "16/16 1s 23ms/step - loss: 9.4383"),
        (" 1/16 ━━━━━━━━━━━━━━━━━━━━ 0s 62ms/step - loss: 1.6", "1/16 0s 62ms/step - loss: 1.6"),
        (COLORED, "\x1b[1m16/16\x1b[0m \x1b[1m1s\x1b[0m 23ms/step - loss: 9.4383"),
        ("8/8 [==============================] - 0s 2ms/step - loss: 5", "8/8 0s 2ms/step - loss: 5"),
        ("3/Unknown [=>....] - 0s 2ms/step - loss: 5", "3/Unknown 0s 2ms/step - loss: 5"),
    ],
    ids=["Keras 3", "unfinished", "in color", "Keras 2", "without an end"],
)
def test_an_epoch_is_a_line(bar: str, state: str) -> None:
    """A bar without a title, as evaluate draws it, is shown without its bar, too."""
    assert shown("Epoch 1/10", bar, "Epoch 2/10", bar) == [f"Epoch 1/10 {state}", f"Epoch 2/10 {state}"]
    assert [line.lstrip() for line in shown(bar)] == [state]


def test_other_lines_are_unchanged() -> None:
    """A title that no bar follows is a line of its own, also at the end of the output."""
    lines = ["Epoch 1/10", "Epoch 2/10", "5/6 of the rows", "━━━━ 3/4 ━━━━", "Epoch", "Epoch 3/10"]
    assert shown(*lines) == lines


def test_no_line_is_lost() -> None:
    """Whatever a program prints."""
    seed = random.SystemRandom().randrange(1 << 32)
    chance = random.Random(seed)
    parts = ["Epoch 1/2", "8/8 ", "━━ ", "\x1b[1m", "[=>.] ", "- ", "x"]
    for _ in range(2000):
        lines = ["".join(chance.choices(parts, k=chance.randrange(5))) for _ in range(6)]
        words = [line for line in lines if line.endswith("x")]
        assert sum(line.endswith("x") for line in shown(*lines)) == len(words), f"seed {seed}"
