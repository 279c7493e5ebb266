"""Any series of a run, as chosen: what a script tracks has names of its own."""

from dashboard.charts import metric_curves
from dashboard.data.run_data import ALL_METRICS, DataQuery, RunData
from dashboard.views.run.tabs.tab import Tab, tracked_run
from dashboard.widgets.panel import chart, empty, panel

SHOWN_AT_FIRST = 4


def show(data: RunData) -> None:
    with panel("Metrics", "Each series that was reported. Of a long one the band shows the least and the greatest values.") as head:
        keys = sorted(data.metrics)
        if not keys:
            empty("The series that the script reports will appear here.")
            return
        chosen = head.multiselect("Series", keys, keys[:SHOWN_AT_FIRST], key="series", label_visibility="collapsed", width=480)
        chart(metric_curves.values({key: data.series(key) for key in chosen}), "metrics")


TAB = Tab("Metrics", show, DataQuery(metric_keys=ALL_METRICS), tracked_run)
