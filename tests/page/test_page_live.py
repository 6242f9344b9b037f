"""The page of live and of finished runs, in a browser: what it shows, what can be done there, and what it survives."""

from __future__ import annotations

import os
import re
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from clusterkit.network.virtual import why_not
from tests.commands import ROLES, Clusterkit, journal, supervisor
from tests.page.browser import Browser, Served
from tests.support import CHILDREN, wait_until

pytestmark = [pytest.mark.process, pytest.mark.slow, pytest.mark.browser, pytest.mark.timeout(240)]

JOB = ("--workers", "2", "--ps", "1", "--restart-backoff", "0.1")
SAYS = CHILDREN / "says.py"
LONG = 90.0  # seconds, for a machine that has much else to do
LIVE = (*JOB, ROLES, "--steps", "100000")
Serve = Callable[..., Served]
WHY_NOT = why_not(True, False)
NETWORK = "Failed to load resource"  # a browser says that of every answer that is none


def up(ck: Clusterkit, *args: str | Path) -> Path:
    """A detached run; its directory."""
    return ck.home / "runs" / ck("up", "-d", *args, deadline=LONG).out.strip()


def steps(run: Path) -> int:
    """The newest step of a run."""
    return max((int(event["step"]) for event in journal(run, "Progressed")), default=0)


def numbers(browser: Browser) -> list[int]:
    """The numbers of the lines that the page holds, in their order there."""
    found = [re.search(r"line (\d+)\.$", line) for line in lines_of(browser)]
    return [int(match[1]) for match in found if match]


def all_button(browser: Browser) -> Any:
    """The button that shows the whole run; disabled if all of it is shown."""
    return browser.all('[aria-label="All of the run"]')[0]


def row(task: str) -> str:
    """A task's rows in the table."""
    return f'.tasks tbody[data-task="{task}"]'


def lines_of(browser: Browser) -> list[str]:
    """The text of the log's lines that are held, of which only some are in the document."""
    browser.run("const log = document.querySelector('.lines'); log.scrollTop = 0;")
    texts: list[str] = browser.run(
        """const view = document.querySelector('.lines'); const found = new Map();
        for (let top = 0; ; top += 200) {
          view.scrollTop = top;
          await new Promise((r) => requestAnimationFrame(() => requestAnimationFrame(() => requestAnimationFrame(r))));
          // A line's place is measured from the first line, since the log moves down when curves appear above it.
          const origin = view.querySelector('.space').getBoundingClientRect().top;
          for (const row of view.querySelectorAll('.row')) {
            found.set(Math.round(row.getBoundingClientRect().top - origin), row.textContent);
          }
          if (top > view.scrollHeight) break;
        }
        return [...found].sort((a, b) => a[0] - b[0]).map((one) => one[1]);"""
    )
    return texts


def test_only_who_has_the_token_sees_anything(ck: Clusterkit, serve: Serve, browser: Browser) -> None:
    """Without it there is a sentence and nothing else; with it, the list of runs leads to each run."""
    ck("up", "--workers", "1", SAYS, "2", deadline=LONG)
    served = serve()
    browser.expected.append(NETWORK)
    browser.open(f"http://127.0.0.1:{served.port}/")
    browser.wait_text("body", "token")
    assert "says.py" not in browser.text("body")
    browser.open(served.address(token="f" * 32))
    browser.wait_text("body", "token")
    browser.clear()
    browser.expected.append(r"favicon\.ico")  # of a page that was refused, which may be told late
    browser.open(served.address())
    browser.wait_text("table.list", r"succeeded\s+\S*says.py")
    assert "token" not in browser.driver.current_url  # nor in what somebody copies from there
    browser.click("table.list a")
    browser.wait_text(".pill", "succeeded")


def test_a_task_is_killed_paused_and_restarted_from_the_page(ck: Clusterkit, serve: Serve, browser: Browser) -> None:
    """Each action asks first, says what came of it, and is then seen in the tasks, the lanes and the story."""
    run = up(ck, *LIVE)
    served = serve()
    browser.open(served.address(f"/run/{run.name}"))
    browser.wait_text(row("worker:1"), "running")
    browser.wait_text(".pill", "training")
    browser.click(f"{row('worker:1')} button", "kill worker:1")
    browser.wait_text("dialog", r"Kill worker:1\?")
    browser.press("ESCAPE")
    browser.wait(lambda: not browser.all("dialog"), "the dialog is closed")
    assert not journal(run, "Exited", task="worker:1")
    browser.click(f"{row('worker:1')} button", "kill worker:1")
    browser.click("dialog button", "Kill")
    browser.wait_text(".notices", "worker:1 got SIGKILL")
    browser.wait_text(row("worker:1"), r"running · attempt 2")
    browser.wait_text(".moment", "worker:1 was killed by SIGKILL")
    browser.wait_text(".recoveries", "worker:1 was killed by SIGKILL")
    browser.run("document.querySelector('.lanes').focus()")
    browser.press("HOME", "ARROW_RIGHT", "ARROW_RIGHT")
    browser.wait_text(".lanes [role=status]", r"\d s: \w+:\d")
    browser.click(f"{row('worker:0')} button", "pause worker:0")
    browser.click("dialog button", "Pause")
    browser.wait_text(row("worker:0"), "paused")
    browser.click(f"{row('worker:0')} button", "continue worker:0")
    browser.click("dialog button", "Continue")
    browser.wait_text(row("worker:0"), "running")
    browser.click(f"{row('chief:0')} button", "stacks chief:0")
    browser.click("dialog button", "Take stacks")
    browser.wait_text(".notices pre", r"chief:0 \(attempt 1\)")


def test_faults_are_typed_and_refused_in_words(ck: Clusterkit, serve: Serve, browser: Browser) -> None:
    """A fault that makes no sense stays in its field with the reason; a good one is injected; then the run is ended."""
    run = up(ck, *LIVE)
    browser.open(serve().address(f"/run/{run.name}"))
    browser.click(".tasks .tools button", "Fault")
    browser.expected.append(f"act - {NETWORK}")
    browser.type("dialog input", "kil worker:1")
    browser.click("dialog button", "Inject")
    browser.wait_text("dialog .error", "there is no action 'kil'. Did you mean kill")
    browser.type("dialog input", "stop worker:0 for=60s")
    browser.click("dialog button", "Inject")
    browser.wait_text(row("worker:0"), "stop")
    browser.wait_text(".moment", "Fault 1: stop worker:0 for=60s")
    browser.click(".tasks .tools button", "Heal")
    browser.click("dialog button", "Heal")
    browser.wait_text(".story", "healed")
    browser.click(".tasks .tools button", "End the run")
    browser.click("dialog button", "End the run")
    browser.wait_text(".pill", "interrupted|ended|down|stopped", 30)
    assert not browser.all(".tasks button.act")


@pytest.mark.skipif(WHY_NOT is not None, reason=f"no virtual network here: {WHY_NOT}")
def test_a_worker_is_cut_off_in_the_matrix(ck: Clusterkit, serve: Serve, browser: Browser) -> None:
    """A cell cuts two tasks off from each other, and heals them."""
    run = up(ck, "--network", "virtual", *LIVE)
    browser.open(serve().address(f"/run/{run.name}"))
    browser.wait_text(row("chief:0"), "loss")
    browser.click(".matrix button", "worker:1 to ps:0:")
    browser.wait_text("dialog", "No packet passes between worker:1 and ps:0")
    browser.click("dialog button", "Inject")
    browser.wait_text(".matrix td.cut", "cut")
    browser.click(".matrix button", "worker:1 to ps:0: cut")
    browser.click("dialog button", "Heal")
    browser.wait(lambda: not browser.all(".matrix td.cut"), "nothing is cut")


def test_without_control_nothing_can_be_done(ck: Clusterkit, serve: Serve, browser: Browser) -> None:
    """There are no buttons to act with, and one line says how to have them."""
    run = up(ck, *LIVE)
    browser.open(serve(control=False).address(f"/run/{run.name}"))
    browser.wait_text(".tasks .note", "--control")
    browser.wait_text(row("worker:1"), "running")
    assert not browser.all(".tasks button.act")
    assert not browser.all(".tasks .tools button")


def test_what_a_task_writes_is_text(ck: Clusterkit, serve: Serve, browser: Browser) -> None:
    """Markup is shown and control sequences do nothing; colors are kept; lines are filtered, searched and chosen."""
    run = up(ck, "--workers", "1", SAYS, "200")
    browser.open(serve().address(f"/run/{run.name}"))
    browser.wait_text(".pill", "succeeded", 30)
    shown = browser.wait(lambda: [line for line in lines_of(browser) if "onclick" in line], "the hostile lines")
    assert "<b onclick=alert(1)>bold</b><img src=x onerror=\"document.title='pwned'\"><script>" in shown[0]
    assert "pwned" not in browser.driver.title
    assert not browser.driver.find_elements("css selector", ".rows img, .rows b, .rows script, .chips i")
    browser.type("input[aria-label^=Filter]", "/line 1?7\\./")
    browser.wait(lambda: len(lines_of(browser)) == 2, "two lines match")
    browser.expected.append(f"log.* - {NETWORK}")
    browser.type("input[aria-label^=Filter]", "/line (/")
    browser.wait_text(".log .error", "not a regular expression")
    browser.type("input[aria-label^=Filter]", "onclick")
    browser.wait(lambda: len(lines_of(browser)) == 1, "one line matches")
    browser.press(*["BACKSPACE"] * len("onclick"))
    browser.wait(lambda: len(lines_of(browser)) > 100, "all lines are back")
    browser.type("input[aria-label^=Search]", "line 42.")
    browser.press("ENTER")
    browser.wait_text(".row.now", r"line 42\.")
    assert browser.text(".row.now mark") == "line 42."
    browser.run("document.querySelector('.lines').scrollTop = 0")
    browser.wait(lambda: browser.text(".row .f1") == "red", "the color of a word")


def test_curves_follow_the_pointer_with_the_lanes(ck: Clusterkit, serve: Serve, browser: Browser) -> None:
    """The first metric and the steps are there at once, others by a click; pointing at the lanes names the values."""
    run = up(ck, "--workers", "1", SAYS, "60")
    browser.open(serve().address(f"/run/{run.name}"))
    browser.wait_text(".pill", "succeeded", 30)
    browser.wait_text(".chart strong", "loss|<i>")
    assert "<i>" in browser.text(".curves .chips")
    before = len(browser.all(".chart"))
    browser.click(".curves .chip", "<i>")
    browser.wait(lambda: len(browser.all(".chart canvas")) != before, "another chart, or one less")
    width = browser.run("return document.querySelector('.plot').clientWidth")
    browser.point(".plot", width - 10, 40)
    browser.wait_text(".chart .values time", r"at \d")
    browser.wait_text(".tip", "worker:0")
    ink = browser.run(
        """const canvas = document.querySelector('.chart canvas'); const context = canvas.getContext('2d');
        const { data } = context.getImageData(0, 0, canvas.width, canvas.height);
        let drawn = 0; for (let i = 3; i < data.length; i += 4) drawn += data[i] > 0; return drawn;"""
    )
    assert ink > 500
    browser.run("document.querySelector('.lanes').focus()")
    browser.press("HOME", "+", "+")
    browser.wait(lambda: all_button(browser).is_enabled(), "a part is shown")
    browser.press("0")
    browser.wait(lambda: not all_button(browser).is_enabled(), "all is shown")
    browser.point(".plot", width // 2, 40, click=True)
    browser.wait_text(".moment h2", "worker:0")
    browser.wait(lambda: browser.all(".row.now"), "the log is at that moment")


def test_lines_are_counted_once_while_the_log_moves(ck: Clusterkit, serve: Serve, browser: Browser) -> None:
    """Charts that appear above the log move it; what the tests read there has each line once all the same."""
    run = up(ck, "--workers", "1", SAYS, "100")
    browser.open(serve().address(f"/run/{run.name}"))
    browser.wait_text(".pill", "succeeded", 30)
    browser.wait(lambda: numbers(browser)[-1:] == [100], "the last line")
    browser.run(
        """const log = document.querySelector('section.log'); let frames = 0;
        const move = () => {
          frames += 1;
          log.style.marginTop = `${132 * (Math.floor(frames / 4) % 3)}px`;
          if (frames < 600) requestAnimationFrame(move);
        };
        move();"""
    )
    assert numbers(browser) == list(range(1, 101))


def test_a_run_ends_while_its_page_is_open(ck: Clusterkit, serve: Serve, browser: Browser) -> None:
    """The page says how it ended, follows nothing any more, and shows the last lines of the log."""
    run = up(ck, "--workers", "1", SAYS, "50", "wait")
    browser.open(serve().address(f"/run/{run.name}"))
    browser.wait_text(".pill", "training")
    browser.wait_text(".log .tools", "following")
    (run / "go").touch()
    browser.wait_text(".pill", "succeeded", 30)
    browser.wait_text(".line .text", "succeeded after")
    browser.wait_text(".rows", r"line 50\.")
    browser.wait(lambda: "follow" not in browser.text(".log .tools"), "nothing is followed")
    assert numbers(browser) == list(range(1, 51))


def test_the_supervisor_is_killed_while_the_page_is_open(ck: Clusterkit, serve: Serve, browser: Browser) -> None:
    """The page says what the guardian wrote; no task stays "running" for ever."""
    run = up(ck, *LIVE)
    browser.open(serve().address(f"/run/{run.name}"))
    browser.wait_text(row("worker:1"), "running")
    os.kill(supervisor(run), signal.SIGKILL)
    browser.wait_text(".pill", "lost", 30)
    browser.wait_text(".line .text", "was lost after .*: the supervisor was killed by SIGKILL")
    browser.wait(lambda: "running" not in browser.text(".tasks table"), "no task is running")


def test_a_page_outlives_its_server(ck: Clusterkit, serve: Serve, browser: Browser) -> None:
    """It says that it reconnects, goes on where it was, and has each line of the log once."""
    run = up(ck, "--workers", "1", SAYS, "100000")
    served = serve()
    browser.open(served.address(f"/run/{run.name}"))
    browser.wait_text(".rows", r"line \d+\.")
    browser.expected.append("stream.* - Failed to load resource|ERR_CONNECTION_REFUSED|ERR_INCOMPLETE|net::ERR_")
    served.kill()
    browser.wait_text(".banner", "Reconnecting")
    last = steps(run) + 10
    wait_until(lambda: steps(run) > last, LONG, f"step {last}")
    served.again()
    browser.wait(lambda: not browser.text(".banner").strip(), "it is connected again")
    browser.wait(lambda: numbers(browser)[-1] > last, f"line {last}")
    browser.click(".log .tools button", "follow")
    found = numbers(browser)
    assert found == list(range(found[0], found[-1] + 1))
    assert len(browser.all(".tasks tbody")) == 1
