from dashboard.charts.description import description, table
from dashboard.charts.planned_costs import costs_by_gpus, influences, phases_by_arm
from longtail.schemas.plans import Influence, Offer, PlannedArm


def arm(name: str, rollout: float) -> PlannedArm:
    phases = {"rollout": rollout, "reward": 0.0, "update": 2.0}
    return PlannedArm(
        name=name,
        step_seconds=rollout + 2,
        phases=phases,
        checkpoint=0.0,
        hours=1.0,
        dollars=1.0,
        idle_share=0.1,
        accept_length=1.0,
        unused_share=0.0,
        strategies={},
    )


def test_every_arm_has_its_phases_and_what_takes_no_time_is_left_out() -> None:
    chart = phases_by_arm([arm("plain", 8.0), arm("TLT", 4.0)])
    assert {bar.name: list(bar.x) for bar in chart.data} == {"rollout": [8.0, 4.0], "update": [2.0, 2.0]}


def test_time_and_money_are_of_the_same_machines() -> None:
    offers = [Offer(machines=f"h100:{n}", gpus=n, hours=8 / n, dollars=n, plain_hours=16 / n, plain_dollars=2 * n) for n in (8, 16)]
    chart = costs_by_gpus(offers)
    first = chart.data[0]
    assert (first.name, list(first.x), list(first.y)) == ("TLT, hours", [8, 16], [1.0, 0.5])
    assert {line.yaxis for line in chart.data if "dollars" in line.name} == {"y2"}
    several = costs_by_gpus([offers[0], offers[1].model_copy(update={"machines": "b200:16"})])
    assert {line.mode for line in several.data} == {"markers"}, "a line would join different machines"


def test_an_input_has_a_mark_for_half_and_for_twice_of_it() -> None:
    chart = influences([Influence(input="response length", half=3.0, twice=9.0)], 5.0)
    assert [(marks.name, list(marks.x), list(marks.y)) for marks in chart.data] == [
        ("half", [3.0], ["response length"]),
        ("twice", [9.0], ["response length"]),
    ]
    assert chart.layout.shapes[0].x0 == 5.0
    told = "half: 3 at response length; twice: 9 at response length"
    assert description(chart) == f"Chart: seconds per step. {told}"
    assert table(chart) == {" ": ["response length"], "half": [3.0], "twice": [9.0]}
