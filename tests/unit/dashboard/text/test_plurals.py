"""One of a thing is not told as several."""

from example_runs import run

from dashboard.analysis.sample_groups import SampleGroup
from dashboard.views.planner.answers import fitted, machines_told
from dashboard.views.run.header import pretraining_told
from dashboard.views.run.tabs.long_tail import lengths_told
from dashboard.views.run.tabs.samples import rewards_told
from dashboard.views.runs.bulk_actions import cancel_question
from longtail.schemas.plans import ComparedStep
from longtail.schemas.telemetry import Lengths, PretrainingRound, SampleItem


def test_responses() -> None:
    item = Lengths(step=3, lengths=[7], truncated=0, p50=7, p75=7, p90=7, max=7)
    assert lengths_told([item], 64) == "step 3: 1 response, 0 cut at the limit of 64 tokens"
    assert lengths_told([item, item.model_copy(update={"step": 4})], 64).startswith("steps 3 to 4: 2 responses, ")
    for rewards, told in (([1.0], "1 response, "), ([1.0, 0.0], "2 responses, ")):
        group = SampleGroup(0, "p", (SampleItem(step=0, prompt="p", response="r", reward=1.0, group_rewards=rewards),))
        assert rewards_told(group).startswith(f" · {told}")


def test_steps_and_runs() -> None:
    one, other = run("a", {"name": "first"}), run("b", {"name": "second"})
    assert cancel_question([one]) == "**Cancel first?** It stops within seconds; what it has written stays."
    assert cancel_question([one, other]) == "**Cancel first, second?** They stop within seconds; what they have written stays."
    latest = PretrainingRound(
        round=2,
        time=0.0,
        seconds=60.0,
        limit=600.0,
        end=600.0,
        done=False,
        responses=9,
        response_tokens=9,
        microsteps=1,
        tokens=9,
        loss=None,
        held_out=None,
        top1=None,
        top3=None,
        accept_length=None,
        vocabulary=0,
        drafter_version=1,
    )
    for steps, then in ((1, "then 1 step"), (12, "then 12 steps")):
        assert pretraining_told(one.model_copy(update={"step": 0, "steps": steps, "pretraining": latest})).endswith(then)


def test_a_plan() -> None:
    assert [machines_told(workers, "h100:8") for workers in (1, 2)] == ["1 worker on h100:8", "2 workers on h100:8"]
    step = ComparedStep(step=0, measured_s=2.0, predicted_s=3.0, measured_rollout_s=1.0, predicted_rollout_s=1.0)
    assert fitted([step]) == "1 recorded step took 2.00\xa0s; the plan, which was fitted to it, gives it 3.00\xa0s."
    assert fitted([step] * 2) == "2 recorded steps took 4.00\xa0s; the plan, which was fitted to them, gives them 6.00\xa0s."
