from dashboard.analysis.drafter_training import AccuracyDrop, accuracies, accuracy_drops, dips_told, untrained_reasons
from dashboard.charts import drafter_accuracy
from longtail.schemas.telemetry import DrafterSession, SpeculationStep


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
    found = accuracy_drops(
        accuracies([session(0, 0.3, 0.5), session(1, 0.4, 0.6), session(4, 0.5, 0.45, published=False)], "accepted drafts")
    )
    assert found == [AccuracyDrop(1, 0.5, 0.4, 0.6), AccuracyDrop(4, 0.6, 0.5, 0.5)]
    assert [(dip.is_dip, dip.recovered) for dip in found] == [(True, True), (True, False)]
    before, after = drafter_accuracy.accuracy_drops_by_session(found, "accepted drafts").data
    assert [round(value) for value in before.y] == [-10, -10]
    assert [round(value) for value in after.y] == [10, -10]


def test_only_dips_are_counted() -> None:
    """Twelve of thirteen sessions had lost nothing; the one that had did not bring it back."""
    sessions = [session(0, 0.3, 0.5), *(session(step, 0.5, 0.5) for step in range(1, 13)), session(13, 0.4, 0.42)]
    drops = accuracy_drops(accuracies(sessions, "accepted drafts"))
    lost, no_dip = "1 of 13 sessions found less than 95\xa0% of the level before", "No session found less than 95\xa0% of the level before."
    assert dips_told(drops) == f"{lost}; its training brought that back in none of these."
    made_good = [*sessions[:-1], session(13, 0.4, 0.49)]
    told = f"{lost}; its training brought that back in 1 of these."
    assert dips_told(accuracy_drops(accuracies(made_good, "accepted drafts"))) == told
    assert dips_told(drops[:-1]) == no_dip
    seldom = accuracy_drops(accuracies([session(0, 0.3, 0.5), session(20, 0.4, 0.5), session(40, 0.5, 0.5)], "accepted drafts"))
    assert dips_told(seldom).startswith("1 of 2 sessions found "), "many updates lie between two sessions"


def test_what_was_not_measured_is_left_out() -> None:
    sessions = [session(0, 0.3, 0.5), session(1, 0.4, 0.6, top1_before=0.7, top1_after=0.8)]
    assert [(one.session.step, one.before, one.after) for one in accuracies(sessions, "top-1")] == [(1, 0.7, 0.8)]
    assert accuracies(sessions, "top-3") == []
    assert accuracy_drops(accuracies(sessions, "top-1")) == []


def test_why_nobody_trained_has_a_line_for_each_reason() -> None:
    reasons = [None, "no worker was idle", "acceptance is flat", None, "no worker was idle"]
    steps = [
        SpeculationStep(step=step, arms=[], drafted_by_position=[], accepted_by_position=[], untrained=reason)
        for step, reason in enumerate(reasons, 3)
    ]
    assert untrained_reasons(steps) == [
        "Drafter not trained in steps 4, 7: no worker was idle",
        "Drafter not trained in step 5: acceptance is flat",
    ]
    assert untrained_reasons(steps[:1]) == []
