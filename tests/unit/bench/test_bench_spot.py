from engine.bench.spot import recovered
from engine.events import DrafterTrained


def session(published: bool, before: float, after: float) -> DrafterTrained:
    accuracy = {f"{name}_{when}": value for name in ("top1", "top3", "held_out") for when, value in (("before", before), ("after", after))}
    return DrafterTrained(step=0, drafter_version=1, published=published, reason="", microsteps=1, tokens=1, loss=0.0, **accuracy)


def test_each_session_is_measured_by_what_the_engines_had_after_the_one_before() -> None:
    """The second one was not published: the engines keep 0.6 under the new target, of 0.8 before its update."""
    found = [session(True, 0.5, 0.8), session(False, 0.6, 0.7), session(True, 0.5, 0.75)]
    assert recovered(found) == {name: [0.75, 1.25] for name in ("top1", "top3", "held_out")}
    assert recovered(found[:1]) == {"top1": [], "top3": [], "held_out": []}
