"""The scenarios of programs that report no steps: what it costs that clusterkit counts them, and a `fit` on Ctrl-C."""

from __future__ import annotations

from pathlib import Path

from benchmarks import ours
from benchmarks.children import launched
from benchmarks.jobs import PROGRAMS, WORKLOADS
from benchmarks.scenario import Figures, Scenario
from benchmarks.training import LONG

# Steps that take some ten seconds, and the tasks that make them.
SHAPES: dict[str, tuple[int, tuple[str, ...]]] = {
    "ps": (12000, ("--workers", "2", "--ps", "1")),
    "mwms": (6000, ("--workers", "2")),
    "fit": (25000, ()),
}
UNCOUNTED = ("--progress-regex", r"^no line is like this: (\d+)$")  # in the place of what the tasks count


def counting_scenarios() -> list[Scenario]:
    """Steps a second of each shape, counted and not."""
    return [_counting(kind) for kind in SHAPES]


def fit_ending_scenario() -> Scenario:
    """Ctrl-C during a mirrored `fit`, in which TensorFlow takes SIGTERM and nothing acts on it."""
    return Scenario("fit-ending", {"clusterkit": _ended})


def _counting(kind: str) -> Scenario:
    if kind == "ps":
        return _alternating()
    return Scenario(
        f"counting-{kind}",
        {"clusterkit": lambda place: _rate(kind, place), "uncounted": lambda place: _rate(kind, place, *UNCOUNTED)},
    )


def _alternating() -> Scenario:
    """Closures, counted and not in turns in the same process."""
    uncounted: list[float] = []

    def counted(place: Path) -> Figures:
        figures = _rate("ps", place)
        uncounted.append(float((place / "rate.uncounted").read_text()))
        return figures

    return Scenario("counting-ps", {"clusterkit": counted, "uncounted": lambda _: {"rate": uncounted.pop()}})


def _rate(kind: str, place: Path, *flags: str) -> Figures:
    steps, counts = SHAPES[kind]
    argv = ours.up(*counts, *flags, PROGRAMS / "unaware.py", kind, str(steps), place / "rate")
    with launched(argv, place, LONG, ours.env(place)) as launcher:
        launcher.wait_for_exit()
    seen = ours.last_step(place)
    assert (seen > 0) is not bool(flags), f"counted {seen} steps"
    return {"rate": float((place / "rate").read_text())}


def _ended(place: Path) -> Figures:
    argv = ours.up("--workers", "2", WORKLOADS / "mwms_fit.py", "--epochs", "1000")
    with launched(argv, place, LONG, ours.env(place)) as launcher:
        launcher.wait_for(lambda: ours.last_step(place) > 0, "the first step", pause=0.1)
        asked = launcher.interrupt()
        return {"down": launcher.wait_until_gone() - asked}
