"""The legend of a chart, as HTML above it: it wraps where the window is narrow, and never lies on what is drawn."""

import html
from collections.abc import Mapping
from typing import Any

import plotly.graph_objects as go

from dashboard.charts.theme import GREY

FALLING, RISING, FLAT, UPRIGHT = "45deg", "-45deg", "0deg", "90deg"
STRIPES: Mapping[str, tuple[str, ...]] = {
    "/": (RISING,),
    "\\": (FALLING,),
    "-": (FLAT,),
    "|": (UPRIGHT,),
    "x": (RISING, FALLING),
    "+": (FLAT, UPRIGHT),
}
DOTS = "radial-gradient({color} 1px, transparent 1.5px) 0 0 / 5px 5px"
DASHES: Mapping[str, str] = {"dash": "6px, transparent 6px 9px", "dot": "2px, transparent 2px 4px", "dashdot": "6px, transparent 6px 8px"}
MARKS: Mapping[str, str] = {
    "circle": "circle(40%)",
    "diamond": "polygon(50% 0, 100% 50%, 50% 100%, 0 50%)",
    "square": "inset(10%)",
    "cross": "polygon(35% 0, 65% 0, 65% 35%, 100% 35%, 100% 65%, 65% 65%, 65% 100%, 35% 100%, 35% 65%, 0 65%, 0 35%, 35% 35%)",
    "x": "polygon(20% 0, 50% 30%, 80% 0, 100% 20%, 70% 50%, 100% 80%, 80% 100%, 50% 70%, 20% 100%, 0 80%, 30% 50%, 0 20%)",
    "triangle-up": "polygon(50% 0, 100% 100%, 0 100%)",
    "triangle-right": "polygon(0 0, 100% 50%, 0 100%)",
    "star": "polygon(50% 0, 62% 36%, 100% 36%, 69% 59%, 81% 100%, 50% 75%, 19% 100%, 31% 59%, 0 36%, 38% 36%)",
}
LIST = "display:flex;flex-wrap:wrap;gap:0 0.9rem;margin:0;padding:0;list-style:none"
ITEM = "display:flex;align-items:center;gap:0.35rem;margin:0;padding:0;font-size:0.8125rem;line-height:1.5"


def legend_html(figure: go.Figure) -> str:
    """Nothing for a chart that has no legend."""
    shown = [trace for trace in figure.data if trace.showlegend is not False and (trace.name or trace.type == "heatmap")]
    if figure.layout.showlegend is False or (len(shown) < 2 and not figure.layout.showlegend):
        return ""
    items = "".join(f'<li style="{ITEM}">{_swatch(trace)}<span>{_name(trace)}</span></li>' for trace in shown)
    return f'<ul style="{LIST}">{items}</ul>'


def _name(trace: Any) -> str:
    """Plotly's texts are markup already; once more, for those that were not meant as such."""
    text = trace.name or trace.colorbar.title.text or ""
    return html.escape(html.unescape(text), quote=False)


def _swatch(trace: Any) -> str:
    return {"heatmap": _scale, "bar": _bar}.get(trace.type, _line)(trace)


def _box(css: str, width: int = 18, height: int = 12) -> str:
    return f'<span style="flex:none;display:inline-block;width:{width}px;height:{height}px;{css}"></span>'


def _scale(heatmap: Any) -> str:
    return _box(f"background:linear-gradient(90deg, {', '.join(color for _, color in heatmap.colorscale)})")


def _bar(bar: Any) -> str:
    return _filled(bar.marker.color, bar.marker.pattern)


def _filled(color: str, pattern: Any) -> str:
    shape, stripe = pattern.shape or "", pattern.fgcolor
    layers = [f"repeating-linear-gradient({angle}, {stripe} 0 1.3px, transparent 1.3px 5px)" for angle in STRIPES.get(shape, ())]
    if shape == ".":
        layers.append(DOTS.format(color=stripe))
    edge = f"border:1px solid {GREY};box-sizing:border-box"
    return _box(f"background:{', '.join([*layers, f'linear-gradient({color}, {color})'])};{edge}")


def _line(curve: Any) -> str:
    if curve.stackgroup:
        return _filled(curve.fillcolor, curve.fillpattern)
    if curve.mode == "markers":
        mark = _box(f"background:{curve.marker.color};clip-path:{MARKS.get(curve.marker.symbol, MARKS['circle'])}", 12)
        return f'<span style="display:flex;filter:drop-shadow(0 0 1px {GREY})">{mark}</span>'
    dashes = DASHES.get(curve.line.dash or "")
    drawn = f"repeating-linear-gradient(90deg, {curve.line.color} 0 {dashes})" if dashes else curve.line.color
    return _box(f"background:{drawn}", height=3)
