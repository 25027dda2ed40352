"""Small pictures as SVG: cells with letters, words, arrows and bars.

Their colours follow what the reader's system prefers; the site puts them into its pages, where they follow its switch.
"""

from __future__ import annotations

from html import escape

LIGHT = "--ink:#1f2933;--line:#6b7785;--soft:#e9edf2;--true:#cdeee3;--true-line:#0b7a5b;--own:#d6e6fb;--own-line:#2563b0;--bad:#fde2c8;--bad-line:#b4540a"  # noqa: E501
DARK = "--ink:#e6edf3;--line:#93a1b0;--soft:#2f3742;--true:#0f4a3a;--true-line:#4fd1a5;--own:#173a66;--own-line:#7db4f5;--bad:#5a2f0c;--bad-line:#f5a35c"  # noqa: E501
STYLE = (
    f".pic{{{LIGHT};color:var(--ink)}}@media(prefers-color-scheme:dark){{.pic{{{DARK}}}}}"
    ".pic text{font:15px ui-sans-serif,system-ui,sans-serif;fill:var(--ink)}"
    ".pic .code{font-family:ui-monospace,monospace}"
    ".pic .small{font-size:13px}.pic .arrow{stroke:var(--line);stroke-width:1.5;fill:none}.pic .head{fill:var(--line)}"
    + "".join(
        f".pic .{kind}{{fill:var(--{kind});stroke:var(--{kind}-line);stroke-width:1.5}}"
        for kind in ("true", "own", "bad")
    )
    + ".pic .soft{fill:var(--soft);stroke:var(--line);stroke-width:1}"
    ".pic .empty{fill:none;stroke:var(--line);stroke-dasharray:3 3}"
)
SIZE = 30  # a cell's width and height
KINDS = {".": "soft", "t": "true", "o": "own", "x": "bad", "_": "empty"}


class Picture:
    """A drawing that grows part by part."""

    def __init__(self, title: str, width: int, height: int) -> None:
        self.title, self.width, self.height = title, width, height
        self.parts: list[str] = []

    def text(self, x: float, y: float, text: str, style: str = "", anchor: str = "start") -> None:
        """Words; `y` is their base line."""
        self.parts.append(f'<text x="{x:g}" y="{y:g}" class="{style}" text-anchor="{anchor}">{escape(text)}</text>')

    def box(self, x: float, y: float, width: float, height: float, kind: str = "soft") -> None:
        """A rectangle."""
        self.parts.append(f'<rect x="{x:g}" y="{y:g}" width="{width:g}" height="{height:g}" rx="4" class="{kind}"/>')

    def named(self, x: float, y: float, width: float, text: str, kind: str = "soft") -> None:
        """A rectangle with a word in it."""
        self.box(x, y, width, SIZE, kind)
        self.text(x + width / 2, y + 20, text, "", "middle")

    def cells(self, x: float, y: float, letters: str, kinds: str) -> None:
        """A row of cells with a letter in each; `kinds` has a sign for each cell."""
        for place, (letter, kind) in enumerate(zip(letters, kinds, strict=True)):
            self.box(x + place * (SIZE + 4), y, SIZE, SIZE, KINDS[kind])
            if letter != " ":
                self.text(x + place * (SIZE + 4) + SIZE / 2, y + 20, letter, "code", "middle")

    def arrow(self, *points: tuple[float, float], head: bool = True) -> None:
        """A line through the points, with a head at its end."""
        path = "M" + " L".join(f"{x:g} {y:g}" for x, y in points)
        self.parts.append(f'<path d="{path}" class="arrow"/>')
        if head:
            (x0, y0), (x, y) = points[-2:]
            length = ((x - x0) ** 2 + (y - y0) ** 2) ** 0.5
            dx, dy = (x - x0) / length * 8, (y - y0) / length * 8
            corners = f"{x:g},{y:g} {x - dx - dy / 2:g},{y - dy + dx / 2:g} {x - dx + dy / 2:g},{y - dy - dx / 2:g}"
            self.parts.append(f'<polygon points="{corners}" class="head"/>')

    def line(self, start: tuple[float, float], end: tuple[float, float], kind: str) -> None:
        """A straight line."""
        (x0, y0), (x, y) = start, end
        self.parts.append(f'<line x1="{x0:.1f}" y1="{y0:.1f}" x2="{x:.1f}" y2="{y:.1f}" class="{kind}"/>')

    def dot(self, x: float, y: float, kind: str, name: str) -> None:
        """A point, which tells its name where one points at it."""
        self.parts.append(
            f'<circle cx="{x:.1f}" cy="{y:.1f}" r="4.5" class="{kind}"><title>{escape(name)}</title></circle>'
        )

    def bars(self, x: float, base: float, heights: list[float], kinds: str, names: str = "", step: float = 22) -> None:
        """Columns over a base line, a letter under each."""
        for place, (height, kind) in enumerate(zip(heights, kinds, strict=True)):
            self.box(x + place * step, base - max(height, 1.5), step - 6, max(height, 1.5), KINDS[kind])
            if names:
                self.text(x + place * step + (step - 6) / 2, base + 16, names[place], "code small", "middle")

    def svg(self) -> str:
        """The file."""
        size = f'viewBox="0 0 {self.width} {self.height}" width="{self.width}"'
        head = f'<svg xmlns="http://www.w3.org/2000/svg" class="pic" {size} role="img">'
        lines = (head, f"<title>{escape(self.title)}</title>", f"<style>{STYLE}</style>", *self.parts, "</svg>", "")
        return "\n".join(lines)
