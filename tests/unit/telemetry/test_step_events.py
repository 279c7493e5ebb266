"""Events of a step, from its results."""

from math import isnan

import pytest

from engine.cluster.distributed_rollout.coordinator import ActivitySpan
from engine.cluster.distributed_rollout.driver import Rollout
from engine.cluster.spot_training.drafter_versions import Published
from engine.cluster.worker_group import Learning
from engine.drafter.held_out_evaluation import UNJUDGED, Judged
from engine.drafter.training_report import TrainingReport
from engine.events import Alarm, AnyEvent, ArmStatistics, Decoding, DrafterTrained, Sample, StepFinished
from engine.experience.collection import Experience
from engine.experience.evaluation import Evaluation
from engine.rollout.decoding_timeline import Moment
from engine.rollout.interface import SOURCES, Completion, Request, RolloutStatistics, SchedulingMark
from engine.tasks.task import Prompt
from engine.telemetry import step_events

COLLAPSED = ("acceptance_collapsed", "With target 4 and drafter 2, 3% of the drafts' first tokens are accepted")
RECOVERED = ("acceptance_recovered", "With target 5 and drafter 3, 61% of the drafts' first tokens are accepted")


def completion(index: int) -> Completion:
    sources = bytes([SOURCES.index("eagle"), SOURCES.index("target")][: index + 1])
    return Completion(Request(index, 0, (1,)), (5,) * (index + 1), (-1.0,) * (index + 1), "stop", 4, 2, sources)


def events(
    statistics: RolloutStatistics, published: Published | None = None, evaluation: Evaluation | None = None, **metrics: float
) -> list[AnyEvent]:
    """Of step 7: one prompt with two responses, one worker."""
    busy = (ActivitySpan(0, "BUSY", 10.0, 12.0),)
    rollout = Rollout([completion(0), completion(1)], statistics, busy, {}, 12.0, 12.0, worker_tokens={0: 9, 1: 3})
    experience = Experience([Prompt("2 3 -> 5 =", (1,), None)], rollout, ["a", "bb"], [1.0, 0.0], [0, 1], 12.5)
    learning = Learning({"loss": 0.5} | metrics, 0.5)
    step = step_events.StepRecord(7, 10.0, 14.0, experience, 13.0, learning, published, evaluation, advantages={0: 0.7})
    return list(step_events.events(step, lambda tokens: "b" * len(tokens)))


def test_the_phases_of_a_step_add_up_to_its_time() -> None:
    (step,) = [event for event in events(RolloutStatistics()) if isinstance(event, StepFinished)]
    assert step.phases == {"rollout": 2.0, "reward": 0.5, "inference": 0.5, "update": 0.5, "sync": 0.5}
    assert step.seconds == sum(step.phases.values())
    assert step.metrics["kept_share"] == 1.0
    assert (step.metrics["generated_tokens"], step.metrics["worker/0/tokens_per_second"]) == (0.0, 4.5)


def test_what_a_full_cache_made_wait_is_counted_where_it_is_known() -> None:
    counted, uncounted = RolloutStatistics(preemptions=3), RolloutStatistics()
    uncounted.add(RolloutStatistics())
    counted.add(RolloutStatistics(preemptions=2))
    told = [event.metrics for statistics in (counted, uncounted) for event in events(statistics) if isinstance(event, StepFinished)]
    assert [metrics.get("preemptions") for metrics in told] == [5.0, None]


def worker(*alarms: tuple[str, str]) -> RolloutStatistics:
    return RolloutStatistics(alarms=list(alarms))


def test_alarms_of_all_workers_become_events_of_the_step_each_once() -> None:
    same_code, same_message = (COLLAPSED[0], "another message"), (RECOVERED[0], COLLAPSED[1])
    statistics = worker(COLLAPSED, RECOVERED)
    statistics.add(worker(COLLAPSED))
    statistics.add(worker(same_code, same_message))
    in_evaluation = ("engine_restarted", "SGLang died")
    told = events(statistics, evaluation=Evaluation({}, 13.5, [RECOVERED, in_evaluation]))
    alarms = [event for event in told if isinstance(event, Alarm)]
    assert [(alarm.step, alarm.code, alarm.message) for alarm in alarms] == [
        (7, *alarm) for alarm in (COLLAPSED, RECOVERED, same_code, same_message, in_evaluation)
    ]


@pytest.mark.parametrize(("skipped", "told"), [(1.0, "an update was left out"), (2.0, "2 updates were left out")])
def test_an_update_that_is_left_out_is_an_alarm(skipped: float, told: str) -> None:
    (alarm,) = [event for event in events(RolloutStatistics(), skipped_updates=skipped) if isinstance(event, Alarm)]
    assert alarm.code == "update_skipped"
    assert alarm.message.startswith(told)


def test_a_session_of_the_drafter_tells_how_good_its_mix_of_lengths_was() -> None:
    report = TrainingReport(12, 3000, 0.5, Judged(0.4, 0.5, 0.6), Judged(0.45, 0.7, 0.8), mix_distance=0.125)
    (event,) = [event for event in events(RolloutStatistics(), Published(3, True, "better", report)) if isinstance(event, DrafterTrained)]
    assert (event.drafter_version, event.published, event.microsteps, event.mix_distance) == (3, True, 12, 0.125)
    assert (event.held_out_before, event.top1_before, event.top3_before) == (0.4, 0.5, 0.6)
    assert (event.held_out_after, event.top1_after, event.top3_after) == (0.45, 0.7, 0.8)


def test_what_training_the_drafter_took_is_told_of_steps_in_whose_tail_it_was_trained() -> None:
    sessions = [TrainingReport(steps, 0, 0.5, Judged(0.4), Judged(0.45), 0.1) for steps in (12, 0)]
    published = [Published(3, False, "flat", report, cost=0.25) for report in sessions]
    told = [events(RolloutStatistics(), each)[-1] for each in (*published, None)]
    costs = [event.metrics.get("training_cost_seconds") for event in told if isinstance(event, StepFinished)]
    assert costs == [0.25, None, None]


def test_a_drafter_that_came_back_in_an_evaluation_is_told_after_the_one_that_was_trained() -> None:
    report = TrainingReport(12, 3000, 0.5, Judged(0.4), Judged(0.45), 0.125)
    back = Published(4, True, "acceptance collapsed: version 2 again", TrainingReport(0, 0, 0.0, Judged(0.1), Judged(0.4), 0.0))
    told = events(RolloutStatistics(), Published(3, True, "better", report), Evaluation({}, 13.5, [COLLAPSED], back))
    found = [(event.drafter_version, event.microsteps) for event in told if isinstance(event, DrafterTrained)]
    assert found == [(3, 12), (4, 0)]


def test_a_sample_tells_what_made_its_tokens() -> None:
    longest, shortest = [event for event in events(RolloutStatistics()) if isinstance(event, Sample)]
    assert (longest.response, longest.pieces) == ("bb", [("eagle", 1, 1), ("target", 1, 1)])
    assert (shortest.response, shortest.pieces) == ("a", [("eagle", 1, 1)])


def test_a_sample_tells_how_it_did_within_its_group() -> None:
    """The first of the two was right, and learned from."""
    longest, shortest = [event for event in events(RolloutStatistics()) if isinstance(event, Sample)]
    assert (shortest.reward, shortest.advantage, shortest.tokens, shortest.truncated) == (1.0, 0.7, 1, False)
    assert (longest.prompt_number, longest.group_rewards, longest.advantage) == (0, [1.0, 0.0], None)


def test_what_was_not_measured_of_a_drafter_is_not_told_as_nothing() -> None:
    back = Published(4, True, "acceptance collapsed", TrainingReport(0, 0, 0.0, UNJUDGED, Judged(0.4, 0.5, 0.6), 0.0))
    (event,) = [event for event in events(RolloutStatistics(), back) if isinstance(event, DrafterTrained)]
    assert (event.top1_before, event.top1_after, event.mix_distance, event.noise) == (None, 0.5, None, None)
    assert isnan(event.loss)


def test_a_step_without_speculation_tells_of_none() -> None:
    kinds = [event.kind for event in events(RolloutStatistics())]
    assert kinds == ["worker_state", "worker_state", "rollout", "sample", "sample", "step"]


def test_how_each_worker_decoded_is_told_from_its_start_on() -> None:
    statistics = RolloutStatistics(moments={1: [Moment(10.0, 4, "off"), Moment(10.5, 2, "mixed")]})
    statistics.add(RolloutStatistics(moments={0: [Moment(20.0, 1, "off")], 1: [Moment(11.25, 0, "off")], 2: []}))
    told = [event for event in events(statistics) if isinstance(event, Decoding)]
    assert [(event.step, event.worker, event.start, event.points) for event in told] == [
        (7, 0, 20.0, [(0.0, 1, "off")]),
        (7, 1, 10.0, [(0.0, 4, "off"), (0.5, 2, "mixed"), (1.25, 0, "off")]),
    ]


def test_what_was_done_about_the_tail_of_both_rollouts_of_a_step_is_told() -> None:
    statistics = RolloutStatistics(moments={0: [Moment(10.0, 4, "off")]}, marks={0: [SchedulingMark(10.0, "longest_first", 900)]})
    statistics.add(RolloutStatistics(moments={0: [Moment(12.0, 0, "off")]}, marks={0: [SchedulingMark(11.0, "longest_first", 800)]}))
    (told,) = [event for event in events(statistics) if isinstance(event, Decoding)]
    assert told.marks == [(0.0, "longest_first", 900), (1.0, "longest_first", 800)]


def test_arms_and_alarms_come_before_what_sums_the_step_up() -> None:
    statistics = worker(COLLAPSED)
    statistics.arms = [ArmStatistics(bucket=1, strategy="eagle d6 k3 v12", pulls=1, requests=2, accepted=3, seconds=0.1)]
    kinds = [event.kind for event in events(statistics)]
    assert kinds.index("speculation") < kinds.index("alarm") < kinds.index("step") == len(kinds) - 1
