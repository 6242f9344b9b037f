"""The page as one document: modules and styles inside, data that ends no element, a policy that forbids the rest."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from html.parser import HTMLParser

import pytest

from clusterkit.page.bundle import DATA_ID, STYLES, Unbundled, bundled, document, escaped, marker
from clusterkit.page.report_file import STATIC, page_files

FILES = {
    "index.html": """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<title>clusterkit</title>
<link rel="icon" href="/static/icon.svg">
<link rel="stylesheet" href="/static/bundle.css">
<script type="module" src="/static/bundle.js"></script>
</head>
<body><div id="app"></div></body>
</html>
""",
    "icon.svg": "<svg/>",
    **dict.fromkeys(STYLES, "a { color: red }"),
    "app.js": 'import { a,\n  c } from "./a.js";\nimport d from "./vendor/d.js";\nconst b = [a, c(), new d().name];',
    "slow.js": 'export const load = async () => (await import("./vendor/late.js")).default;',
    "vendor/late.js": "class f {}\nexport { f as default };\n",
    "a.js": 'import { b } from "./b.js";\nexport const a = b;\nexport async function c() {}\nexport class E {}',
    "b.js": "export const b = 1;\nconst a = 2;",
    "vendor/d.js": "class b { name = 3 }\n/*\nexport function e() {}\n*/\nexport { b as default };\n",
}


class Elements(HTMLParser):
    """The elements of a document, with their attributes and text."""

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=False)
        self.found: list[tuple[str, dict[str, str | None], list[str]]] = []
        self._open = False
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """An element begins."""
        self.found.append((tag, dict(attrs), []))
        self._open = True

    def handle_endtag(self, tag: str) -> None:
        """An element ends."""
        self._open = False

    def handle_data(self, data: str) -> None:
        """Text directly within an element."""
        if self._open:
            self.found[-1][2].append(data)

    def scripts(self) -> list[tuple[dict[str, str | None], str]]:
        """The script elements."""
        return [(attributes, "".join(text)) for tag, attributes, text in self.found if tag == "script"]


def check(text: str) -> Elements:
    """Fail unless the document refers to nothing outside, and its policy allows what is in it and nothing else."""
    elements = Elements(text)
    assert [a for _, a, _ in elements.found if str(a.get("src") or a.get("href") or "data:")[:5] != "data:"] == []
    (policy,) = [a["content"] for _, a, _ in elements.found if a.get("http-equiv") == "Content-Security-Policy"]
    rules = dict(rule.strip().split(" ", 1) for rule in str(policy).split(";"))
    assert rules["default-src"] == rules["base-uri"] == rules["form-action"] == "'none'"
    assert "unsafe" not in str(policy)
    assert not re.search(r"https?:|\*|'self'", str(policy))
    inline = [body for a, body in elements.scripts() if a.get("type") != "application/json"]
    hashes = [f"'sha256-{base64.b64encode(hashlib.sha256(body.encode()).digest()).decode()}'" for body in inline]
    assert rules["script-src"].split() == hashes
    assert len(hashes) == 1
    return elements


def test_modules_become_one_script_in_their_order() -> None:
    """Each in a function, after those that it imports, with its own names."""
    script = bundled(FILES)["bundle.js"]
    assert re.findall(r'^modules\["(.+)"\] =', script, re.M)[-1] == "app.js"
    assert script.index('modules["b.js"] =') < script.index('modules["a.js"] =')
    assert 'const { a,\n  c } = modules["a.js"];' in script
    assert 'const { default: d } = modules["vendor/d.js"];' in script
    assert re.findall(r"^return \{(.*)\};$", script, re.M).count(" default: b ") == 1
    assert "return { a, c, E };" in script
    assert re.findall(r'^later\["(.+)"\] =', script, re.M) == ["vendor/late.js"]
    assert 'const load = async () => (await Promise.resolve(later["vendor/late.js"]())).default;' in script
    assert f"{script}\n" in document(FILES, "{}", "run x").replace("</script>", "\n")


HOSTILE = ["</script><script>alert(1)</script>", "<!--<script>", "]]>", "\u2028\u2029", "\ud800", "\x00", "&lt;", "é"]


@pytest.mark.parametrize("text", HOSTILE)
def test_data_stays_data(text: str) -> None:
    """Whatever is in a log, a parser of HTML sees one element with text, and JSON gives that back."""
    data = json.dumps({text: [text]})
    page = document(FILES, data, "run x")
    page.encode()
    (found,) = [body for attributes, body in check(page).scripts() if attributes.get("id") == DATA_ID]
    assert json.loads(found) == {text: [text]}
    assert not re.search("[<>\u2028\u2029]", found)
    raw = json.dumps({text: 1}, ensure_ascii=False)
    assert json.loads(escaped(raw)) == {text: 1}


def test_a_report_can_be_recognized() -> None:
    """By its second line; the first one has to be the doctype."""
    first, second = document(FILES, "{}", "run x").splitlines()[:2]
    assert (first, second) == ("<!doctype html>", marker("run x"))


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("index.html", "<!doctype html><p>"),
        ("index.html", FILES["index.html"].replace("bundle.css", "gone.css")),
        ("index.html", FILES["index.html"].replace("<title>", '<script src="/static/app.js"></script><title>')),
        ("app.js", 'import { gone } from "./gone.js";'),
        ("app.js", 'import "./a.js";'),
        ("app.js", 'import("./a.js");'),
        ("app.js", 'const text = "</script>";'),
        ("app.js", 'import d from "./vendor/late.js";'),
        ("a.js", "export { b };"),
        ("b.js", 'import { a } from "./a.js";'),
        ("page.css", "@import 'other.css';"),
        ("page.css", "a { background: url(x.png) }"),
    ],
)
def test_a_page_that_needs_more_is_refused(name: str, text: str) -> None:
    """It would be broken where there is no server; that is noticed here, not by a reader."""
    with pytest.raises(Unbundled):
        document({**FILES, name: text}, "{}", "run x")


def test_the_real_page_can_be_bundled() -> None:
    """With every module of it, and every style."""
    files = page_files()
    made = bundled(files)
    check(document(files, "{}", "run x"))
    assert set(re.findall(r'^(?:modules|later)\["(.+)"\] =', made["bundle.js"], re.M)) == {
        str(path.relative_to(STATIC)) for path in STATIC.rglob("*.js")
    }
    assert all(files[name] in made["bundle.css"] for name in files if name.endswith(".css"))
