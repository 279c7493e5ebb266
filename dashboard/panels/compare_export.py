"""A comparison to take away: a report that opens anywhere, and tables for a spreadsheet."""

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

import streamlit as st

from backend.client import Longtail
from dashboard import significance
from dashboard.charts.compared import title
from dashboard.compared import Compared
from dashboard.connection import client
from dashboard.figures_csv import figures_csv
from dashboard.panels import comparison
from dashboard.report import Section, page

CSV = "text/csv"


def export(compared: Compared) -> None:
    """Nothing is made before it is asked for."""
    runs = [item.run.id for item in compared.comparison.items]
    with st.popover("Export", key="export"):
        _offer("Report (HTML)", partial(_report, compared), "longtail-comparison.html", "text/html")
        _offer("Figures (CSV)", partial(figures_csv, compared.comparison.items), "longtail-figures.csv", CSV)
        _offer("Curves (CSV)", partial(_curves, client(), runs, compared.keys), "longtail-curves.csv", CSV)
        st.caption("The report needs no Longtail and no network. Curves: every point of the chosen metrics; of all, if none is chosen.")


def _offer(label: str, make: Callable[[], str | bytes], name: str, kind: str) -> None:
    st.download_button(label, make, name, kind, on_click="ignore", width="stretch")


def _report(compared: Compared) -> str:
    found, names = compared.comparison, compared.names
    charts = {
        **{title(key): figure for key, figure in compared.curves().items()},
        "Time per phase": compared.phases(),
        "What a faster rollout brings": compared.amdahl(),
        "Response lengths": compared.tails(as_shares=False),
    }
    return page(
        "Comparison of " + ", ".join(names.values()),
        [
            Section("Side by side", comparison.rows(found, names)),
            *(Section(title, figure) for title, figure in charts.items() if figure is not None),
            Section("Over seeds", significance.rows(found.items, names), significance.remark(found.items)),
            Section("Configuration differences", comparison.configurations(found, names, only_differences=True)),
        ],
    )


def _curves(api: Longtail, run_ids: Sequence[str], keys: Sequence[str]) -> bytes:
    """From the API, as the page has thinned its own; of all metrics if none is chosen."""
    with TemporaryDirectory() as folder:
        file = Path(folder) / "curves.csv"
        api.export_metrics(file, "csv", keys, run=list(run_ids))
        return file.read_bytes()
