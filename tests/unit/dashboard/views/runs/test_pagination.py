from example_runs import run

from dashboard.views.runs.grouped_runs import GroupedRuns
from dashboard.views.runs.pagination import NumberedPages, first_runs
from longtail.schemas.runs import RunPage

SIZE = 3


class Listing:
    """Names, newest first; a cursor is the name that a page comes after."""

    def __init__(self, count: int) -> None:
        self.names = [str(number) for number in reversed(range(count))]
        self.asked = 0

    def __call__(self, cursor: str | None) -> RunPage:
        self.asked += 1
        first = 0 if cursor is None else self.names.index(cursor) + 1
        found = self.names[first : first + SIZE]
        more = self.names[first + SIZE :]
        return RunPage(items=[run(name, {"name": name, "task": int(name) % 2}) for name in found], next_cursor=found[-1] if more else None)


def names(pages: NumberedPages, number: int, listing: Listing) -> tuple[str, int]:
    runs, count = pages.read(number, listing)
    return "".join(each.name for each in runs), count


def test_pages_are_known_as_they_are_seen() -> None:
    pages, listing = NumberedPages(""), Listing(8)
    assert names(pages, 1, listing) == ("765", 2)
    assert names(pages, 2, listing) == ("432", 3)
    assert names(pages, 3, listing) == ("10", 3)
    assert names(pages, 1, listing) == ("765", 2)
    assert listing.asked == 4, "one request for each"


def test_an_address_may_name_any_page() -> None:
    assert names(NumberedPages(""), 3, Listing(8)) == ("10", 3)
    assert names(NumberedPages(""), 9, Listing(8)) == ("10", 3), "the last one there is"
    assert names(NumberedPages(""), 2, Listing(0)) == ("", 1)


def test_nothing_is_passed_over_while_runs_come_in() -> None:
    pages, listing = NumberedPages(""), Listing(6)
    assert names(pages, 2, listing) == ("210", 2)
    listing.names = ["8", "7", "6", *listing.names]
    assert names(pages, 2, listing) == ("210", 2), "it stays as it was"
    assert names(pages, 1, listing) == ("876", 2)
    assert names(pages, 2, listing) == ("543", 3)


def test_the_first_runs_are_those_of_as_many_pages_as_it_takes() -> None:
    runs, pages, has_more = first_runs(Listing(8), 100)
    assert ([each.name for each in runs], pages, has_more) == ([*"76543210"], 3, False)
    runs, pages, has_more = first_runs(Listing(8), 4)
    assert ([each.name for each in runs], pages, has_more) == ([*"7654"], 2, True)
    assert first_runs(Listing(3), 3)[2] is False
    assert first_runs(Listing(0), 3) == ([], 1, False)


def test_seeds_are_one_row_on_whichever_page_they_are() -> None:
    """And an open page asks for all of them only so often that it is one request in two seconds."""
    listing, grouped = Listing(8), GroupedRuns("")
    for now in range(31):
        grouped.refresh(listing, float(now))
    assert [[each.name for each in group.runs] for group in grouped.groups] == [[*"7531"], [*"6420"]]
    assert (grouped.has_more, listing.asked) == (False, 6 * 3)
