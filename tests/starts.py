"""A pytest plugin: TensorFlow's jobs behave alike whether their tasks start warm or cold, and share one warm server."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.servers import short_home
from tests.support import Command

MODES = ("warm", "cold")


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Each test of both starts with every mode."""
    if "start_mode" in metafunc.fixturenames and metafunc.definition.get_closest_marker("both_starts"):
        metafunc.parametrize("start_mode", MODES, indirect=True)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Everything cold would take `make test` too long."""
    for item in items:
        mode = getattr(item, "callspec", None) and item.callspec.params.get("start_mode")  # type: ignore[attr-defined]
        if mode == "cold":
            item.add_marker(pytest.mark.long if item.get_closest_marker("cold_too") else pytest.mark.soak)


@pytest.fixture(scope="module")
def start_mode(request: pytest.FixtureRequest) -> str:
    """How tasks start; as the user gets it by default, where a test says nothing."""
    return str(getattr(request, "param", "auto"))


@pytest.fixture(scope="session")
def warm_servers() -> Iterator[Path]:
    """The directory of a warm server with TensorFlow, which spares the tests of a process its import."""
    with short_home() as home:
        begun = Command(home, ("warm", "start"))
        assert begun.wait(120) == 0, begun.output
        yield home / "warm"
        ended = Command(home, ("warm", "stop"))
        assert ended.wait(30) == 0, ended.output


def variables(start_mode: str) -> dict[str, str]:
    """What has tasks start in this mode."""
    return {"CLUSTERKIT_UP_START": "cold"} if start_mode == "cold" else {}


def check_starts(home: Path, start_mode: str) -> None:
    """All runs started their tasks in this mode."""
    if start_mode == "auto":
        return
    for run in home.glob("runs/*"):
        events = map(json.loads, (run / "journal.jsonl").read_text().splitlines())
        assert {event["forked"] for event in events if event["event"] == "Spawned"} <= {start_mode == "warm"}
