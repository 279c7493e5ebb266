"""Pages of a list that is read by cursors, with numbers."""

from collections.abc import Callable

from longtail.schemas.runs import Run, RunPage

FetchPage = Callable[[str | None], RunPage]


class NumberedPages:
    """As far as they are known; ``choice`` is what the list is of. A page begins where the one before it ended when it was last seen, so
    that nothing is passed over while runs come in."""

    def __init__(self, choice: str) -> None:
        self.choice = choice
        self._cursors: list[str | None] = [None]

    def read(self, number: int, ask: FetchPage) -> tuple[list[Run], int]:
        """The runs of page ``number``, from 1, or of the last one there is; and how many pages are known to be there."""
        while True:
            at = min(number, len(self._cursors))
            page = ask(self._cursors[at - 1])
            self._cursors[at:] = [page.next_cursor] if page.next_cursor else []
            if at == number or page.next_cursor is None:
                return page.items, len(self._cursors)


def first_runs(ask: FetchPage, most: int) -> tuple[list[Run], int, bool]:
    """The first ``most`` runs of a list; how many pages that took, and whether there are more. One that moves on meanwhile counts once."""
    found: dict[str, Run] = {}
    cursor, pages = None, 0
    while pages == 0 or (cursor is not None and len(found) < most):
        page = ask(cursor)
        found |= {run.id: run for run in page.items}
        cursor, pages = page.next_cursor, pages + 1
    return [*found.values()][:most], pages, cursor is not None or len(found) > most
