"""Metrics over HTTP: beside a run on a port of their own, and at the dashboard, where a scraper needs the token."""

from __future__ import annotations

import http.client
import io
import socket
from collections.abc import Callable
from pathlib import Path

import pytest
from prometheus_client import Metric
from prometheus_client.openmetrics.parser import text_fd_to_metric_families as parse

from clusterkit.client.directory import RunDirectory
from clusterkit.client.store import RunStore
from tests.client.test_campaigns import RECORD as CAMPAIGN
from tests.commands import JOB, ROLES, Clusterkit, journal, wait_for
from tests.dashboard.browser import TOKEN, Served
from tests.support import wait_until

pytestmark = [pytest.mark.process, pytest.mark.slow, pytest.mark.timeout(240)]


def get(port: int, path: str = "/metrics", method: str = "GET", **headers: str) -> tuple[int, str, str]:
    """The status, the type and the text of an answer."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    try:
        connection.request(method, path, headers=headers)
        answer = connection.getresponse()
        return answer.status, answer.headers.get("content-type", ""), answer.read().decode()
    finally:
        connection.close()


def families(text: str) -> dict[str, Metric]:
    """Of a scrape."""
    return {family.name: family for family in parse(io.StringIO(text))}  # type: ignore[no-untyped-call]


def value(found: dict[str, Metric], name: str, **labels: str) -> float:
    """The one sample with these labels."""
    (sample,) = [one for one in found[name].samples if labels.items() <= one.labels.items()]
    return float(sample.value)


def port_of(run: Path) -> int:
    """Where a run serves its metrics, by its journal."""
    noted = wait_until(
        lambda: [e["text"] for e in journal(run, "Noted") if "Metrics are served" in e["text"]], 60, "the address"
    )
    return int(noted[0].rpartition(":")[2].partition("/")[0])


def test_a_run_serves_its_metrics(ck: Clusterkit) -> None:
    """With a kill, a restart and the steps; to this machine's own names, for looking only, as long as it lives."""
    run = ck.up(*JOB, "--metrics-port", "0", "--fault", "kill worker:1 @ step=5", ROLES, "--steps", "100000")
    port = port_of(run)
    wait_for(run, "RestartPlanned", 60)
    wait_until(lambda: 'cause="fault"' in get(port)[2], 60, "a restart", pause=0.2)
    status, kind, text = get(port)
    found = families(text)
    assert (status, kind.partition(";")[0]) == (200, "application/openmetrics-text")
    assert value(found, "clusterkit_restarts", task="worker:1", cause="fault") == 1
    assert value(found, "clusterkit_faults", action="kill") == 1
    assert value(found, "clusterkit_task_step", task="chief:0") >= 5
    assert value(found, "clusterkit_journal_bytes") > 0
    assert value(found, "clusterkit_run_state", clusterkit_run_state="running") == 1
    assert [get(port, Host=host)[0] for host in (f"localhost:{port}", "evil.example", "127.0.0.1")] == [200, 421, 421]
    assert [get(port, path)[0] for path in ("/", "/metrics/", "/../metrics", "/api/runs")] == [404] * 4
    assert [get(port, method=method)[0] for method in ("POST", "PUT", "DELETE", "OPTIONS")] == [405] * 4
    assert get(port, method="HEAD")[::2] == (200, "")
    with socket.create_connection(("127.0.0.1", port)) as client:
        client.sendall(b"\x00\xff" * 100 + b"\r\n\r\n")
    assert get(port)[0] == 200
    ck("down", "--kill")
    with pytest.raises(OSError, match=r".*"):
        get(port)


def test_a_port_that_is_taken_is_a_warning(ck: Clusterkit) -> None:
    """The run continues; the sentence says why there are no metrics."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = str(taken.getsockname()[1])
        run = ck.up("--metrics-port", port, ROLES, "--steps", "100000")
        said = wait_for(run, "Impaired", 60)["what"]
    assert f"There are no metrics: The metrics server can't listen on port {port}: Address already in use" in said
    wait_for(run, "Progressed", 30)
    ck("down", "--kill")
    assert "--metrics-port" in ck("up", "--metrics-port", "70000", ROLES, code=2).err


def test_a_dashboard_has_the_metrics_of_live_runs(ck: Clusterkit, serve: Callable[..., Served]) -> None:
    """For whoever has the token, as a header or in the address; and the list of campaigns."""
    file = RunStore(ck.home).campaign("chaos")
    file.make(CAMPAIGN)
    file.close()
    run = RunDirectory(ck.up(*JOB, ROLES, "--steps", "100000"))
    served = serve()
    assert get(served.port)[0] == 403
    status, _, text = get(served.port, Authorization=f"Bearer {TOKEN}")
    found = families(text)
    assert status == 200
    assert {sample.labels["run"] for sample in found["clusterkit_run"].samples} == {run.run_id}
    status, _, text = get(served.port, "/api/campaigns", Authorization=f"Bearer {TOKEN}")
    assert (status, '"campaign/chaos"' in text) == (200, True)
    status, _, text = get(served.port, "/api/campaign/chaos", Authorization=f"Bearer {TOKEN}")
    assert (status, '"of/1"' in text) == (200, True)
    for name in ("nothing", "..%2fchaos", "%2e%2e"):
        assert get(served.port, f"/api/campaign/{name}", Authorization=f"Bearer {TOKEN}")[0] == 404
    ck("down", "--kill")
