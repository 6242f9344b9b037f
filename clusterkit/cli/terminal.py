"""Prints all output of commands, including errors, without control characters that would act on the terminal."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import click

from clusterkit.cli.help import option
from clusterkit.text.printable import at_words, printable_lines
from clusterkit.views.screen import COLORS_HELP, has_terminal, wants_color
from clusterkit.views.screen import is_screen as is_screen
from clusterkit.words.errors import BadJob, ClusterkitError
from clusterkit.words.model import number_of

HOME, CLEAR_TO_THE_RIGHT, CLEAR_BELOW = "\x1b[H", "\x1b[K", "\x1b[J"

color_in = partial(option, "--color/--no-color", default=None, help=COLORS_HELP, show_default="colors on a terminal")
color_option = color_in()


def _size() -> os.terminal_size:
    import shutil  # imported late: importing shutil takes as long as importing the rest of this module

    return shutil.get_terminal_size()


def echo(text: Any, err: bool = False, nl: bool = True, color: bool = False) -> None:
    """Print text; if `color` is True, keep the colors in the text.

    Newlines are printed as they are, so callers have to remove newlines from untrusted parts of the text.
    """
    click.echo(printable_lines(str(text), color), err=err, nl=nl, color=True)  # color=True: click keeps escapes


def shown_address(address: str, file: Path | None) -> str:
    """Return what to print for the address of a dashboard, whose token must not get into logs or other programs' input.

    Only on a terminal, this is the address with its token. Elsewhere it is the address without, and the private `file`
    that has the whole address. Raises ClusterkitError if there is no such file.
    """
    if sys.stdout.isatty():
        return address
    if file is None:
        raise ClusterkitError(
            "The address of the dashboard has a token. It is printed on a terminal only, and can't be written to a "
            "file in the state directory."
        )
    return f"{without_token(address)} (with its token: {file})"


def without_token(address: str) -> str:
    """Return the address of a dashboard without its token, which is in the fragment."""
    return address.partition("#")[0]


def echo_json(value: Any) -> None:
    """Print a JSON document, indented for human readers."""
    echo(json.dumps(value, indent=2))


def say(text: Any) -> None:
    """Print a message from clusterkit to standard error. On a terminal, wrap it between words."""
    width = _size().columns if sys.stderr.isatty() else None
    for line in f"clusterkit: {text}".splitlines():
        echo(at_words(line, width), err=True)


def write_as_it_is(data: bytes) -> None:
    """Write a document, which must not contain control characters, to standard output without changes."""
    sys.stdout.flush()
    sys.stdout.buffer.write(data)
    sys.stdout.buffer.flush()


def clear_screen() -> None:
    """Clear the screen if standard output is a terminal."""
    if is_screen(sys.stdout):
        click.echo(f"{HOME}\x1b[2J", nl=False, color=True)


def terminal_width() -> int | None:
    """Return the width of the terminal in columns; None if standard output is not a terminal."""
    return _size().columns if sys.stdout.isatty() else None


def show_frame(text: str) -> None:
    """Overwrite the screen with text, without erasing the screen first, which would flicker."""
    if not is_screen(sys.stdout):
        echo(text)
        return
    lines = printable_lines(text).split("\n")
    room = _size().lines - 1
    if len(lines) > room:
        shown = max(room - 1, 1)
        lines[shown:] = [f"… and {number_of('more line', len(lines) - shown)}"]
    frame = "".join(f"{line}{CLEAR_TO_THE_RIGHT}\n" for line in lines)
    click.echo(f"{HOME}{frame}{CLEAR_BELOW}", nl=False, color=True)


def can_ask() -> bool:
    """Return whether a user can be asked, that is, whether standard input and standard error are terminals."""
    return sys.stdin is not None and sys.stdin.isatty() and is_screen(sys.stderr)


def status_group(quiet: bool) -> int | None:
    """Return the id of this process group if the group can show a status line on standard output, else None."""
    group = os.getpgrp()
    return group if not quiet and is_screen(sys.stdout) and has_terminal(sys.stdout.fileno(), group) else None


def use_color(asked: bool | None, detached: bool = False) -> bool:
    """Return whether to print colors; `asked` is the value of --color or --no-color."""
    return wants_color(asked, os.environ, sys.stdout.isatty() and not detached)


@contextmanager
def exit_on_error() -> Iterator[None]:
    """Turn clusterkit's errors into messages and exit codes."""
    try:
        yield
    except BadJob as error:
        for problem in error.problems:
            say(problem)
        echo("Nothing was started.", err=True)
        sys.exit(error.exit_code)
    except ClusterkitError as error:
        say(error)
        sys.exit(error.exit_code)
