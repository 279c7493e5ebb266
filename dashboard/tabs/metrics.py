"""Any series of a run, as chosen: what a script tracks has names of its own."""

from dashboard.charts import curves
from dashboard.feed import Feed
from dashboard.panels.frame import chart, empty, panel
from dashboard.tabs.tab import EVERY, Needs, Tab, tracked

SHOWN_AT_FIRST = 4


def show(feed: Feed) -> None:
    with panel("Metrics", "Each series that was reported. Of a long one the band shows the least and the greatest values.") as head:
        keys = sorted(feed.metrics)
        if not keys:
            empty("The series that the script reports will appear here.")
            return
        chosen = head.multiselect("Series", keys, keys[:SHOWN_AT_FIRST], key="series", label_visibility="collapsed", width=480)
        chart(curves.values({key: feed.series(key) for key in chosen}), "metrics")


TAB = Tab("Metrics", show, Needs(keys=EVERY), tracked)
