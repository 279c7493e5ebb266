"""How busy the machines were that carried the run out."""

from typing import NamedTuple

import streamlit as st

from dashboard.charts import curves
from dashboard.charts.machines import PREFIX, by_kind
from dashboard.feed import Feed
from dashboard.formats import plain
from dashboard.panels.frame import chart, empty, panel
from dashboard.tabs.tab import Needs, Tab, loop


class Figure(NamedTuple):
    kind: str
    title: str
    help: str
    y: str


USE = "The mean over each step, of everything that runs on the machine."
MEMORY = "The most that was taken in each step, by everything that runs on the machine."
HOSTS = (Figure("cpu_percent", "CPU", USE, "use of all cores (%)"), Figure("memory_gb", "Memory", MEMORY, "taken (GB)"))
GPUS = (Figure("gpu_percent", "GPU", USE, "time with a kernel running (%)"), Figure("gpu_memory_gb", "GPU memory", MEMORY, "taken (GB)"))


def show(feed: Feed) -> None:
    found = by_kind(feed.metrics)
    for row in (HOSTS, GPUS) if any(figure.kind in found for figure in GPUS) else (HOSTS,):
        for column, figure in zip(st.columns(2), row, strict=True):
            with column, panel(figure.title, figure.help):
                if found.get(figure.kind):
                    chart(curves.values(found[figure.kind], figure.y, from_zero=True), figure.kind)
                else:
                    empty("How busy each machine is will appear here after the first step.")
    if hosts := found.get("cpu_percent"):
        unused = "" if "gpu_percent" in found else " No GPU was used."
        st.caption(f"On {plain(', '.join(hosts))}, step by step.{unused}")


TAB = Tab("System", show, Needs(keys=(f"{PREFIX}*",)), loop)
