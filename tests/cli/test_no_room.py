"""A run directory without room: one clear error, whenever that shows, and nothing is left running."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from tests.cli.test_bad_input import ROLES, assert_refused, attempt
from tests.support import CHILDREN

pytestmark = [pytest.mark.process, pytest.mark.timeout(60), pytest.mark.slow]


def mounted(home: Path, options: str, then: str = "true", at_last: str = "ls runs") -> list[str]:
    """The words before a command that sees a small file system at `home`, which nobody else does.

    What `at_last` prints there, by default the runs in it, is at the end of stdout.
    """
    home.mkdir(exist_ok=True)
    mount = f"mount -t tmpfs -o {options} none '{home}' && cd '{home}' && {then}"
    shell = f'{mount}; cd "$OLDPWD"; "$@"; code=$?; cd "{home}"; {at_last} 2>/dev/null; exit $code'
    words = ["unshare", "--mount", "sh", "-c", shell, "sh"]
    probe = subprocess.run([*words, "mountpoint", "-q", str(home)], capture_output=True, text=True)
    if probe.returncode != 0:
        pytest.skip(f"no file system can be mounted here: {probe.stderr}")
    return words


FULL = [("ro", "true"), ("size=64k", "head -c 1000000 /dev/zero >full 2>&-")]
FULL += [(f"nr_inodes={count}", "true") for count in range(2, 14)]


@pytest.mark.parametrize(("options", "then"), FULL)
def test_a_run_directory_without_room_is_one_clear_error(options: str, then: str, home: Path) -> None:
    """Nothing is started on a file system that is full or read-only, wherever in the preparations that shows."""
    ran = attempt([ROLES], home.parent, mounted(home, options, then))
    assert_refused(ran, "Read-only file system" if options == "ro" else "No space left on device", home)
    assert len([line for line in ran.stderr.splitlines() if line.startswith("clusterkit: ")]) == 1


@pytest.mark.parametrize(("options", "then"), [*FULL[:2], *FULL[2::3], ("size=256k", "head -c 200000 /dev/zero >full")])
def test_a_run_in_the_background_without_room_is_the_same_error(options: str, then: str, home: Path) -> None:
    """Although what it prints goes to a file in that very place."""
    ran = attempt(["-d", ROLES], home.parent, mounted(home, options, then))
    assert_refused(ran, "Read-only file system" if options == "ro" else "No space left on device", home)


def test_a_run_directory_that_fills_up_ends_the_run(home: Path) -> None:
    """One clear message, exit code 1, and nothing is left running."""
    words = [str(CHILDREN / "writes.py"), "flood-20", "flood-20"]
    mount = mounted(home, "size=4m", at_last="cat runs/*/result.json; ls runs/*")
    ran = attempt(["--quiet", "--workers", "2", *words], home.parent, mount)
    assert ran.returncode == 1
    assert "could not be written: No space left on device" in ran.stdout
    assert "Traceback" not in ran.stdout + ran.stderr
    assert ran.stdout.count("Stopping every task") == 1
    result, files = json.JSONDecoder().raw_decode(ran.stdout, ran.stdout.index("{\n"))
    assert result["state"] == "failed"
    assert "No space left on device" in result["reason"]
    assert [attempt["task"] for attempt in result["attempts"]] == ["worker:0", "worker:1"]
    assert "reserve" not in ran.stdout[files:]
