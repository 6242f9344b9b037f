"""Lines out of chunks, and the last exception of a log."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given, seed, settings
from hypothesis import strategies as st

from clusterkit.text import lines
from clusterkit.text.lines import LineSplitter, chained_traceback, last_exception


def split(*chunks: bytes) -> list[tuple[str, bool]]:
    """The lines of a whole stream that came in these chunks."""
    splitter = LineSplitter()
    return [line for chunk in chunks for line in splitter.feed(chunk)] + splitter.flush()


@pytest.mark.parametrize(
    ("chunks", "expected"),
    [
        ([], []),
        ([b"a\nb\n"], [("a", False), ("b", False)]),
        ([b"a", b"b", b"\n", b"c"], [("ab", False), ("c", False)]),
        ([b"\n\n"], [("", False), ("", False)]),
        ([b"a\r\nb"], [("a", False), ("b", False)]),
        ([b"a\r", b"\nb"], [("a", False), ("b", False)]),
        ([b"10%\r20%\r", b"30%\n"], [("10%", True), ("20%", True), ("30%", False)]),
        ([b"10%\r"], [("10%", True)]),
        ([b"a\r\r\nb"], [("a", True), ("", False), ("b", False)]),
        (["é".encode()[:1], "é\n".encode()[1:]], [("é", False)]),
        ([b"\xf0\x9f", b"\x98", b"\x80"], [("😀", False)]),
        ([b"\xff\n", b"\xe2\x82"], [("�", False), ("�", False)]),
        ([b"\xe2", b"\n"], [("�", False)]),
        ([b"a\x0bb\x0cc\x1cd\xc2\x85e\n"], [("a\x0bb\x0cc\x1cd\x85e", False)]),
    ],
)
def test_a_streams_lines(chunks: list[bytes], expected: list[tuple[str, bool]]) -> None:
    r"""Only \n, \r and \r\n end a line; what is no UTF-8 becomes a replacement character."""
    assert split(*chunks) == expected


PARTS = [b"\r", b"\n", b"a", b"bc", b"\xe2\x82\xac", b"\xf0", b"\x80", b"\xff", b"\xed\xa0"]
STREAMS = st.lists(st.sampled_from(PARTS)).map(b"".join)


@seed(1)
@settings(max_examples=400)
@given(STREAMS | st.binary(max_size=60), st.lists(st.integers(0, 60)), st.sampled_from([1, 3, 1 << 20]))
def test_any_chunking_gives_the_same_lines(stream: bytes, cuts: list[int], longest: int) -> None:
    """Where the pipe cut the stream can't be seen, also not in characters, in line ends or in lines without end."""
    edges = [0, *sorted(cut for cut in cuts if cut < len(stream)), len(stream)]
    chunks = [stream[a:b] for a, b in pairwise(edges)]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(lines, "LONGEST", longest)
        whole = split(stream)
        assert split(*chunks) == whole
        assert split(*(bytes([byte]) for byte in stream)) == whole
        assert all(len(line) <= longest for line, _ in whole)


@seed(1)
@given(st.lists(st.text(st.characters(exclude_characters="\r\n", exclude_categories=["Cs"]))))
def test_what_was_written_as_lines_comes_back(written: list[str]) -> None:
    """Every line whole, in order, none lost."""
    assert split("".join(f"{line}\n" for line in written).encode()) == [(line, False) for line in written]


def test_a_line_without_end_comes_in_pieces() -> None:
    """A line of several megabytes does not fill the memory, and nothing of it is lost."""
    splitter = LineSplitter()
    pieces = [line for _ in range(50) for line, _ in splitter.feed(b"x" * 70_000)]
    assert [len(piece) for piece in pieces] == [lines.LONGEST] * 3
    rest = splitter.feed(b"\nshort\n")
    assert [len(line) for line, _ in rest] == [50 * 70_000 - 3 * lines.LONGEST, 5]


TRACEBACK = ["Traceback (most recent call last):", '  File "x.py", line 1, in <module>', "    f()"]


@pytest.mark.parametrize(
    ("log", "exception"),
    [
        ([], None),
        (["all is well"], None),
        ([*TRACEBACK, "ValueError: no"], "ValueError: no"),
        ([*TRACEBACK, "KeyError: 1", "", "During handling of the above, another:", "", *TRACEBACK, "E: 2"], "E: 2"),
        ([*TRACEBACK, "KeyboardInterrupt", "bye"], "KeyboardInterrupt"),
        (TRACEBACK, None),
        ([*TRACEBACK, "W0000 00:00:1795 3 x.cc:9] in the midst", "    g()", "E: 3"], "E: 3"),
        ([*TRACEBACK, "", "a.b.C: after an empty line"], "a.b.C: after an empty line"),
        ([f"31/32 ━━━ - mae: 1.9{TRACEBACK[0]}", *TRACEBACK[1:], "KeyError: 'x'"], "KeyError: 'x'"),
        ([f"a log tells of a {TRACEBACK[0]}", "no frame", "E: 4"], None),
        ([f"  + Exception Group {TRACEBACK[0]}", '  |   File "x.py"', "  | E: 5", "    | ValueError: 1"], "E: 5"),
    ],
)
def test_the_last_exception_of_a_log(log: list[str], exception: str | None) -> None:
    """The line after the last traceback's frames, without what was printed later; a bar may stand before it."""
    assert last_exception(log) == exception


RAISED = ["Traceback (most recent call last):", '  File "child.py", line 1, in <module>', "ValueError: no rows"]
PARENT = [
    "Traceback (most recent call last):", '  File "start.py", line 9, in <module>',
    "subprocess.CalledProcessError: Command '['python', 'child.py']' returned non-zero exit status 1.",
]  # fmt: skip
OTHER = ["Traceback (most recent call last):", '  File "start.py", line 9, in <module>', "KeyError: 'loss'"]


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        (["begins", *RAISED, *PARENT], 1),
        (["begins", *RAISED, "closing the session", *PARENT], 1),
        (["begins", *RAISED, *["epoch"] * 400, *PARENT], 404),
        (["begins", *PARENT], 1),
        (["begins", *RAISED, *OTHER], 4),
        ([*RAISED, "", "During handling of the above exception, another exception occurred:", "", *OTHER, *PARENT], 0),
        ([*RAISED, *PARENT, *PARENT], 0),
        ([*OTHER, "row 1", *RAISED, *PARENT], 4),
        ([*RAISED, *PARENT, "", "During handling of the above exception, another exception occurred:", "", *OTHER], 0),
    ],
)
def test_the_traceback_of_a_child_process_is_the_cause(written: list[str], expected: int) -> None:
    """The program's own CalledProcessError says only that a process has failed."""
    assert chained_traceback(written) == expected
