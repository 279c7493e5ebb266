"""Leads to another page from a callback of the list of runs."""

from dashboard import page_files
from dashboard.widgets.page_switch import go_from


def go(page: str, name: str, value: str) -> None:
    go_from(page_files.RUNS, page, {name: value})
