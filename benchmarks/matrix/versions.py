"""What is claimed: which TensorFlow runs on which Python, and with which Keras; pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

# The newest Python that each has wheels for. clusterkit itself needs 3.11.
NEWEST_PYTHON = {
    "2.16": (3, 12),
    "2.17": (3, 12),
    "2.18": (3, 12),
    "2.19": (3, 12),
    "2.20": (3, 13),
    "2.21": (3, 13),
}
OLDEST_PYTHON = (3, 11)
Version = tuple[int, int]


@dataclass(frozen=True, slots=True)
class Combination:
    """A TensorFlow on a Python, with the Keras that pip chooses for it or with the oldest that it accepts."""

    tensorflow: str
    python: Version
    oldest_keras: bool = False

    @property
    def environment(self) -> str:
        """The directory that it is installed in, `2.16-py3.11`."""
        return f"{self.tensorflow}-py{self.python[0]}.{self.python[1]}"

    @property
    def name(self) -> str:
        """What `--only` takes, `2.16-py3.11-oldest-keras`."""
        return self.environment + "-oldest-keras" * self.oldest_keras

    @property
    def requirements(self) -> tuple[str, ...]:
        """What pip installs beside clusterkit."""
        exact = f"=={self.tensorflow}.*"
        return (f"tensorflow{exact}", f"tf_keras{exact}", f"tensorboard{exact}", "pytest", "pytest-timeout")


def combinations(pythons: Iterable[Version]) -> Iterator[Combination]:
    """All that is claimed and can be tried here; the oldest Keras once for each TensorFlow."""
    here = sorted(python for python in pythons if python >= OLDEST_PYTHON)
    for tensorflow, newest in NEWEST_PYTHON.items():
        fitting = [python for python in here if python <= newest]
        for python in fitting:
            yield Combination(tensorflow, python)
            if python == fitting[0]:
                yield Combination(tensorflow, python, oldest_keras=True)
