"""Regular expressions in the logs: they find lines, and one that takes forever holds nobody up."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from clusterkit.page.logbook import SEARCH_LIMIT, LogBook, Wanted
from clusterkit.page.streams import log_messages
from clusterkit.system.searching import Searcher, TooSlow
from tests.histories import job
from tests.page.histories import written
from tests.page.test_logs import Output, output, pages

pytestmark = [pytest.mark.process, pytest.mark.timeout(100)]

FOREVER = "(a+)+$"


@pytest.fixture
def searcher() -> Iterator[Searcher]:
    """One whose process is ended afterwards."""
    made = Searcher(SEARCH_LIMIT)
    yield made
    made.close()


@pytest.fixture
def slow(tmp_path: Path) -> Output:
    """A log for which FOREVER is as slow as that."""
    made = Output(written(tmp_path / "r", job(workers=1)))
    made.write("worker:0", 1, b"aaa\n" + b"a" * 100 + b"!\n")
    return made


def test_lines_are_found(tmp_path: Path, searcher: Searcher) -> None:
    """In both directions, by as many answers as it takes."""
    for seed in range(3):
        book = LogBook(output(tmp_path, seed).run, searcher)
        found = [one for one in pages(book, {}, seed, False) if one["text"].endswith("step 1")]
        for backward in (False, True):
            assert pages(book, {"grep": "st.p 1$", "regex": "1"}, seed, backward) == found


def test_any_text_is_searched(searcher: Searcher) -> None:
    """With any pattern that is one."""
    assert searcher.finds("^é.\\U0001f600$", "é\n\U0001f600") is False
    assert searcher.finds("(?s)^é.\\U0001f600$", "é\n\U0001f600") is True
    assert searcher.finds("\0", "\0" * 4096) is True


@pytest.mark.slow
def test_a_search_that_takes_forever_is_given_up(slow: Output, searcher: Searcher) -> None:
    """With a sentence, and the next one is as quick as ever."""
    book = LogBook(slow.run, searcher)
    with pytest.raises(TooSlow):
        pages(book, {"grep": FOREVER, "regex": "1"}, 0, False)
    assert [one["text"] for one in pages(book, {"grep": "^a+$", "regex": "1"}, 0, False)] == ["aaa"]


@pytest.mark.slow
def test_others_are_answered_meanwhile(slow: Output, searcher: Searcher) -> None:
    """A search does not hold up the server; who follows such lines is told that there are no more."""
    book = LogBook(slow.run, searcher)

    async def follow() -> tuple[list[str], int]:
        looks, messages = 0, list[str]()

        async def look() -> None:
            nonlocal looks
            while True:
                looks += 1
                await asyncio.sleep(0)

        looking = asyncio.create_task(look())
        async for text in log_messages(book, Wanted(grep=FOREVER, regex=True), "0"):
            messages.append(text)
        looking.cancel()
        return messages, looks

    messages, looks = asyncio.run(follow())
    assert messages[-1].startswith("event: over\n")
    assert looks > 100
