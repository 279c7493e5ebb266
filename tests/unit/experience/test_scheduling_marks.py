"""What the timeline tells of a rollout's tail."""

from engine.experience.scheduling_marks import marks
from engine.rollout.decoding_timeline import Moment
from engine.rollout.interface import Completion, Finish, PartialResponse, Request

BEGUN = PartialResponse((7,), (-0.1,), ((0, 1),))
SHARES = [[Request(0, 0, (1,), BEGUN), Request(1, 0, (1,), BEGUN)], [Request(2, 1, (1,)), Request(3, 1, (1,))], []]
MOMENTS = {0: [Moment(10.0, 2, "off"), Moment(14.0, 0, "off")], 1: [Moment(10.5, 2, "off"), Moment(13.0, 0, "off")], 2: []}


def completions(*finishes: Finish) -> list[Completion]:
    requests = [request for share in SHARES for request in share]
    return [Completion(request, (7, 7), (-0.1, -0.1), finish, 1, 0) for request, finish in zip(requests, finishes, strict=True)]


def test_a_share_tells_when_it_began_with_what_and_what_was_stopped() -> None:
    found = marks(SHARES, completions("stop", "abort", "abort", "abort"), {0: 10.4, 1: 20.0, 2: 5.0, 3: 6.0}, MOMENTS)
    assert found == {
        0: [(10.0, "longest_first", 30), (10.0, "carried", 2), (14.0, "stopped", 1)],
        1: [(10.5, "longest_first", 11), (13.0, "stopped", 2)],
    }


def test_what_was_generated_beside_the_last_update_is_not_where_a_share_begins() -> None:
    late = [Moment(7.0, 3, "off"), Moment(8.0, 2, "off"), Moment(9.0, 0, "off")]
    moments = {0: late + MOMENTS[0], 1: late}
    found = marks(SHARES, completions("stop", "abort", "stop", "stop"), {}, moments)
    assert found == {0: [(10.0, "carried", 2), (14.0, "stopped", 1)], 1: []}


def test_where_nothing_was_done_nothing_is_told() -> None:
    assert marks(SHARES, completions("stop", "stop", "length", "stop"), {}, MOMENTS) == {0: [(10.0, "carried", 2)], 1: []}
