"""The legend beside a chart."""

import re

from dashboard.charts.theme import figure, filled, striped, worker_line
from dashboard.charts.worker_timeline import MARKS as TAIL_MARKS
from dashboard.widgets.chart_legend import DASHES, MARKS, STRIPES, legend_html


def test_one_curve_needs_no_legend_and_two_have_each_its_name() -> None:
    chart = figure("x", "y")
    chart.add_scatter(x=[1], y=[2], name="a", line={"color": "#112233"})
    assert legend_html(chart) == ""
    chart.add_scatter(x=[1], y=[2], name="b", line={"color": "#445566", "dash": "dash"})
    chart.add_scatter(x=[1], y=[2], showlegend=False)
    html = legend_html(chart)
    assert re.findall("<span>(.*?)</span>", html) == ["a", "b"]
    assert "#112233" in html
    assert f"#445566 0 {DASHES['dash']}" in html


def test_names_are_text_whatever_they_look_like() -> None:
    chart = figure("x", "y").update_layout(showlegend=True)
    chart.add_bar(x=[1], y=[2], name="<img src=x>&lt;b&gt;", marker=filled("#112233", "x"))
    html = legend_html(chart)
    assert "&lt;img src=x&gt;&lt;b&gt;" in html
    assert "<img" not in html
    assert html.count("repeating-linear-gradient") == len(STRIPES["x"]) == 2


def test_the_swatch_of_an_area_has_its_pattern() -> None:
    chart = figure("x", "y").update_layout(showlegend=True)
    for name, shape in (("a", ""), ("b", "x")):
        chart.add_scatter(x=[1, 2], y=[2, 2], name=name, stackgroup="all", **striped("#112233", shape))
    plain, patterned = re.findall("<li.*?</li>", legend_html(chart))
    assert (plain.count("repeating-linear-gradient"), patterned.count("repeating-linear-gradient")) == (0, len(STRIPES["x"]))


def test_every_mark_and_dash_that_charts_use_can_be_drawn() -> None:
    assert {symbol for _, symbol, _, _ in TAIL_MARKS.values()} <= MARKS.keys()
    assert {worker_line(index)["dash"] for index in range(24)} <= DASHES.keys() | {"solid"}
