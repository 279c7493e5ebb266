"""What a plan says of where TLT pays."""

from dashboard.views.planner.answers import break_evens
from longtail.schemas.plans import BreakEven


def test_what_is_varied_comes_before_where_it_pays() -> None:
    found = [
        BreakEven(input="mean response length in tokens", value=12.4, pays="above"),
        BreakEven(input="requests of a worker", value=None, pays="everywhere"),
    ]
    assert list(break_evens(found)) == [
        "Mean response length in tokens: TLT pays above 12.4",
        "Requests of a worker: TLT pays everywhere from a 32nd to 32 times of what was assumed",
    ]
