"""What the compare page draws and says, and what one takes away from it."""

import csv
import io
import re

import pytest
from example_runs import compared_run, compared_seed

from dashboard.analysis.step_phases import phase_means
from dashboard.charts.amdahl import amdahl, end_to_end
from dashboard.charts.comparison_curves import CurveOptions, TrainingClock, comparison_curves, metric_title
from dashboard.charts.description import table
from dashboard.charts.phase_times import phases_by_run
from dashboard.charts.theme import color, dash
from dashboard.text.run_labels import run_labels
from dashboard.views.compare.figures import ComparisonFigures
from dashboard.views.compare.html_report import ReportSection, comparison_report, html_page
from dashboard.views.compare.measures_csv import measures_csv
from dashboard.views.compare.settings_panels import MEASURES, figure_of, figure_titles, setting_of, without_mark
from dashboard.views.compare.tables import config_rows, run_rows
from longtail.schemas.comparison import AlignedMetric, Comparison, ConfigDifference, flat

NAMES = {"a": "plain", "b": "<b>tlt</b>"}


def metric(key: str, a: list[float | None], b: list[float | None], span: int = 1) -> AlignedMetric:
    return AlignedMetric(key=key, span=span, steps=[step * span for step in range(len(a))], values={"a": a, "b": b})


def comparison(*metrics: AlignedMetric, **figures: float) -> Comparison:
    plain = compared_seed("a", 1, False, rollout_share=0.8, seconds_per_step=4.0)
    tlt = compared_seed("b", 1, True, "run", rollout_speedup=2.0, e2e_speedup=1.6, **figures)
    different = [ConfigDifference(field="speculation.enabled", values={"a": False, "b": True})]
    return Comparison(baseline="a", items=[plain, tlt], config_diff=different, metrics=list(metrics))


def test_curves_over_steps_are_smoothed_and_named_as_text() -> None:
    figure = comparison_curves(metric("reward_mean", [0.0, 1.0, 2.0], [1.0, None, 3.0]), NAMES, CurveOptions(window=3), {})
    plain, tlt = figure.data
    assert (list(plain.x), list(plain.y)) == ([0, 1, 2], [0.5, 1.0, 1.5])
    assert (list(tlt.x), list(tlt.y), tlt.name) == ([0, 2], [2.0, 2.0], "&lt;b&gt;tlt&lt;/b&gt;")
    assert (figure.layout.xaxis.title.text, figure.layout.yaxis.title.text) == ("step", "mean reward")


def test_spans_stand_in_their_middle_and_smoothing_counts_steps() -> None:
    line = metric("loss", [1.0, 3.0], [1.0, 1.0], span=10)
    assert list(comparison_curves(line, NAMES, CurveOptions(window=9), {}).data[0].x) == [4.5, 14.5]
    assert list(comparison_curves(line, NAMES, CurveOptions(window=9), {}).data[0].y) == [1.0, 3.0]


def test_a_logarithmic_axis_begins_with_one_step_done() -> None:
    figure = comparison_curves(metric("loss", [1.0, 3.0], [1.0, 1.0]), NAMES, CurveOptions(log_x=True, log_y=True), {})
    assert list(figure.data[0].x) == [1, 2]
    assert (figure.layout.xaxis.type, figure.layout.yaxis.type) == ("log", "log")


def test_training_time_is_the_sum_of_the_steps() -> None:
    seconds = metric("step_seconds", [2.0, 3.0, 4.0], [None, 1.0, 1.0])
    clocks = {run_id: TrainingClock.of(seconds, run_id) for run_id in NAMES}
    figure = comparison_curves(metric("loss", [9.0, 9.0, 9.0], [9.0, 9.0, 9.0]), NAMES, CurveOptions(over_time=True), clocks)
    assert [list(line.x) for line in figure.data] == [[2, 5, 9], [0, 1, 2]]
    assert figure.layout.xaxis.title.text == "training time (seconds)"
    spans = TrainingClock.of(metric("step_seconds", [2.0, 4.0], [1.0, 1.0], span=100), "a")
    assert [spans.at(done) for done in (0, 50, 100, 200)] == [0, 100, 200, 600]


def test_a_run_without_step_seconds_has_no_place_on_an_axis_of_time() -> None:
    both = comparison(metric("step_seconds", [1.0], [None]), metric("loss", [1.0], [2.0]))
    shown = ComparisonFigures(both, NAMES, {}, ["loss"], CurveOptions(over_time=True))
    assert [len(line.x) for line in shown.curves()["loss"].data] == [1, 0]
    assert shown.runs_without_times() == ["<b>tlt</b>"]
    assert (shown.phases(), shown.response_lengths(True)) == (None, None)


def test_ten_lines_can_be_told_apart() -> None:
    assert len({(color(index), dash(index)) for index in range(10)}) == 10


def test_phases_are_means_over_the_steps_that_all_have() -> None:
    metrics = [
        metric("phase/rollout", [1.0, 3.0, 100.0], [2.0, 4.0, None]),
        metric("phase/update", [1.0], [2.0]),
        metric("loss", [1.0], [1.0]),
    ]
    assert phase_means(metrics, ["a", "b"]) == {"rollout": {"a": 2.0, "b": 3.0}, "update": {"a": 1.0, "b": 2.0}}
    figure = phases_by_run(metrics, NAMES)
    assert [bar.name for bar in figure.data] == ["rollout", "update"]
    assert list(figure.layout.yaxis.ticktext) == ["plain", "&lt;b&gt;tlt&lt;/b&gt;"]
    assert phase_means([metric("phase/rollout", [1.0], [None])], ["a", "b"]) == {}


def test_long_names_beside_bars_leave_them_room_on_a_phone() -> None:
    names = {"a": "Code, Llama 3.1 <8B> plain", "b": "a-name-without-a-space-of-fifty-characters-or-more"}
    figure = phases_by_run([metric("phase/rollout", [1.0], [2.0])], names)
    ticks = ["Code, Llama 3.1 &lt;8B&gt;<br>plain", "a-name-without-a-spa<br>ce-of-fifty-charact…"]
    assert list(figure.layout.yaxis.ticktext) == ticks
    assert table(figure)[" "][0] == names["a"]


def test_the_law_and_a_point_on_it() -> None:
    assert end_to_end(0.8, 2.0) == pytest.approx(1 / 0.6)
    law, point = amdahl(comparison().items, NAMES).data
    assert law.y[-1] == pytest.approx(end_to_end(0.8, law.x[-1]))
    assert law.x[0] < 1 < law.x[-1]
    assert (list(point.x), list(point.y), point.name) == ([2.0], [1.6], "&lt;b&gt;tlt&lt;/b&gt;")


def test_tails_are_shares_of_longer_responses_on_a_log_axis() -> None:
    figure = ComparisonFigures(comparison(), NAMES, {"a": [10, 20, 30, 40]}, [], CurveOptions()).response_lengths(as_shares=False)
    assert figure is not None
    tlt = figure.data[1]
    assert (list(figure.data[0].y), tlt.name, figure.layout.yaxis.type) == ([100, 75, 50, 25, 0], "&lt;b&gt;tlt&lt;/b&gt;", "log")


def test_only_differences_or_every_field_with_a_mark() -> None:
    both = comparison()
    assert config_rows(both, NAMES, only_differences=True) == [{"Field": "speculation.enabled", "plain": "false", "<b>tlt</b>": "true"}]
    everything = {row["Field"]: row for row in config_rows(both, NAMES, only_differences=False)}
    assert len(everything) == len(dict(flat(both.items[0].run.config))) > 50
    assert everything["★ speculation.enabled"]["plain"] == "false"
    assert everything["algorithm.name"]["plain"] == everything["algorithm.name"]["<b>tlt</b>"]


def test_runs_of_one_name_are_told_apart_by_their_ids() -> None:
    runs = [compared_run(True).run.model_copy(update={"id": run_id, "name": "same"}) for run_id in ("abcdef01", "12345678")]
    assert run_labels(runs) == {"abcdef01": "same (abcdef)", "12345678": "same (123456)"}
    runs = [run.model_copy(update={"name": f"begins alike {end}"}) for run, end in zip(runs, "ab", strict=True)]
    assert run_labels(runs, 10) == {"abcdef01": "begins al… (abcdef)", "12345678": "begins al… (123456)"}


def test_the_report_needs_nothing_else_and_shows_text_as_text() -> None:
    hostile = '</script><img src="http://evil.example/x.png" onerror=alert(1)> $plotly {sections}'
    names = NAMES | {"b": hostile}
    shown = ComparisonFigures(comparison(metric("loss", [1.0], [2.0])), names, {"a": [1, 2], "b": [3]}, ["loss"], CurveOptions())
    sections = [
        ReportSection("Side by side", run_rows(shown.comparison, names), hostile),
        ReportSection("loss", shown.curves()["loss"]),
        ReportSection("No", []),
    ]
    text = html_page(f"Comparison of {hostile}", sections)
    own = text.replace(text[text.index("<script>") : text.index("</script>")], "")
    assert not re.findall(r"""(?:src|href)\s*=\s*["']?(?:https?:)?//""", own)
    assert "<img" not in own
    assert "default-src 'none'" in own
    assert own.count("&lt;/script&gt;&lt;img") >= 3
    assert "1.60×" in own


def test_what_was_not_measured_is_called_that() -> None:
    metrics = metric("loss", [1.0], [2.0]), metric("kl", [None], [0.5]), metric("entropy", [None], [None])
    shown = ComparisonFigures(comparison(*metrics), NAMES, {}, ["loss", "kl", "entropy"], CurveOptions())
    told = [shown.not_measured(key) for key in ("loss", "kl", "entropy")]
    assert told == ["", "Not measured: plain", "Not measured in any of these runs."]
    assert list(shown.curves()) == ["loss", "kl"]
    report = comparison_report(shown)
    assert report.count("<h2>entropy</h2><p>Not measured in any of these runs.</p></section>") == 1
    assert report.count("<h2>kl</h2><p>Not measured: plain</p>") == 1
    assert report.count("Not measured") == 2


def test_runs_without_a_mark_are_named() -> None:
    points = {"plain": (1e-3, None), "tlt": (1e-4, 0.5), "*": (None, None)}
    assert without_mark(points) == "Without a mark, as one of the two is not known: plain, \\*"
    assert without_mark({"tlt": (1e-4, 0.5)}) is None


def test_figures_against_settings_are_over_the_steps_that_all_runs_have() -> None:
    item = compared_run(True, seconds_per_step=4.0, reward_last=0.5)
    own = item.model_copy(update={"seconds_per_step": 9.0, "reward_last": 0.9})
    assert [figure_of(own, key) for key in ("seconds_per_step", "reward_last", "harvest")] == [4.0, 0.5, None]
    assert figure_of(own.model_copy(update={"shared": None}), "seconds_per_step") is None


def test_a_figure_of_the_latest_step_is_called_that_and_none_is_offered_twice() -> None:
    summary = {"kl": 0.1, "harvest": 0.2, "accept_length": 2.0, "rollout_share": 0.5, "reward_recent": 0.3}
    item = compared_run(True)
    item = item.model_copy(update={"run": item.run.model_copy(update={"summary": summary})})
    titles = figure_titles([item])
    assert [titles[key] for key in ("kl", "harvest")] == ["kl, latest step", "harvest"]
    assert {*titles} - {*MEASURES} == {"kl"}
    assert figure_of(item, "kl") == 0.1


def test_the_figures_as_a_table() -> None:
    items = comparison(reward_last=0.5).items
    items[1].run.name = "=1+1"
    table = list(csv.DictReader(io.StringIO(measures_csv(items))))
    assert [row["name"] for row in table] == ["run", "'=1+1"]
    assert (table[1]["e2e_speedup"], table[1]["reward_last"], table[0]["e2e_speedup"]) == ("1.6", "0.5", "")


def test_a_metric_is_called_as_it_is_in_the_table() -> None:
    figure = comparison_curves(metric("accept_length", [1.0], [2.0]), NAMES, CurveOptions(), {})
    assert (metric_title("accept_length"), figure.layout.yaxis.title.text) == ("Accept length", "tokens per target pass")
    assert (metric_title("step_seconds"), metric_title("layer/0/norm")) == ("Seconds per step", "layer/0/norm")


def test_a_setting_that_is_null_is_a_value_and_one_that_a_run_lacks_is_none() -> None:
    run = compared_run(True)
    with_null = run.model_copy(update={"run": run.run.model_copy(update={"config": {"drafter": {"path": None}}})})
    assert setting_of(with_null, "drafter.path") == "null"
    assert setting_of(with_null, "drafter.recipe") is None
