"""Shows errors to the user: sentences on stderr, no traceback."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager

from clusterkit.cli.terminal import echo
from clusterkit.words.errors import BadJob, ClusterkitError


@contextmanager
def exit_on_error() -> Iterator[None]:
    """Turn clusterkit's own errors into messages and exit codes."""
    try:
        yield
    except BadJob as error:
        for problem in error.problems:
            echo(f"clusterkit: {problem}", err=True)
        echo("Nothing was started.", err=True)
        sys.exit(error.exit_code)
    except ClusterkitError as error:
        echo(f"clusterkit: {error}", err=True)
        sys.exit(error.exit_code)
