"""A real browser for tests of pages: Debian's Chromium without a window; tests that want it are skipped without one.

A test module asks for it by `pytest_plugins = ("browser",)` and takes the fixture `browser`. `SEARNN_AXE` names the
file `axe.min.js` of the npm package axe-core; without it `problems` skips the test.
"""

from __future__ import annotations

import base64
import json
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

ARGUMENTS = (
    "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-sync",
    "--disable-background-networking", "--disable-component-update", "--disable-dev-shm-usage", "--hide-scrollbars",
)  # fmt: skip
RULES = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "best-practice"]


class Browser:
    """One browser with one page in it; what the page says on its console is kept."""

    def __init__(self, driver: Any) -> None:
        self.driver, self.width = driver, 0

    def open(self, page: Path | str, *, width: int = 1200, height: int = 900, dark: bool = False) -> None:
        """Show a file or an address as on a screen of that size; under 600 pixels that is a phone with touch."""
        self.width, phone = width, width < 600
        size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": phone}
        self.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
        self.driver.execute_cdp_cmd("Emulation.setTouchEmulationEnabled", {"enabled": phone})
        self.driver.execute_cdp_cmd("Emulation.setFocusEmulationEnabled", {"enabled": True})  # as of a window in front
        self.colours(dark)
        self.errors()  # of the page before
        self.driver.get(page.resolve().as_uri() if isinstance(page, Path) else page)

    def colours(self, dark: bool) -> None:
        """What the reader's system prefers."""
        feature = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [feature]})

    def js(self, script: str, *arguments: Any) -> Any:
        """The value that a script returns."""
        return self.driver.execute_script(script, *arguments)

    def count(self, selector: str) -> int:
        """How many elements there are."""
        return int(self.js("return document.querySelectorAll(arguments[0]).length", selector))

    def text(self, selector: str = "body") -> str:
        """The text that is seen of an element."""
        return str(self.js("return document.querySelector(arguments[0]).innerText", selector))

    def click(self, selector: str) -> None:
        """Click it, or tap it on a phone, in its middle."""
        x, y = self._middle(selector)
        for kind in ("mousePressed", "mouseReleased"):
            self._mouse(kind, x, y, button="left", clickCount=1)

    def hover(self, selector: str) -> None:
        """Put the mouse in its middle."""
        self._mouse("mouseMoved", *self._middle(selector))

    def errors(self) -> list[str]:
        """What the page complained of on its console since it was last asked."""
        return [entry["message"] for entry in self.driver.get_log("browser") if entry["level"] == "SEVERE"]

    def wide(self) -> int:
        """Pixels by which the page is wider than the screen: a reader would have to push it sideways."""
        return int(self.js("return document.documentElement.scrollWidth")) - self.width

    def problems(self) -> list[str]:
        """What axe finds hard to read or to use in the page."""
        path = os.environ.get("SEARNN_AXE")
        if not path:
            pytest.skip("SEARNN_AXE does not name axe-core's axe.min.js")
        self.js(Path(path).read_text(encoding="utf-8"))
        script = "axe.run(document, {runOnly: arguments[0]}).then(arguments[1])"
        found = self.driver.execute_async_script(script, RULES)["violations"]
        return [f"{each['id']}: {json.dumps([node['target'] for node in each['nodes']])}" for each in found]

    def picture(self, path: Path, *, whole: bool = False) -> Path:
        """Write a PNG of what is seen, or of the whole page."""
        settings = {"format": "png", "captureBeyondViewport": whole}
        if whole:
            size = "return [document.documentElement.scrollWidth, document.documentElement.scrollHeight]"
            width, height = self.js(size)
            settings["clip"] = {"x": 0, "y": 0, "width": width, "height": height, "scale": 1}
        path.write_bytes(base64.b64decode(self.driver.execute_cdp_cmd("Page.captureScreenshot", settings)["data"]))
        return path

    def _middle(self, selector: str) -> tuple[float, float]:
        script = """const element = document.querySelector(arguments[0]);
            element.scrollIntoView({block: "center", inline: "center", behavior: "instant"});
            const box = element.getBoundingClientRect(); return [box.x + box.width / 2, box.y + box.height / 2]"""
        x, y = self.js(script, selector)
        return x, y

    def _mouse(self, kind: str, x: float, y: float, **more: Any) -> None:
        self.driver.execute_cdp_cmd("Input.dispatchMouseEvent", {"type": kind, "x": x, "y": y, **more})


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    """The browser, started once; pages must not rely on what another test has left."""
    webdriver = pytest.importorskip("selenium.webdriver", reason="selenium is not installed")
    chromium, chromedriver = shutil.which("chromium"), shutil.which("chromedriver")
    if chromium is None or chromedriver is None:
        pytest.skip("there is no chromium with its chromedriver")
    options = webdriver.ChromeOptions()
    options.binary_location = chromium
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    with tempfile.TemporaryDirectory(prefix="searnn-browser-", ignore_cleanup_errors=True) as profile:
        for argument in (*ARGUMENTS, f"--user-data-dir={profile}"):
            options.add_argument(argument)
        driver = webdriver.Chrome(options, webdriver.ChromeService(chromedriver))
        driver.set_script_timeout(60)
        try:
            yield Browser(driver)
        finally:
            driver.quit()
