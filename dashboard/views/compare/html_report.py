"""A comparison as one HTML file that needs nothing else: no server, no network."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from html import escape
from pathlib import Path
from string import Template

import plotly.graph_objects as go

from dashboard.charts.comparison_curves import metric_title
from dashboard.views.compare import seed_table, tables
from dashboard.views.compare.figures import ComparisonFigures

PAGE = Path(__file__).parents[2] / "assets" / "report.html"
CHART = {"displaylogo": False, "responsive": True}

Row = Mapping[str, str]


@dataclass(frozen=True)
class ReportSection:
    """A titled table or chart, or nothing but a remark. What is in it is text, whatever it looks like."""

    title: str
    content: Sequence[Row] | go.Figure | None
    remark: str = ""


def comparison_report(figures: ComparisonFigures) -> str:
    found, names = figures.comparison, figures.names
    curves = figures.curves()
    charts = {
        "Time per phase": figures.phases(),
        "What a faster rollout brings": figures.amdahl(),
        "Response lengths": figures.response_lengths(as_shares=False),
    }
    return html_page(
        "Comparison of " + ", ".join(names.values()),
        [
            ReportSection("Side by side", tables.run_rows(found, names)),
            *(ReportSection(metric_title(key), curves.get(key), figures.not_measured(key)) for key in figures.reported()),
            *(ReportSection(title, figure) for title, figure in charts.items() if figure is not None),
            ReportSection("Over seeds", seed_table.rows(found.items, names), seed_table.remark(found.items)),
            ReportSection("Configuration differences", tables.config_rows(found, names, only_differences=True)),
        ],
    )


def html_page(title: str, sections: Sequence[ReportSection]) -> str:
    from plotly.offline import get_plotlyjs

    made = f"Made by Longtail on {datetime.now(UTC):%Y-%m-%d %H:%M} UTC."
    parts = {"title": escape(title), "made": made, "plotly": get_plotlyjs(), "sections": "\n".join(map(_section, sections))}
    return Template(PAGE.read_text(encoding="utf-8")).substitute(parts)


def _section(section: ReportSection) -> str:
    shown = section.content
    content = "" if shown is None else _chart(shown) if isinstance(shown, go.Figure) else _table(shown)
    remark = f"<p>{escape(section.remark)}</p>" if section.remark else ""
    return f"<section><h2>{escape(section.title)}</h2>{remark}{content}</section>"


def _chart(figure: go.Figure) -> str:
    white: str = go.Figure(figure).update_layout(template="plotly_white").to_html(full_html=False, include_plotlyjs=False, config=CHART)
    return white


def _table(rows: Sequence[Row]) -> str:
    if not rows:
        return "<p>Nothing.</p>"
    head = "".join(f"<th>{escape(heading)}</th>" for heading in rows[0])
    body = "".join("<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in row.values()) + "</tr>" for row in rows)
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"
