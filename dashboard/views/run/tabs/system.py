"""How busy the machines were that carried the run out."""

from typing import NamedTuple

import streamlit as st

from dashboard.analysis.machine_metrics import PREFIX, by_kind
from dashboard.charts import metric_curves
from dashboard.data.run_data import DataQuery, RunData
from dashboard.text.escaping import escaped
from dashboard.views.run.tabs.tab import Tab, engine_run
from dashboard.widgets.panel import chart, panel


class MachineChart(NamedTuple):
    kind: str
    title: str
    help: str
    y: str


USE = "The mean over each step, of everything that runs on the machine."
MEMORY = "The most that was taken in each step, by everything that runs on the machine."
HOSTS = (MachineChart("cpu_percent", "CPU", USE, "use of all cores (%)"), MachineChart("memory_gb", "Memory", MEMORY, "taken (GB)"))
GPUS = (
    MachineChart("gpu_percent", "GPU", USE, "time with a kernel running (%)"),
    MachineChart("gpu_memory_gb", "GPU memory", MEMORY, "taken (GB)"),
)


def show(data: RunData) -> None:
    found = by_kind(data.metrics)
    for row in (HOSTS, GPUS) if any(figure.kind in found for figure in GPUS) else (HOSTS,):
        for column, figure in zip(st.columns(2), row, strict=True):
            with column, panel(figure.title, figure.help):
                series = found.get(figure.kind)
                drawn = metric_curves.values(series, figure.y, from_zero=True) if series else None
                chart(drawn, figure.kind, "How busy each machine is will appear here after the first step.")
    if hosts := found.get("cpu_percent"):
        unused = "" if "gpu_percent" in found else " No GPU was used."
        st.caption(f"On {escaped(', '.join(hosts))}, step by step.{unused}")


TAB = Tab("System", show, DataQuery(metric_keys=(f"{PREFIX}*",)), engine_run)
