"""A comparison to take away: a report that opens anywhere, and tables for a spreadsheet."""

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

import streamlit as st

from dashboard.auth.api_client import client
from dashboard.views.compare.figures import ComparisonFigures
from dashboard.views.compare.html_report import comparison_report
from dashboard.views.compare.measures_csv import measures_csv
from dashboard.widgets.popover import popover
from longtail import Longtail

CSV = "text/csv"


def export_menu(figures: ComparisonFigures) -> None:
    """Nothing is made before it is asked for."""
    popover("Export", "export", partial(_offers, figures))


def _offers(figures: ComparisonFigures) -> None:
    runs = [item.run.id for item in figures.comparison.items]
    _offer("Report (HTML)", partial(comparison_report, figures), "longtail-comparison.html", "text/html")
    _offer("Figures (CSV)", partial(measures_csv, figures.comparison.items), "longtail-figures.csv", CSV)
    _offer("Curves (CSV)", partial(_curves, client(), runs, figures.keys), "longtail-curves.csv", CSV)
    st.caption("The report needs no Longtail and no network. Curves: every point of the chosen metrics; of all, if none is chosen.")


def _offer(label: str, make: Callable[[], str | bytes], name: str, kind: str) -> None:
    st.download_button(label, make, name, kind, on_click="ignore", width="stretch")


def _curves(api: Longtail, run_ids: Sequence[str], keys: Sequence[str]) -> bytes:
    """From the API, as the page has thinned its own; of all metrics if none is chosen."""
    with TemporaryDirectory() as folder:
        file = Path(folder) / "curves.csv"
        api.export_metrics(file, "csv", keys, run=list(run_ids))
        return file.read_bytes()
