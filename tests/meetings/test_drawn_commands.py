"""Commands in any order against one run of real tiny tasks: whatever they meet, the run stays true."""

from __future__ import annotations

import os
import random
import secrets
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field

import pytest

from clusterkit.ledger.takeover import result_of
from clusterkit.store.directory import RunDirectory
from clusterkit.system.sweep import kill_until_gone
from tests.commands import Answer, Clusterkit
from tests.support import CHILDREN, ROOT, processes_of, wait_until

pytestmark = [pytest.mark.process, pytest.mark.slow, pytest.mark.timeout(300)]

PROGRAM = (str(CHILDREN / "counts_on.py"), "400")
COMMANDS = 9  # in each drawn sequence
SOAK = 60  # sequences
OPTIONS = (
    (),
    ("--restart-backoff", "3s"),
    ("--stall-timeout", "3s", "--stall-warning", "1s"),
    ("--grace-period", "0.5"),
    ("--restart", "never"),
    ("--watch",),
)
ENDS = {0: "succeeded", 1: "failed", 124: "timed out", 75: "suspended", 130: "stopped", 143: "stopped", 129: "stopped"}


@dataclass
class Sequence:
    """One run, its `up`, and what was done to it."""

    ck: Clusterkit
    seed: int
    done: list[str] = field(default_factory=list)
    up: subprocess.Popen[str] | None = None
    count: int = 0  # the highest count that was saved; it is kept unless somebody forces it away

    def __post_init__(self) -> None:
        self.draw = random.Random(self.seed)
        self.workers = ("--workers", str(self.draw.randint(1, 2)))
        self.options = self.draw.choice(OPTIONS)
        self.run = RunDirectory(self.ck.home / "runs" / "x")
        self.say(f"up {self.options} {self.workers}")

    def say(self, what: str) -> None:
        self.done.append(what)

    def begin(self) -> None:
        """`up`, or `up --continue`; its tasks have begun, or it is over."""
        words = ["up", "--run-id", "x", "--continue", *self.workers, *self.options, *PROGRAM]
        log = self.ck.home / f"up-{len(self.done)}.txt"
        with log.open("wb") as file:
            self.up = subprocess.Popen(
                [sys.executable, "-m", "clusterkit", *words],
                stdin=subprocess.DEVNULL, stdout=file, stderr=file, text=True, cwd=ROOT, env=self.ck.environment(),
            )  # fmt: skip
        wait_until(lambda: self.up_is_over or self.run.is_live(), 30, "a live run, or the end of `up`")

    @property
    def up_is_over(self) -> bool:
        return self.up is None or self.up.poll() is not None

    def act(self) -> None:
        """Draw a command, carry it out, and check everything."""
        acts: dict[str, Callable[[], object]] = {
            "rm": lambda: self.remove("rm", "x"),
            "rm--force": lambda: self.remove("rm", "--force", "x"),
            "prune": lambda: self.remove("prune", "--older-than", "0s"),
            "reap": lambda: self.ask("reap"),
            "read": self.read,
            "pause": lambda: self.ask("pause", "x", self.target()),
            "unpause": lambda: self.ask("unpause", "x", self.target()),
            "restart": lambda: self.ask("restart", "--no-wait", "x", self.target()),
            "kill": lambda: self.ask("kill", "-s", self.draw.choice(("KILL", "TERM", "STOP", "CONT")), "x", "worker:0"),
            "fault": lambda: self.ask("fault", "x", self.draw.choice(("kill worker:0", "stop worker:0"))),
            "heal": lambda: self.ask("fault", "--heal", "x"),
            "down": lambda: self.ask("down", *self.draw.choice(((), ("--kill",))), "x"),
            "continue": self.continue_it,
            "resume": self.resume_from_it,
            "signal": self.signal_up,
            "lose": self.lose,
        }
        weights = {"rm--force": 0.3, "down": 0.5, "lose": 0.7}
        names = list(acts)
        (name,) = self.draw.choices(names, [weights.get(name, 1.0) for name in names])
        self.say(name)
        acts[name]()
        if name == "rm--force" and not self.run.path.exists():
            self.count = 0
        self.draw_time()
        self.check()

    def draw_time(self) -> None:
        time.sleep(self.draw.choice((0.0, 0.1, 0.5, 1.0)))  # what happens meanwhile is the subject

    def target(self) -> str:
        return self.draw.choice(("worker:0", "all", "worker"))

    def ask(self, *words: str) -> Answer:
        """A command whose answer may be a refusal, but one in words."""
        answer = self.ck.anyhow(*words, deadline=60)
        self.say(f"  {' '.join(words)} -> {answer.code} {answer.err.strip()[:200]}")
        assert answer.code in (0, 1, 2), answer
        assert answer.code == 0 or answer.err.strip(), "a refusal without a word"
        return answer

    def remove(self, *words: str) -> None:
        """What removes runs: a live run and, unless forced, one that can be continued stay."""
        live = self.run.is_live()
        result = None if live else result_of(self.run)
        wanted = live or (self.run.path.exists() and (result is None or not result.final))
        self.ask(*words)
        if live or (wanted and "--force" not in words):
            assert self.run.journal.exists(), f"{words} removed what may still be wanted"

    def read(self) -> None:
        """Each door that reads answers, and they agree about a run that is over."""
        if not self.run.path.exists():
            assert self.ask("show", "x").code == 2
            return
        for words in (("ps", "x"), ("show", "x"), ("logs", "x", "-n", "3"), ("ls",), ("compare", "x")):
            self.ask(*words)
        self.ask("explain", "x")

    def continue_it(self) -> None:
        """A second `up --continue` of a live run is refused; any other continues, begins, or says how it ended."""
        if self.up_is_over:
            self.begin()
            return
        words = ("up", "--run-id", "x", "--continue", *self.workers, *self.options, *PROGRAM)
        if self.run.is_live():
            answer = self.ck.anyhow(*words, deadline=60)
            assert answer.code in (1, 2, *ENDS), answer  # it may have ended meanwhile

    def resume_from_it(self) -> None:
        """Another run from its checkpoints: only where it is over, and has one."""
        words = ("up", "-q", "--resume", "x", *self.workers, str(CHILDREN / "counts_on.py"), "1")
        live = self.run.is_live()
        answer = self.ck.anyhow(*words, deadline=60)
        self.say(f"  resume -> {answer.code} {answer.err.strip()[:200]}")
        assert answer.code in (0, 2) or live, answer

    def signal_up(self) -> None:
        if self.up is not None and not self.up_is_over:
            number = self.draw.choice((signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGUSR1))
            self.say(f"  {number.name}")
            self.up.send_signal(number)

    def lose(self) -> None:
        """The supervisor dies; the guardian ends what it has left."""
        info = self.run.info()
        if info is not None and self.run.is_live():
            with suppress(ProcessLookupError):
                os.kill(info.pid, signal.SIGKILL)
            wait_until(lambda: self.up_is_over, 30, "the guardian's end")

    def check(self) -> None:
        """What holds after each command."""
        if self.up_is_over:
            wait_until(lambda: not processes_of(self.ck.home), 20, "the end of every process")
        saved = [int(file.read_text()) for file in self.run.checkpoints.glob("count-*-?")]
        assert min(saved, default=0) >= 0
        newest = max(saved, default=0)
        assert newest >= self.count or not self.run.path.exists(), "steps that were saved are lost"
        self.count = newest
        if not self.up_is_over or not self.run.path.exists() or self.up is None:
            return
        self.check_end()

    def check_end(self) -> None:
        """Exit code, result, journal, `ls`, `ps` and `wait` agree about the end."""
        result = result_of(self.run)
        if result is None:
            return
        state = "lost" if result.lost else ENDS.get(result.exit_code, "succeeded")
        assert result.word == state
        (row,) = [row for row in self.ck.json("ls") if row["run_id"] == "x"]
        assert (row["state"], row["restarts"]) == (state, result.restarts)
        assert self.ck.json("ps", "x")["state"] == state
        waited = self.ck.json("wait", "x", code=result.exit_code)
        assert (waited["state"], waited["exit_code"]) == (state, result.exit_code)

    def end(self) -> None:
        """End what is live: nothing stays."""
        if self.run.is_live():
            self.ask("down", "--kill", "x")
        if self.up is not None:
            self.up.wait(30)
        self.check()

    def kill(self) -> None:
        if self.up is not None and self.up.poll() is None:
            self.up.kill()
            self.up.wait(10)
        kill_until_gone(lambda: list(processes_of(self.ck.home)))


def play(ck: Clusterkit, seed: int) -> None:
    """Draw a sequence to its end. A failure names the seed and what was drawn."""
    sequence = Sequence(ck, seed)
    try:
        sequence.begin()
        sequence.draw_time()
        for _ in range(COMMANDS):
            sequence.act()
        sequence.end()
    except Exception as error:
        sequence.kill()
        story = "\n".join(sequence.done)
        raise AssertionError(f"seed {seed}: {error!r}\n{story}") from error


@pytest.mark.parametrize("seed", range(3))
def test_commands_in_any_order(ck: Clusterkit, seed: int) -> None:
    """What may still be wanted is kept, every refusal has words, all doors agree about the end, and nothing stays."""
    play(ck, seed)


@pytest.mark.soak
@pytest.mark.parametrize("number", range(SOAK))
def test_many_more_of_them(ck: Clusterkit, number: int) -> None:
    """From seeds that nobody has seen."""
    seed = secrets.randbits(32)
    print(f"seed {seed}")
    play(ck, seed)
