"""The description of the package, for the metadata of its wheel: README.md, with links that work on a package index.

Where pyproject.toml names the repository (`[project.urls]`, `Repository`), relative links lead there. Otherwise
pictures are left out, and links are their text.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from hatchling.metadata.plugin.interface import MetadataHookInterface

RELATIVE = re.compile(r"(?P<picture>!?)\[(?P<text>[^\]]*)\]\((?!https?:|#)(?P<path>[^)\s]+)\)")


def description(readme: str, repository: str | None) -> str:
    """Return README.md as a page that is shown away from the repository."""

    def replaced(link: re.Match[str]) -> str:
        if repository is None:
            return "" if link["picture"] else link["text"]
        kind = "raw" if link["picture"] else "blob"
        return f"{link['picture']}[{link['text']}]({repository.rstrip('/')}/{kind}/HEAD/{link['path']})"

    return re.sub(r"\n{3,}", "\n\n", RELATIVE.sub(replaced, readme))


class Description(MetadataHookInterface):
    """hatchling's hook, which pyproject.toml names."""

    def update(self, metadata: dict[str, Any]) -> None:
        """Add the description."""
        readme = (Path(self.root) / "README.md").read_text()
        text = description(readme, metadata.get("urls", {}).get("Repository"))
        metadata["readme"] = {"content-type": "text/markdown", "text": text}
