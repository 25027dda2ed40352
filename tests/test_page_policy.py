"""Pages run the script they were made with and no other, whatever gets into them."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from explain_cases import copied
from report_cases import made_run, write_run

from searnn.reports import html
from searnn.reports.explain import make_page
from searnn.reports.page import page, read_run, report, serving, write_page
from searnn.reports.page.serving import Follower
from searnn.reports.reproduction import Reproduced, TableEntry

if TYPE_CHECKING:
    from browser import Browser

pytest_plugins = ("browser",)

INJECTED = """
<script>window.injected = ["script"]</script>
<script src="data:text/javascript,window.injected = ['data']"></script>
<img src="data:," onerror="window.injected = ['handler']">
<a id="link" href="javascript:void(window.injected = ['link'])">x</a>
<style>h1 { color: rgb(1, 2, 3) }</style>
<div id="styled" style="color: rgb(1, 2, 3)">x</div>
<base href="https://example.org/">
</body>"""
MADE_BY_SCRIPT = """
    const script = document.createElement("script");
    script.textContent = "window.injected = ['made']";
    document.body.append(script);
    document.body.insertAdjacentHTML("beforeend", "<img src='data:,' onerror='window.injected = [1]'>");
    document.getElementById("link").click();"""

TABLE = Reproduced(
    "table1",
    "Table 1",
    "As in the paper.",
    "Error",
    100.0,
    [TableEntry("OCR", "MLE", "searnn train ocr", 2.8, "error", [], [0], {0: "<b>"})],
    ["MLE"],
)
MAKERS: dict[str, Callable[[Path], str]] = {
    "report": lambda folder: page(report([made_run(folder / "run")])),
    "several": lambda folder: page(report([made_run(folder / name) for name in ("one", "two")])),
    "watched": lambda folder: page(report([made_run(folder / "run")], follow="watch")),
    "explain": lambda folder: make_page(copied(moments=1)),
    "table": lambda folder: TABLE.page({}),
}


def injected(text: str) -> str:
    head, end, rest = text.rpartition("</body>")
    assert end
    return head + INJECTED + rest


def assert_nothing_ran(browser: Browser) -> None:
    browser.js(MADE_BY_SCRIPT)
    browser.driver.execute_async_script("setTimeout(arguments[0], 300)")
    assert browser.js("return window.injected ?? null") is None
    colours = "return [...document.querySelectorAll('h1, #styled')].map(each => getComputedStyle(each).color)"
    assert "rgb(1, 2, 3)" not in browser.js(colours)
    assert browser.js("return document.baseURI === location.href")
    refused = [message for message in browser.errors() if "Content Security Policy" in message]
    for what in ("inline script", "inline event handler", "inline style", "base-uri"):
        assert any(what in re.sub("execut(e|ing) ", "", message).lower() for message in refused), (what, refused)


@pytest.mark.parametrize("name", MAKERS)
def test_what_is_injected_does_not_run(name: str, tmp_path: Path, browser: Browser) -> None:
    path, text = tmp_path / "page.html", MAKERS[name](tmp_path)
    write_page(path, text)
    browser.open(path)
    assert browser.errors() == []  # the page's own script and style may
    assert browser.text("h1")
    assert browser.js("return getComputedStyle(document.body).backgroundColor") != "rgba(0, 0, 0, 0)"
    write_page(path, injected(text))
    browser.open(path)
    assert_nothing_ran(browser)


def test_what_is_injected_into_a_served_page_does_not_run(
    tmp_path: Path, browser: Browser, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(serving, "page", lambda data: injected(page(data)))
    run = write_run(tmp_path / "run", [])
    with Follower(lambda: report([read_run(run)], follow="serve")) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        browser.open(server.address)
        assert_nothing_ran(browser)
        assert "Following" in browser.text("#following")
        server.shutdown()


@pytest.mark.parametrize("name", MAKERS)
def test_the_policy_names_the_one_script_and_the_one_style(name: str, tmp_path: Path) -> None:
    text = MAKERS[name](tmp_path)
    found = re.search(r'<meta http-equiv="Content-Security-Policy" content="([^"]+)">', text)
    assert found is not None
    assert "unsafe" not in found[1]
    rules = dict(rule.strip().split(" ", 1) for rule in found[1].split(";"))
    assert rules["default-src"] == rules["base-uri"] == rules["form-action"] == "'none'"
    for rule, tag in (("script-src", "script"), ("style-src", "style")):
        inside = re.search(rf"<{tag}>(.*?)</{tag}>", text, re.DOTALL)
        assert inside is not None
        assert rules[rule] == html._hash(inside[1])
        assert text.index(found[0]) < text.index(inside[0])
    # What a policy by hash refuses, nothing in a page may rely on.
    assert not re.search(r"<[^>]+\s(on\w+|style)=", text.partition('<script type="application/json"')[0])
