"""What is wrong with how a page is laid out, measured in the browser, and what axe-core finds."""

from typing import Any

from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Page

SERIOUS = ("serious", "critical")
LAYOUT = """() => {
    const found = [], wide = document.documentElement.clientWidth;
    const main = document.querySelector("[data-testid=stMain]") || document.querySelector("main");
    const name = part => (part.getAttribute("aria-label") || part.textContent || "").trim().slice(0, 40);
    const told = part => `${part.tagName.toLowerCase()} "${name(part)}"`;
    const shown = part => part.checkVisibility({visibilityProperty: true, opacityProperty: true}) && part.getBoundingClientRect().width > 2;
    const turned = text => /rotate\\((?!0[,)])/.test(text.getAttribute("transform") || "");
    const scrolls = style => ["auto", "scroll"].includes(style.overflowX);
    if (main.scrollWidth > main.clientWidth + 1) found.push(`the page is ${main.scrollWidth} wide in a window of ${main.clientWidth}`);
    const parts = "button, a[href], [role=radio], [role=tab], [role=combobox], input[type=text], input[type=number], textarea, " +
        ".js-plotly-plot > .plot-container, [data-testid=stMetric], [data-testid=stMarkdownContainer], table, [data-testid=stDataFrame]";
    const header = document.querySelector("[data-testid=stHeader]");
    for (const part of [header, main].flatMap(frame => frame ? [...frame.querySelectorAll(parts)] : [])) {
        if (!shown(part)) continue;
        const box = part.getBoundingClientRect();
        let inside = false;
        for (let frame = part.parentElement; frame && frame !== main; frame = frame.parentElement) {
            const style = getComputedStyle(frame), edge = frame.getBoundingClientRect();
            if (scrolls(style)) { inside = true; break; }
            const hides = ["hidden", "clip"].includes(style.overflowX) || ["hidden", "clip"].includes(style.overflowY);
            if (hides && edge.width > 2 && (box.right > edge.right + 2 || box.left < edge.left - 2 || box.bottom > edge.bottom + 2)) {
                found.push(`${told(part)} is cut off by ${frame.dataset.testid || frame.className}`);
                break;
            }
            if (["auto", "scroll"].includes(style.overflowY) && box.height < edge.height) break;
        }
        if (!inside && (box.right > wide + 1 || box.left < -1)) found.push(`${told(part)} leaves the window`);
        const thin = Math.min(box.width, box.height) < 8;
        if (thin && part.matches("button, [role=radio], [role=tab]")) found.push(`${told(part)} is a sliver`);
    }
    for (const chosen of main.querySelectorAll("[data-testid=stMultiSelectTagsContainer]"))
        if (chosen.scrollWidth > chosen.clientWidth + 1) found.push(`of what is chosen, a part is out of sight: ${chosen.textContent}`);
    for (const plot of main.querySelectorAll(".js-plotly-plot")) {
        const edge = plot.getBoundingClientRect(), written = [];
        for (const text of plot.querySelectorAll("text")) {
            const box = text.getBoundingClientRect();
            if (box.width && shown(text) && (box.right > edge.right + 2 || box.left < edge.left - 2 || box.bottom > edge.bottom + 2))
                found.push(`in a chart, "${text.textContent.slice(0, 40)}" is cut off`);
            if (!box.width || !shown(text) || turned(text)) continue;
            for (const [other, there] of written)
                if (Math.min(box.right, there.right) - Math.max(box.left, there.left) > 2
                    && Math.min(box.bottom, there.bottom) - Math.max(box.top, there.top) > 4)
                    found.push(`in a chart, "${text.textContent.slice(0, 40)}" is written over "${other.textContent.slice(0, 40)}"`);
            written.push([text, box]);
        }
    }
    return [...new Set(found)];
}"""
CHARTS = """() => [...document.querySelectorAll("[data-testid=stMain] .stPlotlyChart")].filter(chart =>
    chart.checkVisibility({visibilityProperty: true}) && !/\\d/.test(chart.getAttribute("aria-label") || "")
).map(chart => `a chart tells no number: ${chart.getAttribute("aria-label")}`)"""


def layout_faults(page: Page) -> list[str]:
    """What lies outside of the window, is cut off, or is too thin to be hit."""
    found: list[str] = page.evaluate(LAYOUT)
    return found


def faults_for_screen_readers(page: Page) -> list[str]:
    """What axe-core calls serious or critical, and charts that tell nothing."""
    violations: list[dict[str, Any]] = Axe().run(page).response["violations"]
    serious = [rule for rule in violations if rule["impact"] in SERIOUS]
    nodes = [f"{rule['id']}: {node['html'][:160]} {_reason(node)}" for rule in serious for node in rule["nodes"]]
    untold: list[str] = page.evaluate(CHARTS)
    return [*nodes, *untold]


def _reason(node: dict[str, Any]) -> str:
    checks = [check["message"] for kind in ("any", "all", "none") for check in node[kind]]
    return "; ".join(checks)[:160]
