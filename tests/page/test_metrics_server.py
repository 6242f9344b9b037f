"""Metrics over HTTP: of one run at the page beside it, and of all at the dashboard. A scraper needs the token."""

from __future__ import annotations

import http.client
import io
import socket
from collections.abc import Callable
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from prometheus_client import Metric
from prometheus_client.openmetrics.parser import text_fd_to_metric_families as parse

from clusterkit.store.directory import RunDirectory
from clusterkit.store.store import RunStore
from tests.commands import JOB, ROLES, Clusterkit, wait_for
from tests.page.browser import TOKEN, Served
from tests.store.test_campaigns import RECORD as CAMPAIGN
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


def page_of(run: Path) -> tuple[int, dict[str, str]]:
    """The port of the page beside a run, and the header with its token."""
    wait_for(run, "DashboardReady", 60)
    address = urlsplit((run / "dashboard").read_text().strip())
    assert address.port
    return address.port, {"Authorization": f"Bearer {address.fragment.partition('=')[2]}"}


def test_the_page_beside_a_run_has_its_metrics(ck: Clusterkit) -> None:
    """With a kill, a restart and the steps; for looking only, as long as it lives."""
    run = ck.up(*JOB, "--dashboard", "--fault", "kill worker:1 @ step=5", ROLES, "--steps", "100000")
    port, token = page_of(run)
    wait_for(run, "RestartPlanned", 60)
    wait_until(lambda: 'cause="fault"' in get(port, **token)[2], 60, "a restart", pause=0.2)
    status, kind, text = get(port, **token)
    found = families(text)
    assert (status, kind.partition(";")[0]) == (200, "application/openmetrics-text")
    assert value(found, "clusterkit_restarts", task="worker:1", cause="fault") == 1
    assert value(found, "clusterkit_faults", action="kill") == 1
    assert value(found, "clusterkit_task_step", task="chief:0") >= 5
    assert value(found, "clusterkit_journal_bytes") > 0
    assert value(found, "clusterkit_run_state", clusterkit_run_state="running") == 1
    hosts = (f"localhost:{port}", "evil.example", "127.0.0.1")
    assert [get(port, Host=host, **token)[0] for host in hosts] == [200, 421, 421]
    assert [get(port, method=method, **token)[0] for method in ("PUT", "DELETE", "OPTIONS")] == [403] * 3
    assert get(port, method="HEAD", **token)[::2] == (200, "")
    with socket.create_connection(("127.0.0.1", port)) as client:
        client.sendall(b"\x00\xff" * 100 + b"\r\n\r\n")
    assert get(port, **token)[0] == 200
    ck("down", "--kill")
    with pytest.raises(OSError, match=r".*"):
        get(port, **token)


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
