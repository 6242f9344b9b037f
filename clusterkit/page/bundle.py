"""The page as one document with its styles, modules and data, which opens from disk without a server."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from collections.abc import Mapping
from posixpath import dirname, join, normpath

PAGE, MODULES = "index.html", ".js"
DATA_ID = "embedded"  # of the element with the data
_SPECIFIER = re.compile(r"""(\bfrom\s*|\bimport\s*\(?\s*)(["'])(\.{1,2}/[^"'\n]+)\2""")
_STYLE = re.compile(r'<link rel="stylesheet" href="/static/([^"]+)">')
_ICON = re.compile(r'<link rel="icon" href="/static/([^"]+)">')
_SCRIPT = re.compile(r'<script type="module" src="/static/([^"]+)"></script>')
_DATA = "<!-- data -->"  # where the data and the modules go
_OURS = "clusterkit/"  # prefix of the names by which modules import each other
_ICONS = {".svg": "image/svg+xml", ".png": "image/png"}


class Unbundled(Exception):
    """A file of the page has a reference that can't be bundled, which is a bug in the page."""


def document(files: Mapping[str, str], data: str, kind: str) -> str:
    """Return the document of the page's `files`, by path; `data` is JSON, `kind` for `marker`. Raises Unbundled."""
    scripts: list[str] = []
    styles: list[str] = []

    def style(match: re.Match[str]) -> str:
        text = _file(files, match[1]).replace("</style", "<\\/style")
        if re.search(r"@import|url\(\s*['\"]?(?!data:|#)", text):
            raise Unbundled(f"{match[1]} refers to another file.")
        styles.append(text)
        return f"<style>{text}</style>"

    def script(match: re.Match[str]) -> str:
        _file(files, match[1])
        scripts.extend((json.dumps({"imports": _modules(files)}), f'import "{_OURS}{match[1]}";'))
        return _DATA

    def icon(match: re.Match[str]) -> str:
        kind = _ICONS[match[1][match[1].rindex(".") :]]
        return f'<link rel="icon" href="{_data_url(_file(files, match[1]), kind)}">'

    page = _ICON.sub(icon, _file(files, PAGE))
    page = _SCRIPT.sub(script, _STYLE.sub(style, page))
    if len(scripts) != 2 or "/static/" in page:
        raise Unbundled(f"{PAGE} has an unknown kind of reference.")
    head, tag, rest = page.partition('<meta charset="utf-8">')
    if not tag:
        raise Unbundled(f"{PAGE} does not begin with a charset.")
    first, end, more = head.partition(">")
    policy = f'<meta http-equiv="Content-Security-Policy" content="{_policy(scripts, styles)}">'
    rest = rest.replace(
        _DATA,
        f'<script type="application/json" id="{DATA_ID}">{escaped(data)}</script>\n'
        f'<script type="importmap">{scripts[0]}</script>\n<script type="module">{scripts[1]}</script>',
    )
    return f"{first}{end}\n{marker(kind)}{more}{tag}\n{policy}{rest}"


def marker(kind: str) -> str:
    """The comment by which a report is recognized."""
    return f"<!-- clusterkit report: {kind} -->"


def escaped(data: str) -> str:
    """Return JSON that is plain text to an HTML parser within a script element."""
    return (
        data.replace("<", "\\u003c").replace(">", "\\u003e").replace("\u2028", "\\u2028").replace("\u2029", "\\u2029")
    )


def _modules(files: Mapping[str, str]) -> dict[str, str]:
    """Every module as a data URL, by the name under which others import it."""
    return {
        f"{_OURS}{name}": _data_url(_named(name, text), "text/javascript")
        for name, text in files.items()
        if name.endswith(MODULES)
    }


def _named(name: str, text: str) -> str:
    """Rewrite a module's relative imports to names, since a data URL has no directory."""

    def named(match: re.Match[str]) -> str:
        return f"{match[1]}{match[2]}{_OURS}{normpath(join(dirname(name), match[3]))}{match[2]}"

    return _SPECIFIER.sub(named, text)


def _file(files: Mapping[str, str], name: str) -> str:
    if name not in files:
        raise Unbundled(f"{name} does not exist.")
    return files[name]


def _data_url(text: str, kind: str) -> str:
    return f"data:{kind};base64,{base64.b64encode(text.encode()).decode()}"


def _policy(scripts: list[str], styles: list[str]) -> str:
    """Return a policy that allows only the document's own scripts and styles."""
    allowed, shown = " ".join(map(_hash, scripts)), " ".join(map(_hash, styles)) or "'none'"
    inside = f"script-src data: {allowed}; style-src {shown}; img-src data:"
    return f"default-src 'none'; {inside}; base-uri 'none'; form-action 'none'"


def _hash(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"
