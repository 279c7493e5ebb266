from dashboard.analysis.tuner_performance import MEASURED_PULLS, Regret, batch_size_names, fastest, regret, strategy_uses
from dashboard.charts.strategy_heatmap import UNMEASURED, strategy_heatmap
from dashboard.charts.tuner_choices import choices_by_step, regret_by_step
from longtail.schemas.telemetry import Arm, SpeculationStep

SLOW, FAST = "off", "eagle d4 k1 v4"


def arm(strategy: str, tokens: int, seconds: float, bucket: int = 1, pulls: int = 10) -> Arm:
    return Arm(bucket=bucket, strategy=strategy, pulls=pulls, requests=10, accepted=tokens - 10, seconds=seconds)


def step(number: int, *strategy_uses: Arm) -> SpeculationStep:
    return SpeculationStep(step=number, arms=list(strategy_uses), drafted_by_position=[], accepted_by_position=[])


def test_arms_add_up_over_steps_by_batch_size_and_strategy() -> None:
    uses = strategy_uses([step(0, arm(SLOW, 20, 1.0), arm(FAST, 40, 1.0, bucket=8)), step(1, arm(SLOW, 30, 1.5))])
    assert (uses[1][SLOW].pulls, uses[1][SLOW].tokens, uses[1][SLOW].seconds) == (20, 50, 2.5)
    assert (uses[1][SLOW].rate, uses[1][SLOW].milliseconds) == (20.0, 125.0)
    assert set(uses[8]) == {FAST}


def test_an_arm_is_the_best_only_once_it_is_measured() -> None:
    assert fastest(strategy_uses([step(0, arm(SLOW, 20, 1.0), arm(FAST, 99, 1.0, pulls=MEASURED_PULLS - 1))])[1]) == SLOW
    assert fastest(strategy_uses([step(0, arm(SLOW, 20, 1.0), arm(FAST, 99, 1.0, pulls=MEASURED_PULLS))])[1]) == FAST
    assert fastest({}) is None


def test_regret_is_the_time_that_the_best_arm_of_the_bucket_would_have_saved() -> None:
    """At 10 instead of 40 tokens per second three quarters of the time are lost; the only arm of a bucket loses none."""
    (found,) = regret([step(7, arm(SLOW, 20, 2.0), arm(FAST, 40, 1.0), arm(SLOW, 10, 5.0, bucket=8))])
    assert found == Regret(7, 1.5, 8.0)


def test_regret_knows_no_more_than_the_steps_of_its_window() -> None:
    steps = [step(0, arm(FAST, 40, 1.0)), *(step(number, arm(SLOW, 20, 2.0)) for number in (1, 2))]
    assert [one.lost for one in regret(steps, window=2)] == [0.0, 1.5, 0.0]


def test_an_unmeasured_arm_loses_nothing_by_being_lucky() -> None:
    (found,) = regret([step(0, arm(SLOW, 20, 1.0), arm(FAST, 90, 1.0, pulls=1))])
    assert found.lost == 0.0
    assert regret([step(0, arm(SLOW, 20, 1.0, pulls=1))])[0].lost == 0.0
    assert regret([]) == []


def test_buckets_are_named_by_their_batch_sizes() -> None:
    assert batch_size_names([8, 1, 2]) == {1: "1", 2: "2 to 7", 8: "8 and more"}


def test_the_heat_map_has_a_cell_for_each_arm_and_marks_the_fastest() -> None:
    uses = strategy_uses([step(0, arm(SLOW, 20, 1.0), arm(FAST, 40, 1.0), arm(SLOW, 80, 1.0, bucket=8))])
    chart = strategy_heatmap(uses, "tokens per second")
    heat, star = chart.data
    assert (list(heat.x), list(heat.y)) == (["1 to 7", "8 and more"], ["chain 4", "plain"])
    assert list(chart.layout.xaxis.ticktext) == ["1–7", "8+"]
    assert [list(row) for row in heat.text] == [["40<br>★", ""], ["20", "80<br>★"]]
    assert [list(row) for row in heat.z] == [[1.0, None], [0.0, 1.0]]
    assert star.name == "fastest at as many requests"
    assert [list(row) for row in strategy_heatmap(uses, "pulls").data[0].text] == [["10<br>★", ""], ["10", "10<br>★"]]


def test_a_cell_is_short_for_a_phone_and_what_is_told_of_it_whole() -> None:
    uses = strategy_uses([step(0, arm(SLOW, 999, 1.0), arm(FAST, 1907, 1.0), arm(SLOW, 23_456, 1.0, bucket=16))])
    heat = strategy_heatmap(uses, "tokens per second").data[0]
    assert [list(row) for row in heat.text] == [["1.9k<br>★", ""], ["999", "23k<br>★"]]
    assert [list(row) for row in heat.customdata] == [["1,907<br>★", ""], ["999", "23,456<br>★"]]
    assert "%{customdata} tokens/s" in heat.hovertemplate


def test_sizes_of_two_digits_stand_in_two_lines() -> None:
    uses = strategy_uses([step(0, *(arm(SLOW, 20, 1.0, bucket=bucket) for bucket in (8, 16, 32)))])
    assert list(strategy_heatmap(uses, "pulls").layout.xaxis.ticktext) == ["8–15", "16–<br>31", "32+"]


def test_what_is_not_measured_yet_has_no_colour_of_the_scale() -> None:
    rare = Arm(strategy=FAST, bucket=1, pulls=MEASURED_PULLS - 1, requests=900, accepted=0, seconds=1.0)
    heat, unmeasured, _ = strategy_heatmap(strategy_uses([step(0, arm(SLOW, 20, 1.0), rare)]), "tokens per second").data
    assert [list(row) for row in heat.z] == [[None], [1.0]]
    assert [list(row) for row in unmeasured.z] == [[0.0], [None]]
    assert unmeasured.text[0][0] == "900 ?"
    assert {color for _, color in unmeasured.colorscale} == {UNMEASURED}


def test_choices_are_shares_of_the_time() -> None:
    off, chain = choices_by_step([step(3, arm(SLOW, 20, 1.0), arm(FAST, 40, 2.0), arm(FAST, 40, 1.0, bucket=8)), step(4)]).data
    assert (off.name, list(off.x), list(off.y)) == ("plain", [3, 4], [25, 0])
    assert (chain.name, list(chain.y)) == ("chain 4", [75, 0])


def test_a_long_run_is_drawn_in_few_bars() -> None:
    steps = [step(number, arm(FAST, 40, 1.0)) for number in range(1000)]
    (bars,) = choices_by_step(steps).data
    assert (len(bars.x), bars.x[1], set(bars.y)) == (334, 3, {100})
    assert len(regret_by_step(regret(steps)).data[0].x) == 334
