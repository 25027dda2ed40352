"""The page of `searnn explain`: self-contained, and in a real browser alive, readable and free of errors."""

from __future__ import annotations

import json
import random
import re
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any
from xml.etree import ElementTree

import pytest
import torch
from explain_cases import copied
from rapidfuzz.distance import Levenshtein

from searnn.losses import KLLoss, LogLoss
from searnn.reports.explain import draw, make_page

if TYPE_CHECKING:
    from browser import Browser

VIEWS: list[dict[str, Any]] = [{}, {"dark": True}, {"width": 390, "height": 844}]
SLIDE = """const slider = document.getElementById(arguments[0]);
    slider.value = arguments[1]; slider.dispatchEvent(new Event('input'))"""
pytest_plugins = ("browser",)
image = pytest.importorskip("PIL.Image", reason="pictures need the extra plots")


@pytest.fixture(scope="module")
def explanation() -> dict[str, Any]:
    return copied()


@pytest.fixture(scope="module")
def page(explanation: dict[str, Any], tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("explain") / "page.html"
    path.write_text(make_page(explanation), encoding="utf-8")
    return path


def square(cell: int, row: int) -> str:
    return f'#costs tbody td[data-cell="{cell}"][data-row="{row}"]'


def test_the_page_needs_nothing_from_elsewhere(explanation: dict[str, Any], page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    assert not re.search(r"(src|href)=\"(?!data:)", text)
    assert {*re.findall(r"https?://[^\"'\s)]+", text)} == {"http://www.w3.org/2000/svg"}  # a name, not a place
    assert "@import" not in text
    assert "url(" not in text.replace("url(data:", "")
    inside = re.search(r'<script type="application/json" id="data">(.*?)</script>', text, re.DOTALL)
    assert inside is not None
    assert json.loads(inside[1]) == json.loads(json.dumps(explanation))  # though its title has a script's end in it


def test_still_pictures(explanation: dict[str, Any]) -> None:
    pytest.importorskip("matplotlib", reason="pictures need the extra plots")
    with image.open(BytesIO(draw(explanation, "png"))) as picture:
        assert len(picture.convert("RGB").getcolors(1 << 24)) > 100
    drawn = draw(explanation, "svg")
    assert drawn == draw(explanation, "svg")
    words = "".join(ElementTree.fromstring(drawn).itertext())
    assert all(word in words for word in ("<end>", "cost", "target", "model", "step 200", "learned roll-in"))


def test_every_square_is_drawn_and_nothing_complains(
    browser: Browser, page: Path, explanation: dict[str, Any], tmp_path: Path
) -> None:
    for settings in VIEWS:
        browser.errors()
        browser.open(page, **settings)
        rolled_in = explanation["rolled_in"][2][1]
        cells, rows = len(rolled_in["prefix"]), len(explanation["tokens"])
        assert browser.count("#costs tbody td") == cells * rows
        assert browser.count("#looks tbody td") == cells * 4
        assert browser.count("#costs td.path") == cells
        assert browser.count("#costs td.low") >= cells
        assert browser.errors() == []
        assert browser.wide() <= 0
        assert browser.text("h1") == "What each token costs: </script><b>runs</b>"
        with image.open(browser.picture(tmp_path / "page.png", whole=True)) as picture:
            box = browser.js("""const box = document.getElementById("costs").getBoundingClientRect();
                return [box.left, box.top + scrollY, box.right, box.bottom + scrollY]""")
            part = picture.convert("RGB").crop([int(side) for side in box])
        colours = {colour for _, colour in part.getcolors(1 << 24)}
        costs = {cost for found in explanation["searches"] for row in found["costs"] for cost in row}
        assert len(colours) > len(costs)
        blue, green = ((108, 177, 255), (95, 211, 141)) if "dark" in settings else ((11, 98, 196), (21, 128, 61))
        assert {blue, green} <= colours  # bars of targets and of the model


@pytest.mark.parametrize("settings", VIEWS, ids=["light", "dark", "phone"])
def test_axe_finds_nothing(browser: Browser, page: Path, settings: dict[str, Any]) -> None:
    browser.open(page, **settings)
    assert browser.problems() == []
    browser.click("summary")
    browser.click(square(1, 2))
    assert browser.problems() == []


def test_pointing_at_a_square_shows_its_output(browser: Browser, page: Path, explanation: dict[str, Any]) -> None:
    browser.open(page)
    names, eos = explanation["names"], explanation["eos"]
    rolled_in, found = explanation["rolled_in"][2][1], explanation["searches"][explanation["views"][2][1][1]]

    def told(cell: int, row: int) -> bool:
        output = [*rolled_in["prefix"][:cell], explanation["tokens"][row], *found["tails"][cell][row]]
        shown = browser.js("return [...document.querySelectorAll('#detail .below')].map(e => e.innerText)")
        expected = [names[token] for token in output if token != eos]
        edits = browser.count("#detail .pairing:not(.same)")
        truth = [token for token in explanation["truth"] if token != eos]
        assert edits == Levenshtein.distance([token for token in output if token != eos], truth)
        assert f"Cell {cell + 1}: {names[explanation['tokens'][row]]}" in browser.text("#detail")
        return [word for word in shown if word != "\u2013"] == expected

    browser.hover(square(1, 2))
    assert told(1, 2)
    browser.click(square(0, 3))
    browser.hover(square(2, 5))
    assert told(2, 5)
    browser.hover("h1")
    assert told(0, 3)  # the clicked one stays
    browser.js("document.activeElement.dispatchEvent(new KeyboardEvent('keydown', {key: 'ArrowDown', bubbles: true}))")
    assert told(0, 4)
    browser.open(page, width=390, height=844)
    browser.click(square(2, 1))
    assert told(2, 1)
    assert browser.errors() == []


def test_every_switch_changes_what_is_seen(browser: Browser, page: Path, explanation: dict[str, Any]) -> None:
    browser.open(page)

    def seen() -> tuple[Any, ...]:
        script = """const texts = s => [...document.querySelectorAll(s)].map(e => e.innerText);
            const widths = [...document.querySelectorAll('#costs .t')].map(e => e.style.width);
            return [texts('#costs .square'), widths, texts('#costs .wrote'),
                    [...document.querySelectorAll('#costs .square')].map(e => e.style.background)]"""
        return tuple(browser.js(script))

    before = seen()
    assert [word.strip() for word in before[2]] == [
        explanation["names"][token] for token in explanation["rolled_in"][2][1]["prefix"]
    ]
    browser.click("#roll_out input[value='0']")
    reference = seen()
    assert reference[0] != before[0]
    assert reference[2] == before[2]
    browser.click("#roll_in input[value='0']")
    truth = seen()[2]
    assert [word.strip() for word in truth] == [explanation["names"][token] for token in explanation["truth"]]
    browser.click("#roll_in input[value='1']")
    browser.click("#roll_out input[value='1']")
    assert seen() == before
    browser.click("#loss input[value='ll']")
    assert sorted({*seen()[1]} - {"0px"}) == ["0%", "100%"]  # 0px: not drawn in training
    assert browser.js("return document.getElementById('alpha-box').hidden")
    browser.click("#loss input[value='kl']")
    browser.js(SLIDE, "alpha", 0)
    assert seen()[1] != before[1]
    assert browser.text("#alpha-value") == "0.1"
    browser.js(SLIDE, "alpha", explanation["alphas"].index(30.0))
    assert seen() == before
    assert explanation["start"]["candidates"] == "drawn"  # as in training
    browser.click("#candidates input[value='shown']")
    assert seen()[1] != before[1]
    browser.click("#candidates input[value='drawn']")
    assert seen() == before
    browser.click("#colour input[value='above']")
    assert seen()[0] == before[0]
    assert seen()[3] != before[3]
    browser.click("#colour input[value='cost']")
    browser.js(SLIDE, "moment", 0)
    assert browser.text("#moment-value") == "step 0"
    assert seen() != before
    browser.js(SLIDE, "moment", 2)
    assert seen() == before
    assert browser.errors() == []


def test_play_steps_through_training(browser: Browser, page: Path) -> None:
    browser.open(page)
    names = browser.driver.execute_async_script("""const done = arguments[0], seen = [];
        setInterval(() => seen.push(document.getElementById('moment-value').innerText), 50);
        document.getElementById('play').click();
        setTimeout(() => done([...new Set(seen)]), 2600)""")
    assert names == ["step 0", "step 100", "step 200"]
    assert browser.js("return document.getElementById('play').getAttribute('aria-pressed')") == "false"


def test_targets_in_the_page_are_what_the_losses_pull_towards(browser: Browser, page: Path) -> None:
    browser.open(page)
    draw = torch.Generator().manual_seed(1)
    for loss, made in (("kl", KLLoss(0.7)), ("kl", KLLoss(1000.0)), ("ll", LogLoss())):
        costs = torch.randint(0, 3, (1, 8, 6), generator=draw).double()
        scores = torch.randn(1, 8, 6, generator=draw, dtype=torch.float64).requires_grad_()
        valid = torch.rand(1, 8, 6, generator=draw) < 0.7
        valid[..., 0] = True
        losses = made(scores, costs, valid)
        losses.sum().backward()
        assert scores.grad is not None
        own = scores.detach().masked_fill(~valid, -torch.inf).softmax(-1)
        logs = scores.detach().log_softmax(-1)
        for cell in range(8):
            arguments = (costs[0, cell].tolist(), logs[0, cell].tolist(), loss, getattr(made, "alpha", 1.0))
            counted = valid[0, cell].nonzero().squeeze(1).tolist()
            target = browser.js("return targetOf(...arguments)", *arguments, counted)
            assert target == pytest.approx((own - scores.grad)[0, cell].tolist(), abs=1e-9)
            value = browser.js("return lossOf(...arguments)", target, arguments[1], counted)
            assert value == pytest.approx(float(losses.detach()[0, cell]), abs=1e-9)


def test_edits_in_the_page_are_as_few_as_can_be(browser: Browser, page: Path) -> None:
    browser.open(page)
    draw = random.Random(3)
    pairs = [[[draw.randrange(3) for _ in range(draw.randrange(7))] for _ in range(2)] for _ in range(60)]
    found = browser.js("return arguments[0].map(([output, truth]) => editsOf(output, truth, false))", pairs)
    for (output, truth), edits in zip(pairs, found, strict=True):
        assert sum(edit["kind"] != "same" for edit in edits) == Levenshtein.distance(output, truth)
        assert [edit["to"] for edit in edits if edit["to"] is not None] == output
        assert [edit["from"] for edit in edits if edit["from"] is not None] == truth
        assert [edit["place"] for edit in edits if edit["to"] is not None] == [*range(len(output))]
    known = browser.js("return editsOf([1, 2, 3], [2, 3, 3], true).map(edit => edit.kind)")
    assert known == ["swap", "swap", "same"]


def test_the_saved_picture_has_every_square(browser: Browser, page: Path, explanation: dict[str, Any]) -> None:
    browser.open(page)
    root = ElementTree.fromstring(browser.js("return pictureNow()"))
    squares = [part for part in root.iter() if part.get("class") == "square"]
    assert len(squares) == len(explanation["tokens"]) * len(explanation["rolled_in"][2][1]["prefix"])
    assert len({part.get("fill") for part in squares}) > 2
    words = [part.text for part in root.iter() if part.tag.endswith("text")]
    assert "</script><b>runs</b>, step 200, learned roll-in, learned roll-out, KL, alpha 30" in words
    assert "<end>" in words
    browser.js("window.saved = []; HTMLAnchorElement.prototype.click = function () { saved.push(this.download); }")
    browser.click("#save")
    assert browser.js("return saved") == ["searnn-explain.svg"]
    assert browser.errors() == []


def test_a_stand_in_for_the_truth_is_said(browser: Browser, page: Path, tmp_path: Path) -> None:
    browser.open(page)
    assert "stands in" not in browser.text("main")
    assert browser.js("return document.getElementById('moment-box').hidden") is False
    other = tmp_path / "other.html"
    other.write_text(make_page(copied(moments=1, stands_in=True)), encoding="utf-8")
    browser.open(other)
    assert "the model's own output stands in for the truth" in browser.text("main")
    assert browser.js("return document.getElementById('moment-box').hidden") is True
    assert browser.errors() == []
