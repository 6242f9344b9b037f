"""Formats a run for a cell, as HTML without JavaScript and as plain text.

The radio buttons of the tabs are a separate output, since the output with the content is replaced while the run is
live, which would reset the selected tab. If a front end removes styles, for example in an untrusted notebook, the
tabs appear as collapsible sections.
"""

from __future__ import annotations

import html
from collections.abc import Mapping, Sequence

from clusterkit.notebook.output import ALL, CellOutput

PLAIN_LINES = 40  # the number of output lines in the plain text

_STYLE = """
.{key} label {{ padding: 2px 10px; cursor: pointer; font-family: monospace; border-bottom: 2px solid transparent }}
.{key} input {{ display: none }}
.{key} input:checked + label {{ border-bottom-color: currentColor; font-weight: bold }}
.{key}-panes details summary {{ display: none }}
.{key}-panes details {{ display: none }}
.{key}-panes pre {{ margin: 0; max-height: 24em; overflow: auto; display: flex; flex-direction: column-reverse }}
"""
_CHOSEN = "body:has(#{key}-{number}:checked) .{key}-panes .{key}-{number} {{ display: block }}\n"


def tabs(key: str, tasks: Sequence[str]) -> Mapping[str, str]:
    """Return the tabs of a run. `key` must be unique in the notebook."""
    names = [ALL, *tasks]
    style = _STYLE.format(key=key) + "".join(_CHOSEN.format(key=key, number=number) for number in range(len(names)))
    buttons = "".join(
        f'<input type="radio" name="{key}" id="{key}-{number}"{" checked" * (number == 0)}>'
        f'<label for="{key}-{number}">{html.escape(name)}</label>'
        for number, name in enumerate(names)
    )
    return {"text/plain": " ".join(names), "text/html": f'<style>{style}</style><div class="{key}">{buttons}</div>'}


def panes(key: str, output: CellOutput, status: str) -> Mapping[str, str]:
    """Return the content of the tabs, followed by the status, if not empty, and the report."""
    names = [ALL, *output.tasks]
    shown = "".join(
        f'<details class="{key}-{number}" open><summary>{html.escape(name)}</summary>'
        f"<pre><code>{output.as_html(name)}</code></pre></details>"
        for number, name in enumerate(names)
    )
    after = [*filter(None, [status]), *output.report]
    below = "\n".join(after)
    plain = [*output.lines()[-PLAIN_LINES:], *after]
    return {
        "text/plain": "\n".join(plain),
        "text/html": f'<div class="{key}-panes">{shown}</div><pre style="margin: 1em 0 0">{html.escape(below)}</pre>',
    }
