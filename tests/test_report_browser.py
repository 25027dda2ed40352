"""The report in a real browser: every plot has marks, nothing is complained of, it fits a phone, axe finds nothing."""

from __future__ import annotations

import random
import threading
import time
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from report_cases import made_run, records, with_settings, write_run

from searnn.reports.outputs import Written
from searnn.reports.page import Outputs, describe, page, read_run, report, write_page
from searnn.reports.page.serving import Follower
from searnn.tasks import Copy

if TYPE_CHECKING:
    from browser import Browser

pytest_plugins = ("browser",)

PLOTS = """return [...document.querySelectorAll("svg.plot")].map((plot) => {
  const frame = plot.getBoundingClientRect();
  const seen = [...plot.querySelectorAll(".mark")].map((mark) => mark.getBoundingClientRect()).filter((box) =>
    box.width + box.height > 0 && box.left >= frame.left - 1 && box.right <= frame.right + 1 &&
    box.top >= frame.top - 1 && box.bottom <= frame.bottom + 1);
  return [plot.closest("figure").id, seen.length, plot.getAttribute("aria-label")];
})"""


def one_run(folder: Path) -> dict[str, Any]:
    """A run with a warning and with examples, right and wrong ones."""
    run = made_run(folder / "one", equal_cost_share=lambda n: 0.92, cross_entropy_share=lambda n: 1 - n / 13)
    task = Copy(symbols=6, length=6, examples=10)
    written = []
    for number in range(30):
        true = [(number + at) % 6 for at in range(1 + number % 6)]
        ours = [*true[:-1], (true[-1] + 1) % 6] if number % 3 == 0 else true[1:] if number % 3 == 1 else true
        written.append(Written(ours, true, "<b>in</b> put", number, pixels=["0f" * 16] * 3 if number == 0 else None))
    outputs = Outputs("test", tuple(written), {"error": 0.25}, whole=True)
    return report([run], [outputs], describe(outputs, task))


def several_runs(folder: Path) -> dict[str, Any]:
    runs = []
    for loss, height in (("kl", 0.0), ("ll", 0.3)):
        for seed in range(2):
            lines = [line | {"valid_error": line["valid_error"] + height + 0.02 * seed} for line in records()]
            runs.append(read_run(write_run(folder / f"{loss}-{seed}", lines, with_settings(loss=loss, seed=seed))))
    return report(runs)


def begun_run(folder: Path) -> dict[str, Any]:
    """A run that is watched and has one evaluation."""
    return report([made_run(folder / "begun", 1)], follow="watch")


MAKERS = {"one": one_run, "several": several_runs, "begun": begun_run}


@pytest.fixture(scope="module", params=MAKERS)
def made(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, Any]]:
    folder = tmp_path_factory.mktemp(request.param)
    data = MAKERS[request.param](folder)
    write_page(folder / "page.html", page(data))
    return folder / "page.html", data


def wait(browser: Browser, script: str) -> None:
    """Until the script says so."""
    until = time.monotonic() + 30
    while not browser.js(f"return {script}"):
        assert time.monotonic() < until, script
        time.sleep(0.05)


def test_every_plot_has_marks(made: tuple[Path, dict[str, Any]], browser: Browser) -> None:
    path, data = made
    browser.open(path)
    plots = browser.js(PLOTS)
    twice = sum(chart["metric"] for chart in data["charts"]) if len(data["runs"]) > 1 else 0  # by minutes too
    assert len(plots) == len(data["charts"]) + twice + (2 if data["examples"] else 0)  # which have bars
    for name, marks, label in plots:
        assert marks > 0, name
        assert label
    assert browser.errors() == []
    browser.click("[data-across=minutes]")
    assert all(marks > 0 for _, marks, _ in browser.js(PLOTS))
    assert browser.js("return document.querySelector('[data-across=minutes]').getAttribute('aria-pressed')") == "true"
    assert browser.errors() == []


@pytest.mark.parametrize("dark", [False, True])
def test_colours_of_the_curves_are_on_the_screen(
    dark: bool, made: tuple[Path, dict[str, Any]], browser: Browser, tmp_path: Path
) -> None:
    """The picture itself: the first curve's colour on the page's background, light or dark."""
    image = pytest.importorskip("PIL.Image")
    browser.open(made[0], dark=dark)
    with image.open(browser.picture(tmp_path / "page.png", whole=True)) as picture:
        counts = {colour: count for count, colour in picture.convert("RGB").getcolors(1 << 24)}
    names = """const style = getComputedStyle(document.documentElement);
        return ['--bg', '--c0', '--c1'].map((name) => style.getPropertyValue(name))"""
    background, first, second = (tuple(bytes.fromhex(name.strip()[1:])) for name in browser.js(names))
    assert (sum(background) < 200) == dark
    assert counts[background] > 100_000
    assert counts[first] > (500 if len(made[1]["runs"][0]["columns"]["step"]) > 1 else 50)
    assert counts[second] > (100 if len(made[1]["runs"][0]["columns"]["step"]) > 1 else 5)


@pytest.mark.parametrize("dark", [False, True])
@pytest.mark.parametrize("width", [1200, 390])
def test_axe_finds_nothing(width: int, dark: bool, made: tuple[Path, dict[str, Any]], browser: Browser) -> None:
    browser.open(made[0], width=width, dark=dark)
    browser.js("for (const each of document.querySelectorAll('details')) each.open = true")
    assert browser.problems() == []


def test_it_fits_a_phone(made: tuple[Path, dict[str, Any]], browser: Browser) -> None:
    browser.open(made[0], width=390, height=844)
    browser.js("for (const each of document.querySelectorAll('details')) each.open = true")
    assert browser.wide() <= 0
    cards = "return [...document.querySelectorAll('.card')].map((card) => card.getBoundingClientRect().right)"
    assert max(browser.js(cards)) <= 390
    assert all(marks > 0 for _, marks, _ in browser.js(PLOTS))
    assert browser.errors() == []


@pytest.mark.parametrize("width", [1200, 390])
@pytest.mark.parametrize("evaluations", [3, 10, 12, 40])
def test_numbers_along_an_axis_do_not_run_into_each_other(
    evaluations: int, width: int, tmp_path: Path, browser: Browser
) -> None:
    write_page(tmp_path / "page.html", page(report([made_run(tmp_path / "run", evaluations)])))
    browser.open(tmp_path / "page.html", width=width)
    for across in ("step", "minutes"):
        browser.click(f"[data-across={across}]")
        rows = browser.js("""return [...document.querySelectorAll("svg.plot")].map((plot) =>
            [...plot.querySelectorAll(".tick")].map((tick) => tick.getBoundingClientRect()).map((box) =>
            [box.left, box.right]).sort((a, b) => a[0] - b[0]))""")
        assert rows
        for row in rows:
            assert len(row) > 1
            assert all(before[1] < after[0] for before, after in pairwise(row))


def test_an_example_goes_by_the_number_that_explain_takes(tmp_path: Path, browser: Browser) -> None:
    outputs = Outputs("valid", (Written([0], [1], None, 12345),), {"error": 1.0}, whole=True)
    data = report([made_run(tmp_path / "run")], [outputs], describe(outputs, Copy(symbols=3, length=3, examples=10)))
    write_page(tmp_path / "page.html", page(data))
    browser.open(tmp_path / "page.html")
    shown = browser.text()
    assert "example 12345 " in shown
    assert "searnn explain RUN --example N --split valid --out page.html" in shown


@pytest.mark.parametrize("width", [1200, 390])
def test_pointing_at_a_curve_tells_its_numbers(width: int, tmp_path: Path, browser: Browser) -> None:
    write_page(tmp_path / "page.html", page(one_run(tmp_path)))
    browser.open(tmp_path / "page.html", width=width)
    plot = "#chart-valid-error-step svg.plot"
    browser.click(plot) if width == 390 else browser.hover(plot)
    told = browser.text("#chart-valid-error-step .tip")
    assert told.startswith(("700 updates", "600 updates"))  # the middle of 0 to 1,300
    number = records()[6 if told.startswith("700") else 5]["valid_error"]
    assert f"error: {number:.3g}" in told


def test_texts_are_shown_as_they_are(tmp_path: Path, browser: Browser) -> None:
    data = one_run(tmp_path)
    write_page(tmp_path / "page.html", page(data))
    browser.open(tmp_path / "page.html")
    assert "<b>in</b> put" in browser.text(".examples dd")
    assert browser.count("mark") > 1
    assert browser.count(".examples del") > 0
    assert browser.count(".examples canvas") >= 1
    finding = data["runs"][0]["findings"][0]
    assert finding["title"] in browser.text(".finding.warning")
    assert finding["remedy"] in browser.text(".finding.warning")
    confusion = data["examples"]["confusion"]
    assert browser.count("#confusion tbody tr") == len(confusion["tokens"])


def test_the_last_column_of_the_confusions_is_seen(tmp_path: Path, browser: Browser) -> None:
    """With twelve tokens of three letters on a screen of 1280."""
    task = Copy(symbols=12, length=5, examples=20)
    draw = random.Random(0)
    targets = [[draw.randrange(12) for _ in range(5)] for _ in range(60)]
    written = [Written([(t + draw.randrange(2)) % 12 for t in row], row, "x", n) for n, row in enumerate(targets)]
    outputs = Outputs("valid", tuple(written), task.metrics([w.output for w in written], targets), True)
    described = describe(outputs, task)
    described["confusion"]["tokens"] = [token and f"abc{token}" for token in described["confusion"]["tokens"]]
    data = report([made_run(tmp_path / "run")], [outputs], described)
    write_page(tmp_path / "page.html", page(data))
    browser.open(tmp_path / "page.html", width=1280)
    hidden = (
        """const box = document.getElementById('confusion').parentElement; return box.scrollWidth - box.clientWidth"""
    )
    assert browser.js(hidden) <= 0
    assert browser.wide() <= 0


def test_the_order_of_the_comparison(tmp_path: Path, browser: Browser) -> None:
    write_page(tmp_path / "page.html", page(several_runs(tmp_path)))
    browser.open(tmp_path / "page.html")
    rows = browser.js("return [...document.querySelectorAll('main table')][0].innerText").splitlines()
    assert rows[1].startswith("kl")  # lower errors first
    assert rows[2].startswith("ll")
    low = min(line["valid_error"] for line in records())
    assert f"{100 * low + 1:.3g} % ({100 * low:.3g} % to {100 * low + 2:.3g} %)" in rows[1]  # in per cent as all shares


def test_a_run_that_has_only_begun(tmp_path: Path, browser: Browser) -> None:
    for count in (0, 1):
        write_page(tmp_path / "page.html", page(report([made_run(tmp_path / str(count), count)])))
        browser.open(tmp_path / "page.html")
        assert browser.errors() == []
        assert browser.count("svg.plot") == (0 if count == 0 else 9)
        assert all(marks > 0 for _, marks, _ in browser.js(PLOTS))


def test_what_is_not_finite_leaves_a_gap(tmp_path: Path, browser: Browser) -> None:
    run = made_run(tmp_path / "gap", train_loss=lambda n: None if n in (4, 5) else 5.0 - 0.3 * n)
    write_page(tmp_path / "page.html", page(report([run])))
    browser.open(tmp_path / "page.html")
    drawn = browser.js("return document.querySelector('#chart-loss-step path.line').getAttribute('d')")
    assert drawn.count("M") == 2
    assert "NaN" not in browser.js("return document.body.innerHTML")
    assert browser.errors() == []


def test_a_followed_run_is_drawn_anew(tmp_path: Path, browser: Browser) -> None:
    """What the reader has chosen stays; when the server is gone the page says so."""
    run = write_run(tmp_path / "live", records(4))
    with Follower(lambda: report([read_run(run)], follow="serve")) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        browser.open(server.address)
        browser.click("[data-across=minutes]")
        assert "0 min" not in browser.text("#about")
        wait(browser, "document.getElementById('following').textContent === 'Following the run.'")
        write_run(run, records(9))
        wait(browser, "document.querySelectorAll('#chart-valid-error-minutes circle.dot').length === 9")
        wait(browser, "document.getElementById('following').textContent.includes('new numbers')")
        assert browser.errors() == []
        server.shutdown()
    wait(browser, "document.getElementById('following').textContent.includes('no longer followed')")
    browser.errors()  # the browser itself notes that nobody answered
