"""Pure modules of the page in node, where there is one: Python users need none."""

from __future__ import annotations

import json
import shutil
import subprocess

import pytest

from tests.page.test_page_palette import STATIC

NODE = shutil.which("node")
pytestmark = pytest.mark.skipif(NODE is None, reason="node is not installed")


def answer(script: str) -> object:
    """What a script logs, which imports the page's modules by name."""
    assert NODE is not None
    command = [NODE, "--input-type=module", "--eval", f"const at = {json.dumps(STATIC.as_uri())};\n{script}"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_the_states_of_a_connection() -> None:
    """What is shown is known while the server answers; each other state says how to go on."""
    found = answer(
        """globalThis.location = { port: "8090" };
        const { Connection, STATES } = await import(`${at}/connection.js`);
        const says = (state, run) => {
          const one = new Connection();
          one.become(state);
          return [one.known, one.says(run)];
        };
        console.log(JSON.stringify({
          known: Object.keys(STATES).filter((state) => says(state, null)[0]).sort(),
          live: says("gone", { id: "r", phase: "running" })[1], over: says("gone", { id: "r", phase: "over" })[1],
          other: says("unknown", null)[1], fine: says("connected", null)[1] }));"""
    )
    assert isinstance(found, dict)
    assert found["known"] == ["connected", "embedded", "over", "reconnecting"]
    assert "`clusterkit ps r` tells" in found["live"]
    assert "clusterkit dashboard --port 8090 r" in found["live"]
    assert found["over"].endswith("The run is over: `clusterkit dashboard r` opens it again.")
    assert "has told it nothing" in found["other"]
    assert found["fine"] == ""


def test_sizes_are_those_of_the_terminal() -> None:
    """The same numbers with the same units."""
    from clusterkit.views.tables import size

    sizes = [0, 1, 999, 1000, 1023, 1024, 10_239, 10_240, 1_023_000, 690 << 20, 9 << 20, 5 << 30, 5000 << 30]
    script = f"const {{ bytes }} = await import(`${{at}}/format.js`); console.log(JSON.stringify({sizes}.map(bytes)));"
    assert answer(script) == [size(one) for one in sizes]
