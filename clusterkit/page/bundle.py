"""Bundles the page's modules into one script, and the page's styles into one sheet. Embeds both in a document."""

from __future__ import annotations

import base64
import hashlib
import html
import re
from collections.abc import Mapping
from graphlib import CycleError, TopologicalSorter

PAGE, MODULES = "index.html", ".js"
AHEAD = "ahead.js"  # the module that runs before the other modules are loaded
STYLES = ("palette.css", "vendor/uPlot.min.css", "page.css", "sections.css")
DATA_ID = "embedded"  # the id of the HTML element that contains a document's data
_IMPORT = re.compile(r"^import (\w+|\{[^}]+\}) from \"\./([^\"]+)\";$", re.M)
_LATER = re.compile(r"\bimport\(\"\./([^\"]+)\"\)")  # matches imports of modules that are loaded only when needed
_EXPORT = re.compile(r"^export (?=(?:async function\*?|function|class|const) (\w+))", re.M)
_DEFAULT = re.compile(r"^export \{ (\w+) as default \};$", re.M)
# Matches comments that have lines of their own, which are a sixth of the page's modules.
_COMMENT = re.compile(r"^[ ]*(?://[^\n]*|/\*\*(?:(?!\*/).)*\*/)\n", re.M | re.S)
VENDORED = "vendor/"
_STYLE = re.compile(r'<link rel="stylesheet" href="/static/([^"]+)">')
_ICON = re.compile(r'<link rel="icon" href="/static/([^"]+\.svg)">')
_SCRIPT = re.compile(r'<script type="module" src="/static/([^"]+)"></script>')
_FIRST = '<script src="/static/first.js"></script>\n'  # left out of documents, which have no server
_NO_SCRIPT = re.compile(r"<noscript>.*?</noscript>", re.S)
_DATA = "<!-- data -->"  # the placeholder for the data and the modules


class Unbundled(Exception):
    """A file of the page has a reference that can't be bundled. This is a bug in the page."""


def bundled(files: Mapping[str, str]) -> dict[str, str]:
    """Return the files and three additional files: bundle.js, bundle.css and first.js. Raises Unbundled."""
    modules = {name: text for name, text in files.items() if name.endswith(MODULES)}
    needed = {name: [found[2] for found in _IMPORT.finditer(text)] for name, text in modules.items()}
    later = {found[1] for text in modules.values() for found in _LATER.finditer(text)}
    at_once = {name for names in needed.values() for name in names}
    if wrong := sorted(name for name in later if needed.get(name) or name in at_once):
        raise Unbundled(f"{wrong[0]} is imported when it is used first, but also at once, or imports other modules.")
    try:
        order = [name for name in TopologicalSorter(needed).static_order() if name not in later]
    except CycleError as error:
        raise Unbundled(f"Modules import each other: {error.args[1]}.") from None
    deferred = [f'later["{name}"] = {_module(_file(modules, name), name)};\n' for name in sorted(later)]
    begun = [f'modules["{name}"] = ({_module(_file(modules, name), name)})();\n' for name in order]
    script = "".join(["const modules = {}, later = {};\n", *deferred, *begun])
    first = f"({_module(modules[AHEAD], AHEAD)})();\n" if AHEAD in modules else ""
    styles = "".join(_file(files, name) for name in STYLES)
    alone = {name: _COMMENT.sub("", text) for name, text in modules.items() if not name.startswith(VENDORED)}
    return {**files, **alone, "bundle.js": script, "bundle.css": styles, "first.js": first}


def _module(text: str, name: str) -> str:
    """Turn a module into the JavaScript text of a function that returns the module's exports."""

    def taken(match: re.Match[str]) -> str:
        inner = match[1] if match[1].startswith("{") else f"{{ default: {match[1]} }}"
        return f'const {inner} = modules["{match[2]}"];'

    if not name.startswith(VENDORED):  # whose comments have its license
        text = _COMMENT.sub("", text)
    given = [f"default: {one}" for one in _DEFAULT.findall(text)] or _EXPORT.findall(text)
    body = _DEFAULT.sub("", _EXPORT.sub("", _IMPORT.sub(taken, _LATER.sub(r'Promise.resolve(later["\1"]())', text))))
    if re.search(r"^(?:import|export)\b|\bimport\(|</script|<!--", body, re.M):
        raise Unbundled(f"{name} imports or exports in another way, or would end its element.")
    return f"() => {{\n{body}\nreturn {{ {', '.join(given)} }};\n}}"


def document(files: Mapping[str, str], data: str, kind: str, plain: str = "") -> str:
    """Return an HTML document that contains the page's files and the JSON text `data`. Raises Unbundled.

    `files` maps paths to texts. `kind` is the text for `marker`, such as `run ID`. `plain` is what a browser shows that
    runs no scripts, such as the preview of a mail program.
    """
    files = bundled(files)
    scripts: list[str] = []
    styles: list[str] = []

    def style(match: re.Match[str]) -> str:
        text = _file(files, match[1]).replace("</style", "<\\/style")
        if re.search(r"@import|url\(\s*['\"]?(?!data:|#)", text):
            raise Unbundled(f"{match[1]} refers to another file.")
        styles.append(text)
        return f"<style>{text}</style>"

    def script(match: re.Match[str]) -> str:
        scripts.append(_file(files, match[1]))
        return _DATA

    def icon(match: re.Match[str]) -> str:
        encoded = base64.b64encode(_file(files, match[1]).encode()).decode()
        return f'<link rel="icon" href="data:image/svg+xml;base64,{encoded}">'

    page = _ICON.sub(icon, _file(files, PAGE).replace(_FIRST, ""))
    page = _SCRIPT.sub(script, _STYLE.sub(style, page))
    if len(scripts) != 1 or "/static/" in page:
        raise Unbundled(f"{PAGE} has an unknown kind of reference.")
    head, tag, rest = page.partition('<meta charset="utf-8">')
    if not tag:
        raise Unbundled(f"{PAGE} does not begin with a charset.")
    first, end, more = head.partition(">")
    policy = f'<meta http-equiv="Content-Security-Policy" content="{_policy(scripts, styles)}">'
    rest = rest.replace(
        _DATA,
        f'<script type="application/json" id="{DATA_ID}">{escaped(data)}</script>\n'
        f'<script type="module">{scripts[0]}</script>',
    )
    if plain:
        rest = _NO_SCRIPT.sub(lambda _: f"<noscript><pre>{html.escape(plain)}</pre></noscript>", rest)
    return f"{first}{end}\n{marker(kind)}{more}{tag}\n{policy}{rest}"


def marker(kind: str) -> str:
    """Return the HTML comment that identifies a file as a report."""
    return f"<!-- clusterkit report: {kind} -->"


def escaped(data: str) -> str:
    """Escape JSON so that no part of the JSON is parsed as HTML in a script element."""
    return (
        data.replace("<", "\\u003c").replace(">", "\\u003e").replace("\u2028", "\\u2028").replace("\u2029", "\\u2029")
    )


def _file(files: Mapping[str, str], name: str) -> str:
    if name not in files:
        raise Unbundled(f"{name} does not exist.")
    return files[name]


def _policy(scripts: list[str], styles: list[str]) -> str:
    """Return a content security policy that allows only the document's own scripts and styles.

    A worker that the scripts make themselves is subject to the same policy.
    """
    allowed, shown = " ".join(map(_hash, scripts)), " ".join(map(_hash, styles)) or "'none'"
    inside = f"script-src {allowed}; style-src {shown}; img-src data:; worker-src blob:"
    return f"default-src 'none'; {inside}; base-uri 'none'; form-action 'none'"


def _hash(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"
