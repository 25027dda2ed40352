"""Draws the pictures of the concept pages: `python docs/tools/draw.py` writes docs/pictures/*.svg."""

from __future__ import annotations

from pathlib import Path

from drawing import Picture


def search() -> Picture:
    """The whole of Algorithm 1."""
    p = Picture("Roll in, branch at a cell with every candidate, roll out, cost, learn", 640, 210)
    p.text(0, 22, "roll in")
    p.cells(80, 2, "car", "oo_")
    p.text(80 + 2 * 34, 52, "this cell", "small")
    rows = (("cats", "ooto", 0, 70), ("cars", "ooxo", 1, 16), ("cass", "ooxo", 1, 16), ("ca■", "oox", 2, 5))
    for row, (output, kinds, cost, share) in enumerate(rows):
        y = 66 + row * 36
        p.arrow((80 + 2 * 34 + 15, 58), (200, y + 15))
        p.cells(206, y, output, kinds)
        p.text(362, y + 20, f"cost {cost}")
        p.box(440, y + 6, share, 18, "true" if cost == 0 else "bad")
    p.text(206, 52, "branch, roll out", "small")
    p.text(440, 52, "learn this distribution", "small")
    return p


def roll_in() -> Picture:
    """Prefixes by three policies."""
    p = Picture("Three roll-ins for the truth c a t s: the truth, the model's own, a mixture", 520, 190)
    rows = (
        ("truth", "cats■", "....."),
        ("reference", "cats■", "ttttt"),
        ("learned", "carts", "ooxoo"),
        ("mixed, per token", "casts", "toxtt"),
    )
    for row, (name, letters, kinds) in enumerate(rows):
        p.text(0, 22 + row * 40, name)
        p.cells(150, 2 + row * 40, letters, kinds)
    p.text(340, 22, "■ is EOS", "small")
    p.text(150, 182, "T cells", "small")
    p.text(340, 182, "prefix [B, T]", "code small")
    return p


def roll_out() -> Picture:
    """One branch, finished in three ways."""
    p = Picture("A branch at cell 2 is finished by the truth, by the model, or by a coin between them", 560, 200)
    p.cells(0, 86, "ca", "oo")
    p.named(80, 86, 60, "try r", "bad")
    rows = (
        ("reference: the truth goes on", "cars■", "ooxtt"),
        ("learned: the model goes on", "carts", "ooxoo"),
        ("focused: n by the model, then the truth", "cartt", "ooxot"),
    )
    for row, (name, letters, kinds) in enumerate(rows):
        y = 22 + row * 62
        p.arrow((142, 101), (186, y + 15))
        p.cells(192, y, letters, kinds)
        p.text(192, y - 6, name, "small")
    p.text(400, 105, "outputs [B, C, K, T]", "code small")
    return p


def oracle() -> Picture:
    """Two oracles after one mistake."""
    p = Picture(
        "After a letter too many, copying goes on at the same place, the optimal oracle where it saves most", 560, 170
    )
    p.text(0, 22, "truth")
    p.cells(104, 2, "cats", "....")
    p.text(0, 70, "written")
    p.cells(104, 50, "xc", "xo")
    p.text(0, 116, "copy")
    p.cells(104, 96, "xcts", "xott")
    p.text(290, 116, "distance 2: the a is lost too")
    p.text(0, 156, "optimal-edit")
    p.cells(104, 136, "xcats", "xottt")
    p.text(290, 156, "distance 1: only the x")
    p.text(290, 22, "completions [B, C, K, T]", "code small")
    return p


def cost() -> Picture:
    """Three outputs by three measures."""
    p = Picture("Finished outputs beside the truth, and what each costs", 560, 194)
    p.text(0, 22, "truth")
    p.cells(80, 2, "cats", "....")
    p.text(290, 22, "hamming", "small")
    p.text(370, 22, "edit", "small")
    p.text(430, 22, "exact", "small")
    for row, (letters, kinds, *costs) in enumerate(
        (("cats", "tttt", 0, 0, 0), ("cars", "ttxt", 1, 1, 1), ("ats ", "xxx_", 4, 1, 1))
    ):
        y = 46 + row * 40
        p.text(0, y + 20, "output")
        p.cells(80, y, letters, kinds)
        for place, value in enumerate(costs):
            p.text((310, 383, 447)[place], y + 20, str(value), "", "middle")
    p.text(80, 186, "outputs [B, ..., T] → costs [B, ...]", "code small")
    return p


def tokens() -> Picture:
    """Two samplers of candidates."""
    p = Picture(
        "Of all tokens of the vocabulary a few are tried: always the true one, and those the sampler chooses", 560, 150
    )
    heights = [14, 50, 6, 30, 4, 9, 70, 3, 12, 22, 5, 40]
    for row, (name, kinds) in enumerate((("top, k = 4", "_o__t_o____o"[:12]), ("uniform, k = 4", "__o_t__o__o_"))):
        x = row * 290
        p.bars(x, 90, heights, "".join(sign if sign != "_" else "." for sign in kinds), "abcdefghijkl", 22)
        p.text(x, 130, f"{name}: e is true", "small")
    p.text(0, 148, "scores [B, C, V] → tokens [B, C, K]", "code small")
    return p


def cells() -> Picture:
    """Three samplers of cells."""
    p = Picture(
        "Of the cells of a roll-in all, some at random, or those where the model is unsure are costed", 560, 160
    )
    for row, (name, kinds) in enumerate(
        (("all", "oooooooo"), ("uniform, n = 3", ".o..o.o."), ("uncertain, n = 3", "..oo...o"))
    ):
        p.text(0, 22 + row * 40, name)
        p.cells(140, 2 + row * 40, "the_cats", kinds)
    p.text(140, 144, "the model is unsure at e, _ and the last s", "small")
    p.text(430, 62, "prefix [B, T]", "code small")
    p.text(430, 84, "→ cells [B, C]", "code small")
    return p


def loss() -> Picture:
    """Costs, targets, and the model."""
    p = Picture("From the costs of a cell's candidates to the target of each loss", 600, 150)
    for place, (name, heights) in enumerate(
        (
            ("costs", [0, 30, 30, 60]),
            ("ll: the cheapest", [80, 0, 0, 0]),
            ("kl: exp(-alpha cost)", [58, 10, 10, 2]),
            ("the model", [40, 24, 6, 10]),
        )
    ):
        p.bars(place * 150, 100, heights, "xxxx" if not place else "tttt" if place < 3 else "oooo", "tras", 26)
        p.text(place * 150, 136, name, "small")
    p.text(0, 12, "scores, costs, valid [B, C, K] → losses [B, C]", "code small")
    return p


def classifier() -> Picture:
    """How far the gradient goes."""
    p = Picture("The gradient goes back through the whole network, or through the last step alone", 560, 180)
    for row, (name, reach) in enumerate(
        (("network: through every state to the input", 4), ("cell: through the step of the cell alone", 1))
    ):
        y = 24 + row * 84
        p.text(0, y - 8, name, "small")
        for place, word in enumerate(("encode", "step", "step", "step", "loss")):
            kind = "bad" if word == "loss" else "own" if place >= 4 - reach else "soft"
            p.named(place * 108, y, 76, word, kind)
            if place < 4:
                p.arrow((place * 108 + 77, y + 15), (place * 108 + 106, y + 15))
        p.arrow(
            (4 * 108 + 38, y + 32),
            (4 * 108 + 38, y + 46),
            ((4 - reach) * 108 + 38, y + 46),
            ((4 - reach) * 108 + 38, y + 32),
        )
    return p


def model() -> Picture:
    """Memory, rows and steps."""
    p = Picture("The input is read once; rows of partial outputs are stepped together", 600, 190)
    p.named(0, 60, 80, "inputs")
    p.arrow((81, 75), (108, 75))
    p.named(110, 60, 84, "encode", "own")
    p.arrow((195, 75), (222, 75))
    p.named(224, 60, 84, "memory")
    p.text(200, 110, "[B, ...]", "code small")
    p.text(200, 128, "read once", "small")
    for row in range(3):
        y = 10 + row * 50
        p.arrow((309, 75), (338, y + 15))
        p.named(340, y, 60, "step", "own")
        p.arrow((401, y + 15), (428, y + 15))
        p.bars(432, y + 30, [8, 26, 12, 4], "oooo", "", 16)
        p.text(506, y + 20, f"row {row}", "small")
    p.text(340, 178, "tokens [B, R] → scores [B, R, V]", "code small")
    return p


def algorithm() -> Picture:
    """Search and learning."""
    p = Picture("Every algorithm is a search without gradient, then a loss on traced scores", 600, 170)
    for place, (word, kind) in enumerate(
        (("batch", "soft"), ("roll in", "own"), ("branch", "own"), ("roll out", "own"), ("cost", "own"))
    ):
        p.named(place * 112, 10, 84, word, kind)
        if place < 4:
            p.arrow((place * 112 + 85, 25), (place * 112 + 110, 25))
    p.arrow((42, 41), (42, 105), (108, 105))
    p.named(110, 90, 84, "trace", "true")
    p.arrow((195, 105), (332, 105))
    p.named(334, 90, 84, "loss", "true")
    p.arrow((490, 41), (490, 105), (420, 105))
    p.arrow((154, 41), (154, 88))
    p.text(0, 156, "blue: search, no gradient", "small")
    p.text(200, 156, "green: learning, one teacher-forced pass", "small")
    return p


def decoding() -> Picture:
    """Three ways to write an output."""
    p = Picture("Greedy keeps one row, a beam several, sampling draws", 600, 190)
    for place, (name, paths) in enumerate((("greedy", [0]), ("beam 2", [0, 1]), ("sampling", [2]))):
        x = place * 205
        p.text(x, 180, name)
        for level in range(1, 4):
            for row in range(3):
                taken = row in paths
                p.named(
                    x + level * 46 - 20 + 10, 12 + row * 44, 30, "abc"[(row + level) % 3], "own" if taken else "empty"
                )
        p.box(x, 56, 14, 30, "soft")
        for row in paths:
            p.arrow((x + 15, 71), (x + 34, 27 + row * 44))
            p.arrow((x + 67, 27 + row * 44), (x + 81, 27 + row * 44))
            p.arrow((x + 113, 27 + row * 44), (x + 127, 27 + row * 44))
    return p


def task() -> Picture:
    """Inputs and outputs of the tasks."""
    p = Picture("A task is pairs of inputs and outputs, a vocabulary and a metric", 600, 176)
    rows = (
        ("ocr", "pictures of letters", "cats"),
        ("spelling", "cxts", "cats"),
        ("translation", "ein Mann schläft", "a man sleeps"),
        ("chunking", "The/DT pound/NN fell/VBD", "B-NP I-NP B-VP"),
        ("g2p", "cats", "K AE T S"),
    )
    for row, (name, source, target) in enumerate(rows):
        y = row * 35
        p.text(0, y + 20, name)
        p.named(100, y, 220, source)
        p.arrow((321, y + 15), (356, y + 15))
        p.named(358, y, 180, target, "true")
    return p


PICTURES = {
    function.__name__.replace("_", "-"): function
    for function in (
        search,
        roll_in,
        roll_out,
        oracle,
        cost,
        tokens,
        cells,
        loss,
        classifier,
        model,
        algorithm,
        decoding,
        task,
    )
}


def main() -> None:
    """Write them all."""
    folder = Path(__file__).parents[1] / "pictures"
    for name, draw in PICTURES.items():
        (folder / f"{name}.svg").write_text(draw().svg(), encoding="utf-8")


if __name__ == "__main__":
    main()
