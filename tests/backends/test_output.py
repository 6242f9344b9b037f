"""Every byte that a task writes is in its file, and the console shows whole lines, whatever the tasks write."""

from __future__ import annotations

import hashlib
import os
import pty
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from clusterkit.text.lines import LineSplitter
from clusterkit.text.printable import printable
from tests.children.writes import LINE, content
from tests.environment import clean_environment
from tests.support import CHILDREN, ROOT, Up, wait_until

pytestmark = [pytest.mark.process, pytest.mark.timeout(90), pytest.mark.slow]

Start = Callable[..., Up]
WRITES = CHILDREN / "writes.py"
BAR = " │ "
KINDS = ["plain", "long", "unended", "bars", "invalid", "nul"]


def digest(pieces: Iterator[bytes]) -> str:
    """The checksum of what a child writes."""
    total = hashlib.sha256()
    for piece in pieces:
        total.update(piece)
    return total.hexdigest()


def digest_of_log(run: Path, task: str) -> str:
    """The checksum of what arrived."""
    with (run / "tasks" / task / "attempt-1.log").open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def shown(output: str, task: str) -> list[str]:
    """A task's lines on the console."""
    lines = output.split("\n")
    return [line.partition(BAR)[2] for line in lines if line.partition(BAR)[0].rstrip() == task]


def torn(output: str, report: str = "✔ run ") -> list[str]:
    """Lines before the final report that begin with no name and bar."""
    before = output[: output.index("\n" + report) + 1]
    return [line for line in before.splitlines() if not re.match(r"(clusterkit|\w+:\d+) *│ ", line)]


def started(home: Path, *args: str | Path, stdout: int, env: dict[str, str] | None = None) -> subprocess.Popen[bytes]:
    """`clusterkit up` with its output going to a descriptor."""
    return called(home, "up", *args, stdout=stdout, env=env)


def called(home: Path, *args: str | Path, stdout: int, env: dict[str, str] | None = None) -> subprocess.Popen[bytes]:
    """A command with its output going to a descriptor."""
    return subprocess.Popen(
        [sys.executable, "-m", "clusterkit", *map(str, args)],
        stdin=subprocess.DEVNULL,
        stdout=stdout,
        stderr=subprocess.STDOUT,
        cwd=ROOT,
        env={**clean_environment(home), **(env or {})},
    )


def only_run(home: Path) -> Path:
    """The directory of the only run, once it is there."""
    run: Path = wait_until(lambda: next(iter(home.glob("runs/*")), None), 20, "a run directory")
    return run


def test_whatever_is_written_is_in_the_files(up: Start) -> None:
    """Lines of 70 KB, no newline at the end, bars, broken UTF-8, NUL bytes: the files have the very bytes."""
    run = up("--workers", str(len(KINDS)), "--all-output", WRITES, *KINDS)
    assert run.wait(30) == 0
    for index, kind in enumerate(KINDS):
        assert digest_of_log(run.run, f"worker:{index}") == digest(content(kind, index)), kind


def test_the_console_shows_whole_lines(up: Start) -> None:
    """Each has its task before it; what can't be shown is shown as a picture; of a bar the last state is shown."""
    run = up("--workers", str(len(KINDS)), WRITES, *KINDS)
    assert run.wait(30) == 0
    assert torn(run.output) == []
    for index, kind in enumerate(KINDS):
        splitter = LineSplitter()
        lines = [*splitter.feed(b"".join(content(kind, index))), *splitter.flush()]
        whole = [printable(line).rstrip() for line, is_bar in lines if not is_bar]
        assert [line for line in shown(run.output, f"worker:{index}") if not re.match(r"\d+/1000 \[", line)] == whole, (
            kind
        )
    assert "1000/1000 done" in shown(run.output, "worker:3")


@pytest.mark.timeout(180)
def test_a_hundred_megabytes_from_each_of_four_tasks_at_once(up: Start) -> None:
    """Nothing is missing in the files, no line on the console is torn, and the supervisor stays small."""
    run = up("--workers", "4", WRITES, *["flood-100"] * 4)
    directory = run.run
    assert peak_memory(run) < 200 << 10
    assert run.wait(10) == 0
    for index in range(4):
        log = directory / "tasks" / f"worker:{index}" / "attempt-1.log"
        assert log.stat().st_size == 100_000_000
        assert digest_of_log(directory, f"worker:{index}") == digest(content("flood-100", index))
        log.unlink()
    assert sum(count_whole_lines(run.output_file)) == 400_000
    run.output_file.unlink()


def peak_memory(run: Up) -> int:
    """The most kilobytes that the supervisor was seen to have, once the run is over."""
    status, peaks = Path(f"/proc/{run.supervisor}/status"), [0]

    def is_over() -> bool:
        with suppress(OSError, IndexError):
            peaks.append(int(re.findall(r"VmHWM:\s+(\d+)", status.read_text())[0]))
        return run.process.poll() is not None

    wait_until(is_over, 150, "the end of the run")
    return max(peaks)


def count_whole_lines(output: Path) -> tuple[int, int]:
    """How many lines of `flood` were shown, and how many were said to be left out; each has to be whole."""
    seen = left_out = 0
    with output.open(encoding="utf-8", errors="replace") as file:
        for line in file:
            if line.startswith("✔ run "):
                break
            name, _, text = line.partition(BAR)
            if name.startswith("worker"):
                assert re.fullmatch(rf"{name.strip()} \d{{9}} \.+\n", text), line[:200]
                assert len(text) == LINE
                seen += 1
            else:
                assert name.startswith("clusterkit"), line[:200]
                found = re.match(r"(\d+) lines are not shown", text)
                left_out += int(found.group(1)) if found else 0
    return seen, left_out


def test_a_slow_terminal_holds_nothing_up_and_is_told_what_it_missed(home: Path, tmp_path: Path) -> None:
    """The job is over before anybody reads; then whole lines come, and the count of those left out is right."""
    reading, writing = os.pipe()
    with started(home, "--workers", "4", WRITES, *["flood-20"] * 4, stdout=writing) as run:
        os.close(writing)
        journal = only_run(home) / "journal.jsonl"
        wait_until(lambda: journal.exists() and b'"Finished"' in journal.read_bytes(), 40, "the end of the job")
        with os.fdopen(reading, "rb") as pipe, (tmp_path / "seen.txt").open("wb") as seen:
            while chunk := pipe.read(1 << 16):
                seen.write(chunk)
        assert run.wait(20) == 0
    shown_lines, left_out = count_whole_lines(tmp_path / "seen.txt")
    assert left_out > 0
    assert shown_lines + left_out == 4 * 20_000
    for index in range(4):
        assert digest_of_log(only_run(home), f"worker:{index}") == digest(content("flood-20", index))


def test_a_keras_bar_is_one_line_on_the_console_and_in_the_logs(up: Start, home: Path, tmp_path: Path) -> None:
    """The file has its bytes; a traceback that follows an unfinished bar is found, and is the cause."""
    sample = ROOT / "tests" / "text" / "samples" / "keras3_fit.bin"
    program = tmp_path / "program.py"
    program.write_text(
        f"import pathlib, sys\nepoch = pathlib.Path({str(sample)!r}).read_bytes()\n"
        "sys.stdout.buffer.write(epoch + epoch.rstrip())\nsys.stdout.flush()\nraise ValueError('no more')\n"
    )
    run = up("--restart", "never", program)
    assert run.wait(20) == 1
    with called(home, "logs", "--no-color", stdout=subprocess.PIPE) as reading:
        logs = reading.communicate()[0].decode()
    for text in (run.output, logs):
        assert "␈" not in text
        assert text.count("32/32 ━━━━━━━━━━━━━━━━━━━━ 4s 64ms/step - loss: 3.9477") == 2
        assert "1/32 ━" not in text
    assert "    │ program.py:5 in <module>: raise ValueError('no more')\n    │ ValueError: no more\n" in run.output
    assert run.events("Drained")[0]["exception"] == "ValueError: no more"
    assert run.log("worker:0").startswith(sample.read_bytes())


@pytest.mark.parametrize("where", ["group", "session"])
def test_a_process_that_holds_the_output_open_does_not_hold_up_the_run(where: str, up: Start) -> None:
    """What the task left behind is killed, its output is kept, and the run ends at once."""
    run = up(CHILDREN / "holds_output.py", where)
    assert run.wait(20) == 0
    assert run.log("worker:0") == b"from the task\nfrom below\n"
    assert run.events("Swept")[0]["left"] == 1
    assert run.result["duration"] < 10


def test_a_reader_that_goes_away_does_not_stop_the_run(home: Path) -> None:
    """`clusterkit up … | head -1`: the job runs to its end, and the logs have everything."""
    reading, writing = os.pipe()
    with started(home, "--workers", "2", WRITES, "flood-5", "flood-5", stdout=writing) as run:
        os.close(writing)
        with os.fdopen(reading, "rb") as pipe:
            assert pipe.readline().startswith(b"clusterkit")
        assert run.wait(30) == 0
    assert digest_of_log(only_run(home), "worker:1") == digest(content("flood-5", 1))


def test_only_shows_the_tasks_that_are_asked_for(up: Start) -> None:
    """The files have them all."""
    run = up("--workers", "3", "--only", "worker:1", WRITES, "plain", "plain", "plain")
    assert run.wait(20) == 0
    assert shown(run.output, "worker:1") == ["worker:1 says this"]
    assert not shown(run.output, "worker:0")
    assert not shown(run.output, "worker:2")
    assert run.log("worker:2") == b"worker:2 says this\n"


def test_quiet_shows_only_the_end(up: Start) -> None:
    """No task's output, no greeting: the report is all."""
    run = up("--quiet", "--workers", "2", WRITES, "plain", "plain")
    assert run.wait(20) == 0
    assert run.output.startswith("✔ run ")
    assert run.log("worker:1") == b"worker:1 says this\n"


def test_known_noise_is_hidden_unless_it_is_asked_for(up: Start, tmp_path: Path) -> None:
    """TensorFlow's chatter is kept from the console, never from the file."""
    noise = "2026-01-01 10:00:00.000000: I tensorflow/core/util/port.cc:153] oneDNN custom operations are on."
    program = tmp_path / "program.py"
    program.write_text(f"print({noise!r})\nprint('worth it')\n")
    hidden, all_of_it = up(program), up("--all-output", "--run-id", "all", program)
    assert (hidden.wait(20), all_of_it.wait(20)) == (0, 0)
    assert shown(hidden.output, "worker:0") == ["worth it"]
    assert shown(all_of_it.output, "worker:0") == [noise, "worth it"]
    assert all_of_it.log("worker:0").decode() == f"{noise}\nworth it\n"


@pytest.mark.parametrize(
    ("flags", "env", "terminal", "colored"),
    [
        ([], {}, True, True),
        ([], {}, False, False),
        ([], {"NO_COLOR": "1"}, True, False),
        ([], {"TERM": "dumb"}, True, False),
        ([], {"FORCE_COLOR": "1"}, False, True),
        (["--no-color"], {"FORCE_COLOR": "1"}, True, False),
        (["--color"], {"NO_COLOR": "1"}, False, True),
    ],
)
def test_colors_are_for_terminals(
    flags: list[str], env: dict[str, str], terminal: bool, colored: bool, home: Path
) -> None:
    """Those of the tasks too, in `up` and in `logs`; the log has them all."""
    env = {"TERM": "xterm", "NO_COLOR": "", "FORCE_COLOR": "", "CLICOLOR_FORCE": ""} | env
    for command in (["up", "--run-id", "r", *flags, WRITES, "colored"], ["logs", "r", *flags]):
        reading, writing = pty.openpty() if terminal else os.pipe()
        with called(home, *command, stdout=writing, env=env) as run:
            os.close(writing)
            output = b"".join(iter(lambda: _read(reading), b""))  # noqa: B023 - called at once
            os.close(reading)
            assert run.wait(20) == 0
        assert b"worker:0 says this" in output
        assert (b"\x1b[35m" in output) == (re.search(rb"\x1b\[[\d;]*m", output) is not None) == colored
    assert (home / "runs/r/tasks/worker:0/attempt-1.log").read_bytes() == b"\x1b[35mworker:0 says this\x1b[0m\n"


def _read(descriptor: int) -> bytes:
    try:
        return os.read(descriptor, 1 << 16)
    except OSError:  # how Linux tells that the other end of a terminal is closed
        return b""
