"""The grid of runs as a test sees it. It is drawn on a canvas; inside of that is a table for those who cannot see it."""

from page_cases import until
from playwright.sync_api import Page, expect

CELLS = "rows => rows.map(row => [...row.querySelectorAll('td')].map(cell => cell.textContent))"
"""All at once: between two looks the grid may be drawn anew."""
HEAD_HEIGHT, ROW_HEIGHT = 35, 36
MARK, NAME = 16, 70
"""Where the box to select a row, and the name, lie from the left."""


class Grid:
    def __init__(self, page: Page) -> None:
        self.page = page
        self.frame = page.get_by_test_id("stDataFrame")
        self.canvas = self.frame.get_by_test_id("data-grid-canvas")

    def heads(self) -> list[str]:
        return self.frame.locator("th").all_text_contents()

    def rows(self) -> list[dict[str, str]]:
        """Those in view, by column."""
        heads = [head.rstrip(" ▼▲") for head in self.heads()]
        rows = self.frame.locator("tbody tr").evaluate_all(CELLS)
        return [dict(zip(heads, cells, strict=False)) for cells in rows]

    def names(self) -> list[str]:
        return [row.get("Name", "").replace("\u2060", "") for row in self.rows()]

    def has(self, *names: str) -> None:
        """Waits until these are its rows, from the top."""
        until(self.names, lambda seen: seen == list(names))

    def row(self, name: str) -> int:
        return until(self.names, lambda seen: name in seen).index(name)

    def select(self, *names: str) -> None:
        for name in names:
            self._click(MARK, (self.row(name) + 0.5) * ROW_HEIGHT)

    def open(self, name: str) -> None:
        self._click(NAME, (self.row(name) + 0.5) * ROW_HEIGHT)

    def sort_by_name(self, mark: str) -> None:
        """Clicks on the column's head, which then has the mark."""
        self._click(NAME, -0.5 * HEAD_HEIGHT)
        until(self.heads, lambda heads: f"Name {mark}" in heads)

    def _click(self, left: float, down: float) -> None:
        """So many pixels from the left, and below the head. Something transparent that scrolls lies above the canvas: hence ``force``,
        which does not wait until there is something to see."""
        expect(self.canvas).to_be_visible()
        self.canvas.click(position={"x": left, "y": HEAD_HEIGHT + down}, force=True)
