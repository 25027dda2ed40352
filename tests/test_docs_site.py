"""The site of the documentation: it builds without a warning, opens from disk, and its reference is complete."""

from __future__ import annotations

import importlib
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING
from xml.etree import ElementTree

import pytest
from docs_cases import DOCS, ROOT

from searnn.cli.program import make_parser
from searnn.config.registry import AXES, flag
from searnn.config.schema import GROUP_OF

if TYPE_CHECKING:
    from browser import Browser

pytest_plugins = ("browser",)
NAMESPACE = "{http://www.w3.org/2000/svg}"


def loaded(name: str) -> ModuleType:
    """A script of the documentation, as a module."""
    tools = str(DOCS / "tools")
    if tools not in sys.path:
        sys.path.append(tools)
    return importlib.import_module(name)


@pytest.fixture(scope="module")
def reference() -> dict[str, str]:
    return dict(loaded("generate").pages())


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The site, built as `make docs` does, from a copy: the pages of the repository stay as they are."""
    pytest.importorskip("material", reason="mkdocs-material is not installed")
    place = tmp_path_factory.mktemp("site")
    for name in ("mkdocs.yml", "SECURITY.md"):
        shutil.copy(ROOT / name, place)
    shutil.copytree(DOCS, place / "docs", ignore=shutil.ignore_patterns("reference", "__pycache__"))
    done = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict"],  # not quiet: what is not said is not counted
        cwd=place, env={**os.environ, "NO_MKDOCS_2_WARNING": "1"}, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    return place / "build" / "site"


def test_every_page_is_in_the_site_and_reads_nothing_from_the_network(site: Path) -> None:
    wanted = {page.relative_to(DOCS).with_suffix(".html") for page in DOCS.rglob("*.md")}
    made = {page.relative_to(site) for page in site.rglob("*.html")}
    assert wanted <= made, wanted - made
    for page in site.rglob("*.html"):
        text = page.read_text(encoding="utf-8")
        assert not re.findall(r'<(?:script|img|iframe|source)[^>]*src="(?:https?:)?//[^"]*"', text), page
        links = re.findall(r"<link[^>]*>", text)
        assert not [link for link in links if "//" in link and 'rel="canonical"' not in link], page


def test_the_reference_has_every_command_setting_algorithm_and_task(reference: dict[str, str]) -> None:
    train = reference["train.md"]
    missing = [
        name for name in GROUP_OF if name != "name" and not re.search(rf"`--(\[no-\])?{flag(name)[2:]}[ `]", train)
    ]
    assert not missing
    for name in AXES["algorithm"]:
        assert re.search(rf"^ *{name} +--", train, re.MULTILINE), name
    assert all(f"`{task}`" in train for task in AXES["task"])
    commands = re.findall(r"^  +(\w+)  ", make_parser().format_help(), re.MULTILINE)
    assert (
        set(re.findall(r"^## `searnn (\w+)`", reference["commands.md"], re.MULTILINE))
        >= set(commands)
        >= {"train", "eval"}
    )


def test_defaults_that_differ_between_tasks_are_told_for_each(reference: dict[str, str]) -> None:
    rows = {row.split("`")[1].split()[0]: row for row in reference["train.md"].splitlines() if row.startswith("| `--")}
    assert rows["--width"].endswith("| 128 · translation, g2p: 256 · spelling: 100 · copy: 64 |")
    assert "(spelling)" in rows["--noise"]
    assert rows["--seed"].endswith("| 0 |")


def test_the_reference_has_every_public_name_with_its_docstring(reference: dict[str, str]) -> None:
    for page, text in reference.items():
        if not page.startswith("searnn"):
            continue
        module = importlib.import_module(page.removesuffix(".md"))
        headings = re.findall(r"^## `(\w+)`", text, re.MULTILINE)
        assert headings, page
        for name in getattr(module, "__all__", headings):
            assert name in headings, (page, name)
    costs = reference["searnn.costs.md"]
    assert "EditDistance(" in costs
    assert "<factory>" not in "".join(reference.values())
    assert "0x" not in "".join(reference.values())


@pytest.mark.parametrize("name", sorted(loaded("draw").PICTURES))
def test_a_picture_is_as_drawn_and_inside_its_frame(name: str) -> None:
    svg = (DOCS / "pictures" / f"{name}.svg").read_text(encoding="utf-8")
    assert svg == loaded("draw").PICTURES[name]().svg(), "run python docs/tools/draw.py"
    root = ElementTree.fromstring(svg)
    width, height = map(float, root.attrib["viewBox"].split()[2:])
    assert root.findtext(f"{NAMESPACE}title")
    for box in root.iter(f"{NAMESPACE}rect"):
        assert float(box.attrib["x"]) + float(box.attrib["width"]) <= width
        assert float(box.attrib["y"]) + float(box.attrib["height"]) <= height
    for text in root.iter(f"{NAMESPACE}text"):
        assert float(text.attrib["y"]) <= height
        if text.attrib["text-anchor"] == "start":  # a letter is about 7 wide, 8 in code
            letter = 8 if "code" in text.attrib["class"] else 6.5 if "small" in text.attrib["class"] else 7.5
            assert float(text.attrib["x"]) + letter * len(text.text or "") <= width, text.text


MEASURED = ("headroom",)  # what scripts in benchmarks/ draw


def test_every_picture_is_shown_and_every_concept_has_one() -> None:
    shown = {
        page: re.findall(r"!\[[^\]]+\]\([^)]*pictures/([\w-]+)\.svg\)", page.read_text()) for page in DOCS.rglob("*.md")
    }
    assert {name for names in shown.values() for name in names} == {*loaded("draw").PICTURES, *MEASURED}
    for page in (DOCS / "concepts").glob("*.md"):
        text = page.read_text()
        assert len(shown[page]) == 1, page
        assert text.split("\n\n")[1].startswith("!["), page  # it opens with it
        assert page.stem == "index" or ("```bash" in text and re.search(r"`[^`]*\[B[^`]*`|update", text)), page


LOOKS = {"light": (1280, False), "dark": (1280, True), "phone": (390, False)}


@pytest.mark.slow
@pytest.mark.parametrize("look", LOOKS)
def test_the_site_opens_from_disk(look: str, site: Path, browser: Browser, tmp_path: Path) -> None:
    width, dark = LOOKS[look]
    kept = Path(os.environ.get("SEARNN_PICTURES", tmp_path))
    for name in (
        "index",
        "tutorial",
        "concepts/roll-out",
        "algorithms/searnn",
        "troubleshooting",
        "reference/train",
        "reference/searnn.costs",
    ):
        browser.open(site / f"{name}.html", width=width, dark=dark)
        assert browser.errors() == [], name
        assert browser.wide() <= 0, name
        assert browser.js("return document.body.dataset.mdColorScheme") == ("slate" if dark else "default")
        browser.picture(kept / f"{name.replace('/', '-')}-{look}.png")
    browser.open(site / "concepts" / "roll-out.html", width=width, dark=dark)
    assert browser.count("svg.pic rect") > 10
    ink = browser.js("return getComputedStyle(document.querySelector('svg.pic text')).fill")
    assert ink == ("rgb(230, 237, 243)" if dark else "rgb(31, 41, 51)")


TYPE = """const box = document.querySelector(".md-search__input");
    box.focus(); box.value = arguments[0]; box.dispatchEvent(new Event("keyup", {bubbles: true}))"""
WAIT = """const found = () => document.querySelectorAll(".md-search-result__link").length;
    const look = () => found() ? arguments[0](found()) : setTimeout(look, 100); look()"""


@pytest.mark.slow
def test_the_search_works_without_a_server(site: Path, browser: Browser) -> None:
    browser.open(site / "index.html")
    browser.js(TYPE, "scheduled sampling")
    assert browser.driver.execute_async_script(WAIT) > 0
    assert browser.errors() == []


@pytest.mark.slow
def test_the_pages_are_accessible(site: Path, browser: Browser) -> None:
    for name in ("index", "concepts/loss", "reference/train"):
        browser.open(site / f"{name}.html")
        assert browser.problems() == [], name
