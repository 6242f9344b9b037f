"""Texts of two classes: real ones if available, else generated from a seed; the output says which."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any, NamedTuple

import keras_data
import numpy as np
import numpy.typing as npt

GOOD = "wonderful moving brilliant superb delightful gripping charming clever"
BAD = "dull awful tedious clumsy shallow boring lifeless predictable"
PLAIN = "the film was with a plot and its cast that story of scene which actor one music ending screen"
CLAIMS = "shocking secret exposed miracle they banned hoax unbelievable wake"
REPORTS = "minister committee percent quarterly according officials statement budget spokesman"
NEWS = "on monday the city new plan of people said after report over year week town about for"
FIRST_WORD = 3  # as in Keras's IMDb: 0 is padding, 1 starts a text, 2 stands for a rare word


class Reviews(NamedTuple):
    """`words`: int32 [n, length], padded with 0; `labels`: int64 [n], 1 for a good review."""

    words: npt.NDArray[np.int32]
    labels: npt.NDArray[np.int64]


class Articles(NamedTuple):
    """`texts`: n articles; `labels`: int64 [n], 1 for a false article."""

    texts: list[str]
    labels: npt.NDArray[np.int64]


def imdb(strategy: Any, vocabulary: int, length: int) -> tuple[Reviews, Reviews]:
    """Load training and held-out film reviews as word indices: IMDb's if available, else generated ones."""
    real = keras_data.load("imdb", strategy, num_words=vocabulary)
    if real is not None:
        keras_data.say("IMDb's film reviews", len(real[0][1]), len(real[1][1]))
        learning, held_out = real
        return _cut(learning[0], learning[1], length), _cut(held_out[0], held_out[1], length)
    texts, labels = _generate(3000, GOOD, BAD, PLAIN, seed=2017)
    numbers = {word: FIRST_WORD + index for index, word in enumerate(f"{PLAIN} {GOOD} {BAD}".split())}
    coded = np.array([[1, *(numbers[word] for word in text.split())] for text in texts], object)
    keras_data.say("generated reviews (in place of IMDb's)", 2400, 600)
    return _cut(coded[600:], labels[600:], length), _cut(coded[:600], labels[:600], length)


def _cut(texts: Any, labels: Any, length: int) -> Reviews:
    """Cut or pad every review to `length` words; keeps its last words."""
    words = np.zeros((len(texts), length), np.int32)
    for row, text in zip(words, texts, strict=True):
        last = text[-length:]
        row[: len(last)] = last
    return Reviews(words, np.asarray(labels, np.int64))


def news(path: str | None) -> tuple[Articles, Articles]:
    """Load training and held-out articles from a CSV with the columns `text` and `label`; generate them without one."""
    if path is None:
        texts, labels = _generate(3000, CLAIMS, REPORTS, NEWS, seed=1938)
        source = "generated articles (no --csv given)"
    else:
        with Path(path).open(newline="", encoding="utf-8") as file:
            rows = [(row["text"], int(row["label"])) for row in csv.DictReader(file)]
        texts, labels, source = [text for text, _ in rows], np.array([label for _, label in rows], np.int64), path
    held_out = len(texts) // 5
    keras_data.say(source, len(texts) - held_out, held_out)
    return Articles(texts[held_out:], labels[held_out:]), Articles(texts[:held_out], labels[:held_out])


def _generate(count: int, one: str, zero: str, plain: str, seed: int) -> tuple[list[str], npt.NDArray[np.int64]]:
    """Generate texts of 20 to 60 words: about a fifth indicate the text's class, and a few the other class."""
    random = np.random.default_rng(seed)
    labels = random.integers(0, 2, count)
    texts = []
    for label in labels:
        words = [words.split() for words in (plain, *((one, zero) if label else (zero, one)))]
        kinds = random.choice(3, random.integers(20, 60), p=[0.78, 0.18, 0.04])
        texts.append(" ".join(str(random.choice(words[kind])) for kind in kinds))
    return texts, labels.astype(np.int64)
