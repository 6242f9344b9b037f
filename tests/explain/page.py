"""Makes docs/what-went-wrong.md from the table of explanations: `python -m tests.explain.page`."""

from __future__ import annotations

import re
from collections.abc import Iterator
from types import ModuleType

from clusterkit.explain.row import Row
from clusterkit.explain.table import FILES
from clusterkit.views.explanations import address
from tests.support import ROOT

PAGE = ROOT / "docs/what-went-wrong.md"
HEAD = """\
# What went wrong? Errors of distributed TensorFlow and Keras, and what to do

Each heading is an error message of TensorFlow, Keras or clusterkit or, if there is no message, a symptom. Below the
heading are the reason and what to do. After a failed run, the final report shows the entry that matches the failure.
`clusterkit explain` finds the matching entry for any log:

```sh
clusterkit explain                        # the last run
clusterkit explain job.log
kubectl logs --prefix -l job-name=train | clusterkit explain -
```

In place of "…", the report names your task, line or value. For what TensorFlow does when a task dies, see
[What TensorFlow does when a task fails](tensorflow-failures.md). Everything else is in
[Troubleshooting](troubleshooting.md). This page is made from the table in `clusterkit/explain/` by
`python -m tests.explain.page`.
"""
NAMES = {"task": "the task", "line": "a line of the program"}


def page() -> str:
    """The text of the page."""
    return "\n".join([HEAD, *(part for module in FILES for part in _section(module))])


def sentence(text: str) -> str:
    """A sentence of a row with what each of its names stands for in general."""
    filled = re.sub(r"\{(\w+)\}", lambda name: NAMES.get(name[1], "…"), text.replace("{{", "\0").replace("}}", "\1"))
    filled = filled.replace("\0", "{").replace("\1", "}")
    return filled[0].upper() + filled[1:] if text.startswith("{") else filled  # other lower-case words are code


def _section(module: ModuleType) -> Iterator[str]:
    rows: tuple[Row, ...] = module.ROWS
    if rows:
        subject = str(module.__doc__).removeprefix("Rows about ").partition("\n")[0].rstrip(".")
        yield f"## {subject[0].upper()}{subject[1:]}\n"
    for row in rows:
        yield f"### {_code(row.title)}\n"
        yield f"{sentence(row.means)}\n"
        seen = ", ".join(f"[{thread}]({address(thread)})" for thread in row.reported)
        yield f"**What to do:** {sentence(row.advice)}{f' Reported as {seen}.' if seen else ''}\n"


def _code(text: str) -> str:
    return f"`` {text} ``" if "`" in text else f"`{text}`"


if __name__ == "__main__":
    PAGE.write_text(page())
