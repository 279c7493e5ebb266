"""How busy the machines were that carried the run out."""

import streamlit as st

from dashboard.analysis.machine_metrics import PREFIX, by_kind
from dashboard.charts import metric_curves
from dashboard.data.run_data import DataQuery, RunData
from dashboard.text.escaping import escaped
from dashboard.views.run.tabs.tab import MetricChart, Tab, training_run
from dashboard.widgets.panel import chart, panel, to_come

USE = "The mean over each step, of everything that runs on the machine."
MEMORY = "The most that was taken in each step, by everything that runs on the machine."
HOSTS = (MetricChart("cpu_percent", "CPU", "use of all cores (%)", USE), MetricChart("memory_gb", "Memory", "taken (GB)", MEMORY))
GPUS = (
    MetricChart("gpu_percent", "GPU", "time with a kernel running (%)", USE),
    MetricChart("gpu_memory_gb", "GPU memory", "taken (GB)", MEMORY),
)


def show(data: RunData) -> None:
    found = by_kind(data.metrics)
    for row in (HOSTS, GPUS) if any(figure.key in found for figure in GPUS) else (HOSTS,):
        for column, figure in zip(st.columns(2), row, strict=True):
            with column, panel(figure.title, figure.help):
                series = found.get(figure.key)
                drawn = metric_curves.values(series, figure.y, from_zero=True) if series else None
                chart(drawn, figure.key, to_come("How busy each machine is will appear here after the first step."))
    if hosts := found.get("cpu_percent"):
        unused = "" if "gpu_percent" in found else " No GPU was used."
        st.caption(f"On {escaped(', '.join(hosts))}, step by step.{unused}")


TAB = Tab("System", show, DataQuery(metric_keys=(f"{PREFIX}*",)), training_run)
