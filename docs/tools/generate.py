"""Makes the reference from the code, and what the site needs of the pages: `make docs` runs it, as a hook of mkdocs.

`python docs/tools/generate.py` alone writes docs/reference/*.md, which is plain Markdown.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from reference_commands import command_pages
from reference_modules import MODULES, module_pages

from searnn.config.registry import AXES

DOCS = Path(__file__).parents[1]
REFERENCE = DOCS / "reference"
SECURITY = DOCS.parent / "SECURITY.md"
NOTE = "<!-- made from the code by docs/tools/generate.py: change it there -->\n\n"


def pages() -> dict[str, str]:
    """Every page of the reference, by its file's name, and the page on security."""
    made = {**command_pages(), **module_pages(), "security.md": SECURITY.read_text(encoding="utf-8")}
    return {name: NOTE + text.rstrip() + "\n" for name, text in made.items()}


def write() -> None:
    """Write what has changed, and take away what is no more."""
    REFERENCE.mkdir(exist_ok=True)
    made = pages()
    for old in REFERENCE.glob("*.md"):
        if old.name not in made:
            old.unlink()
    for name, text in made.items():
        file = REFERENCE / name
        if not file.is_file() or file.read_text(encoding="utf-8") != text:
            file.write_text(text, encoding="utf-8")


def on_config(config: Any) -> Any:
    """Write the reference, and fill the sections of the navigation that are made from folders."""
    write()
    found = {path.stem for path in (DOCS / "algorithms").glob("*.md")}
    ordered = [name for name in AXES["algorithm"] if name in found] + sorted(found - set(AXES["algorithm"]))
    named = {"Commands": "commands", "searnn train": "train", "searnn compare": "compare", "Library": "modules"}
    named.update({name: name for name in MODULES})
    filled = {
        "algorithms/": [{title(DOCS / "algorithms" / f"{name}.md"): f"algorithms/{name}.md"} for name in ordered],
        "reference/": [{label: f"reference/{name}.md"} for label, name in named.items()],
    }
    for section in config.nav:
        for name, value in section.items():
            if isinstance(value, str) and value in filled:
                section[name] = filled[value]
    return config


def title(page: Path) -> str:
    """The heading of a page."""
    return page.read_text(encoding="utf-8").splitlines()[0].removeprefix("# ")


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Lists may follow a line of text at once, as in other kinds of Markdown; blocks of code stay as they are."""
    parts = re.split(r"(^```.*?^```$)", markdown, flags=re.MULTILINE | re.DOTALL)
    parts[::2] = [
        re.sub(r"^((?![-|#>\s]|\d+\. ).+)\n(?=(?:-|1\.) )", r"\1\n\n", part, flags=re.MULTILINE) for part in parts[::2]
    ]
    return "".join(parts)


def on_page_content(html: str, **_: Any) -> str:
    """Our pictures are put into the page, where their colours follow the site's switch."""

    def inline(match: re.Match[str]) -> str:
        svg = (DOCS / "pictures" / match[1]).read_text(encoding="utf-8")
        svg = re.sub(
            r"@media\(prefers-color-scheme:dark\)\{(\.pic\{[^}]*\})\}", r"[data-md-color-scheme=slate] \1", svg
        )
        return svg.replace("\n", "")

    return re.sub(r'<img[^>]*src="[^"]*pictures/([\w-]+\.svg)"[^>]*>', inline, html)


if __name__ == "__main__":
    write()
