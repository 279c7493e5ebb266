from backend.schemas.telemetry import DrafterSession
from dashboard.charts import drafters
from dashboard.dips import Dip, accuracies, dips


def session(step: int, before: float, after: float, published: bool = True, **more: float) -> DrafterSession:
    return DrafterSession(
        step=step,
        time=0.0,
        drafter_version=step,
        published=published,
        reason="",
        microsteps=1,
        tokens=1,
        loss=0.5,
        held_out_before=before,
        held_out_after=after,
        **more,
    )


def test_a_dip_is_against_what_the_engines_held_after_the_session_before() -> None:
    found = dips(accuracies([session(0, 0.3, 0.5), session(1, 0.4, 0.6), session(4, 0.5, 0.45, published=False)], "accepted drafts"))
    assert found == [Dip(1, 0.5, 0.4, 0.6), Dip(4, 0.6, 0.5, 0.5)]
    assert [dip.recovered for dip in found] == [True, False]
    before, after = drafters.dips(found, "accepted drafts").data
    assert [round(value) for value in before.y] == [-10, -10]
    assert [round(value) for value in after.y] == [10, -10]


def test_what_was_not_measured_is_left_out() -> None:
    sessions = [session(0, 0.3, 0.5), session(1, 0.4, 0.6, top1_before=0.7, top1_after=0.8)]
    assert [(one.session.step, one.before, one.after) for one in accuracies(sessions, "top-1")] == [(1, 0.7, 0.8)]
    assert accuracies(sessions, "top-3") == []
    assert dips(accuracies(sessions, "top-1")) == []
