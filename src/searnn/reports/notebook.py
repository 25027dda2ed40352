"""The progress line of training in a notebook: a bar that is redrawn in place, without widgets."""

from __future__ import annotations

import html
from io import StringIO
from typing import Any

from rich.console import Console

from searnn.reports.progress import ProgressLine
from searnn.training import Plan


def in_notebook() -> bool:
    """Whether what is displayed goes to a notebook."""
    return Console().is_jupyter


class Bar:
    """What a notebook shows: how far the training is, and the words of the progress line."""

    def __init__(self, share: float | None, text: str) -> None:
        self.share, self.text = share, text

    def __repr__(self) -> str:
        return self.text

    def _repr_html_(self) -> str:
        value = "" if self.share is None else f' value="{self.share:.4f}"'
        told = html.escape(self.text)
        return f'<progress max="1"{value} style="width:12em" aria-label="training"></progress> {told}'


class NotebookLine(ProgressLine):
    """Shows in a notebook what the progress line shows on a terminal."""

    def __init__(self) -> None:
        super().__init__(Console(file=StringIO(), force_jupyter=False, force_terminal=False))

    def start(self, plan: Plan) -> None:
        """Training begins."""
        super().start(plan)
        self.live: Any = Redrawn(self._line())

    def _line(self) -> Any:
        return Bar(self.share(), self.text())


class Redrawn:
    """Something displayed once and replaced in place, with the methods of rich's `Live` that the line uses."""

    def __init__(self, shown: Bar) -> None:
        from IPython.display import display  # type: ignore[import-not-found,unused-ignore]

        self.handle = display(shown, display_id=True)

    def update(self, shown: Bar, refresh: bool) -> None:
        """Replace what is shown."""
        if self.handle is not None:
            self.handle.update(shown)

    def stop(self) -> None:
        """The last line stays."""
