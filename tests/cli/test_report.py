"""`clusterkit report`: of runs and campaigns, live, over, lost and damaged; it overwrites reports and nothing else."""

from __future__ import annotations

import json
import os
import random
import re
import shutil
import signal
import threading
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from clusterkit.cli.commands.report import _is_other_file
from clusterkit.page.report_file import MOST_KEPT, Format, NoReport, report
from clusterkit.store.directory import RunDirectory
from clusterkit.store.store import RunStore
from clusterkit.words.errors import ClusterkitError
from tests.commands import JOB, ROLES, Clusterkit, supervisor, wait_for
from tests.page.test_bundle import Elements
from tests.page.test_bundle import check as check_page
from tests.store.test_campaigns import RECORD
from tests.support import CHILDREN, wait_until

pytestmark = [pytest.mark.process, pytest.mark.slow]
FORMATS = ("html", "md")


def data_of(page: str) -> dict[str, Any]:
    """What is embedded in a page."""
    (text,) = [body for attributes, body in Elements(page).scripts() if attributes.get("id") == "embedded"]
    found: dict[str, Any] = json.loads(text)
    return found


def check(kind: str, text: str) -> None:
    """Fail unless the report is a sound one."""
    if kind == "html":
        check_page(text)
    else:
        assert text.startswith("<!-- clusterkit report: ")


@pytest.fixture(scope="module")
def broken(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The home of a run in which a worker was killed, and the chief failed once and printed markup before."""
    home = tmp_path_factory.mktemp("report")
    ck = Clusterkit(home)
    job = (*JOB, "--env", "MY_TOKEN=hush-hush", "--fault", "kill worker:1 @ step=6", "--run-id", "broken")
    ck("up", *job, ROLES, "--fail", "chief:0:1:12:3", deadline=100)
    return home


@pytest.fixture
def copy(broken: Path, home: Path) -> Clusterkit:
    """A home of the test's own with that run."""
    shutil.copytree(broken, home, ignore=shutil.ignore_patterns("progress", "requests"))  # pipes
    return Clusterkit(home)


def test_a_run_with_a_kill_as_a_page(copy: Clusterkit, tmp_path: Path) -> None:
    """Everything is inside; no secret is."""
    path = tmp_path / "r.html"
    said = copy("report", "broken", "-o", path).out
    assert re.fullmatch(rf"Wrote {re.escape(str(path))} \(\d+ KiB\): the run broken\.\n", said)
    text = path.read_text()
    check_page(text)
    assert "hush-hush" not in text
    data, result = data_of(text), json.loads((copy.home / "runs/broken/result.json").read_text())
    entities = data["entities"]
    assert (entities["run"]["state"], entities["run"]["step"]) == ("succeeded", 20)
    assert entities["run"]["restarts"] == result["restarts"] == 2
    assert entities["attempt/chief:0/1"]["how"] == "failed"
    assert entities["attempt/worker:1/1"]["how"] == "fault"
    assert [one["fault"] for one in result["faults"]] == ["kill worker:1 @ step=6"]
    assert max(value for value in data["series"]["step/chief:0"]["v"] if value is not None) == 20
    assert {line["text"] for line in data["logs"]} >= {"chief:0 goes from step 0 to 20", "chief:0 is done"}
    assert data["config"]["left_out"] == 0
    assert path.stat().st_size < 2_000_000


def test_a_run_with_a_kill_as_markdown(copy: Clusterkit) -> None:
    """As it says on the terminal, too."""
    text = copy("report", "--format", "md", "-o", "-").out
    for part in ("## ✔ `roles.py` succeeded", "| goodput |", "`kill worker:1 @ step=6`", "`worker:1 died of it`",
                 "chief:0 exited with code 3", "clusterkit up --seed "):  # fmt: skip
        assert part in text
    assert "hush-hush" not in text
    assert "MY_TOKEN" in text


def test_a_failed_run_names_its_cause(ck: Clusterkit) -> None:
    """With its error, which ends no block."""
    program = ck.home / "fails.py"
    program.write_text("raise ValueError('so\\n```\\n<script>x</script>')\n")
    ck("up", "--restart", "never", program, code=1)
    text = ck("report", "--format", "md", "-o", "-").out
    assert "### Cause\n\n`worker:0 exited with code 1 (attempt 1)`\n\n````text\nfails.py:1 in <module>: " in text
    assert "ValueError: so\n```\n<script>x</script>\n````" in text


def test_a_live_run_and_a_lost_one(ck: Clusterkit) -> None:
    """As they are at that moment; the report of the one does not disturb it."""
    run = ck.up(*JOB, ROLES, "--steps", "100000")
    wait_for(run, "Progressed")
    for kind in FORMATS:
        check(kind, report(RunDirectory(run), Format(kind), RunStore(ck.home)))
    data = data_of(ck("report", "-o", "-").out)
    assert (data["entities"]["run"]["phase"], data["entities"]["run"]["ended"]) == ("running", None)
    assert data["now"] > 0
    os.kill(supervisor(run), signal.SIGKILL)
    assert wait_until(lambda: not ck.json("ls", "--live"), 20, "the end of the run") is True
    for kind in FORMATS:
        text = report(RunDirectory(run), Format(kind), RunStore(ck.home))
        check(kind, text)
        assert "lost" in text or "failed" in text


DAMAGED = ("journal.jsonl", "job.json", "result.json", "tasks/arrivals", "tasks/chief:0/attempt-1.log")


@pytest.mark.parametrize("damaged", DAMAGED)
def test_a_damaged_run_gives_a_report_or_one_error(copy: Clusterkit, damaged: str) -> None:
    """Of random bytes in any of its files, of an empty one, and of none."""
    seed = random.randrange(2**32)
    print(f"seed {seed}")
    store = RunStore(copy.home)
    dice, path, run = random.Random(seed), copy.home / "runs/broken" / damaged, store.run("broken")
    changed = bytearray(path.read_bytes())
    for _ in range(40):
        changed[dice.randrange(len(changed))] = dice.randrange(256)
    for content in (bytes(changed), dice.randbytes(5000), b"", b"[" * 9999, b"null", None):
        if content is None:
            path.unlink()
        else:
            path.write_bytes(content)
        for kind in FORMATS:
            with suppress(NoReport):
                check(kind, report(run, Format(kind), store))


def test_what_is_no_report_is_not_overwritten(copy: Clusterkit, tmp_path: Path) -> None:
    """A report is, of any format; anything else only by force."""
    path = tmp_path / "mine.html"
    for kind in FORMATS:
        path.write_text(report(RunStore(copy.home).run("broken"), Format(kind), RunStore(copy.home)))
        assert not _is_other_file(path)
    path.write_text("my own page")
    path.chmod(0o600)
    assert "mine.html exists, and is not a report" in copy("report", "broken", "-o", path, code=2).err
    assert path.read_text() == "my own page"
    copy("report", "broken", "-o", path, "--force")
    check_page(path.read_text())
    assert [file.name for file in tmp_path.iterdir() if file.name != "home"] == ["mine.html"]


@pytest.mark.parametrize(
    ("args", "code", "sentence"),
    [
        (("-o", ""), 2, "-o is empty. Name a file, or leave it out."),
        (("-o", "x" * 300), 2, "Cannot write xxx"),
        (("-o", "x" * 300 + "/r.html"), 2, "r.html: file name too long."),
        (("nothing",), 2, "There is no run or campaign 'nothing'"),
        (("-o", "{tmp}"), 2, "is a directory. Name a file in it"),
        (("-o", "{tmp}/gone/r.html"), 2, "There is no directory {tmp}/gone."),
        (("-o", "/proc/r.html"), 2, "Cannot write /proc/r.html: "),
        (("--format", "pdf"), 2, "'pdf' is not one of"),
        (("one", "two"), 2, "'two' is one too many"),
        (("broken", "--run", "broken"), 2, "The run is named twice"),
    ],
)
def test_what_cannot_be_is_one_error(
    copy: Clusterkit, tmp_path: Path, args: tuple[str, ...], code: int, sentence: str
) -> None:
    """And nothing is written."""
    told = copy("report", *(arg.format(tmp=tmp_path) for arg in args), code=code)
    assert sentence.format(tmp=tmp_path) in told.err
    assert told.out == ""


def test_a_pipe_is_written_to(copy: Clusterkit, tmp_path: Path) -> None:
    """Such as `>(gzip)` of a shell; what is no file can't be replaced by one."""
    pipe, got = tmp_path / "pipe", list[bytes]()
    os.mkfifo(pipe)
    reader = threading.Thread(target=lambda: got.append(pipe.read_bytes()))
    reader.start()
    copy("report", "broken", "-o", pipe)
    reader.join(20)
    check_page(got[0].decode())
    assert pipe.is_fifo()


def test_the_format_follows_from_the_file(copy: Clusterkit, tmp_path: Path) -> None:
    """Unless it is named."""
    for name, kind in (("a.md", "md"), ("a", "html")):
        copy("report", "broken", "-o", tmp_path / name)
        check(kind, (tmp_path / name).read_text())


def test_campaigns_are_reported(ck: Clusterkit) -> None:
    """By their record; one that is damaged is one error."""
    store = RunStore(ck.home)
    file = store.campaign("chaos")
    file.make(RECORD)
    file.close()
    page = ck("report", "-o", "-").out
    check_page(page)
    entities = data_of(page)["entities"]
    assert entities["campaign"]["id"] == "chaos"
    assert entities["of/1"]["replay"] == "clusterkit up x.py"
    assert "### ✘ Run 1" in report(file, Format.MARKDOWN, store)
    for text in ("{}", "", '{"campaign": "chaos"}', '{"campaign": ' * 5000):
        file.path.write_text(text)
        with pytest.raises(ClusterkitError, match="is damaged"):
            report(file, Format.HTML, store)
    assert "is damaged" in ck("report", "chaos", "-o", "-", code=2).err


@pytest.mark.slow
def test_the_report_of_a_campaign_equals_its_json(ck: Clusterkit) -> None:
    """Ten runs of a program with a planted bug; the failing ones can be looked at without their directories."""
    told = json.loads(
        ck(
            "chaos", "--json", "--runs", "10", "--seed", "1", "--parallel", "4", "--shrink", "0",
            "--actions", "kill,term", "--restart-backoff", "0.1", "--grace-period", "2s", "--workers", "2", "--ps", "1",
            CHILDREN / "mimic.py", "--steps", "40", "--every", "10", "--forget-restore", code=1, deadline=110,
        ).out
    )  # fmt: skip
    data = data_of(ck("report", told["campaign"], "-o", "-").out)
    campaign = data["entities"]["campaign"]
    assert (campaign["passed"], campaign["failed"]) == (told["passed"], told["failed"])
    assert [(one["action"], one["injected"], one["recovered"]) for one in campaign["tallies"] if not one["type"]] == [
        (row["action"], row["injected"], row["recovered"]) for row in told["actions"]
    ]
    failing = [run["run_id"] for run in told["runs"] if run["violations"]]
    assert failing
    for run in told["runs"]:
        shown = data["entities"][f"of/{run['run']}"]
        assert shown["outcome"] == ("failed" if run["violations"] else "passed")
        assert (shown["seed"], shown["seconds"], shown["replay"]) == (run["seed"], run["duration"], run["replay"])
        assert (shown["faults"], shown["violations"]) == (run["faults"], run["violations"])
        assert shown["lost"] == [one["lost"] for one in run["result"]["recoveries"] if one["lost"] is not None]
        assert shown["run"] == (run["run_id"] if run["violations"] else None)
    assert list(data["runs"]) == failing[:MOST_KEPT]
    assert all(one["entities"]["run"]["id"] == name for name, one in data["runs"].items())
