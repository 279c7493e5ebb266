"""``python tests/browser/screenshots.py URL FOLDER`` photographs every page of a served dashboard and every tab, light and dark.

Without ids it takes the newest TLT run that finished and its plain partner.
"""

import argparse
import os
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Literal
from urllib.parse import urlencode

from playwright.sync_api import Page, sync_playwright

from dashboard.analysis.run_config import length_limit
from dashboard.views.run.tab_list import tabs_of
from longtail import Longtail
from longtail.identity import entrance
from longtail.schemas.runs import Run

FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-background-networking", "--no-first-run"]
SETTLE_MS, PATIENCE_MS = 1500, 300_000
LOOKED_AT = 100
OTHERS: Mapping[str, Callable[[Run], bool]] = {
    "failed": lambda run: run.state == "failed",
    "tracked": lambda run: run.kind == "tracked",
    "pretraining": lambda run: run.trains_drafter_only,
}
"""Runs whose pages are unlike those of a pair."""
PRESSED = {"tour": ("Take the tour", "Leave the tour"), "planner": ("Plan", "Submit this plan")}
"""Buttons that what is looked at is behind, by the name of its page; and those that are there with it."""
SCHEMES: tuple[Literal["light", "dark"], ...] = ("light", "dark")


def settle(page: Page) -> None:
    """Until the page has stopped running and drawn its charts."""
    page.wait_for_selector("[data-testid=stMain] h2, main h1")
    page.wait_for_timeout(SETTLE_MS)
    for unfinished in ("stStatusWidget", "stSkeleton"):
        page.wait_for_selector(f"[data-testid={unfinished}]", state="detached")
    page.wait_for_timeout(SETTLE_MS)


def grow(page: Page) -> None:
    """Makes the window as tall as the page, which scrolls inside Streamlit's main element."""
    height = page.evaluate("(document.querySelector('[data-testid=stMain]') || document.body).scrollHeight")
    page.set_viewport_size({"width": 1440, "height": min(6000, height + 60)})
    page.wait_for_timeout(SETTLE_MS)


def addresses(client: Longtail, run: str, baseline: str) -> dict[str, str]:
    """Every page by the name of its photograph."""
    drafters = client.all_artifacts(["drafter"], run=run).items
    tlt = client.run(run)
    tabs = [tab.name for tab in tabs_of(tlt)]
    return {
        "runs": "/",
        "new": "/new",
        "planner": f"/planner?from={run}",
        "run": f"/run?id={run}",
        **{f"run-{name.lower().replace(' ', '-')}": f"/run?{urlencode({'id': run, 'tab': name})}" for name in tabs},
        "plain": f"/run?id={baseline}",
        "compare": f"/compare?runs={baseline},{run}",
        "artifacts": "/artifacts",
        **({"artifact": f"/artifacts?id={drafters[0].id}"} if drafters else {}),
        "workers": "/workers",
        "settings": "/settings",
        **{f"settings-{tab.lower()}": f"/settings?tab={tab}" for tab in ("Projects", "Users", "Webhooks")},
        "runs-grouped": "/?grouped=true",
        "help": "/help",
        "tour": "/help",
        "login": "/login",
        **other_runs(client, tlt),
    }


def other_runs(client: Longtail, tlt: Run) -> dict[str, str]:
    """Pages of the newest run of each kind of OTHERS, and a comparison with one that does other work; of those that there are."""
    newest = client.runs(limit=LOOKED_AT).items
    found = {name: next((run for run in newest if fits(run)), None) for name, fits in OTHERS.items()}
    unlike = next((run for run in newest if run.state == "succeeded" and length_limit(run.config) != length_limit(tlt.config)), None)
    pages = {name: f"/run?id={run.id}" for name, run in found.items() if run}
    return pages | ({"compare-unlike": f"/compare?runs={unlike.id},{tlt.id}"} if unlike else {})


def press(page: Page, name: str) -> None:
    """What the page of this name is behind."""
    if name in PRESSED:
        behind, there = PRESSED[name]
        page.get_by_role("button", name=behind, exact=True).click()
        page.get_by_role("button", name=there).wait_for()
        settle(page)


def chosen(client: Longtail, run: str | None, baseline: str | None) -> tuple[str, str]:
    if run and baseline:
        return run, baseline
    tlt = client.runs("succeeded", limit=100, run=run, where="config.speculation.enabled=true").items
    for glance in client.glances([candidate.id for candidate in tlt]):
        if glance.partner_id is not None:
            return glance.run_id, glance.partner_id
    raise SystemExit("no finished TLT run with a plain partner: name them with --run and --baseline")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("url", help="address of the dashboard")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--api", default=None, help="address of the API; default as for the client")
    parser.add_argument("--run")
    parser.add_argument("--baseline")
    parser.add_argument("--only", nargs="*", default=(), help="pages to photograph, such as run-timeline compare")
    options = parser.parse_args()
    with Longtail(options.api) as client:
        run, baseline = chosen(client, options.run, options.baseline)
        entrances = [entrance(client, options.url) for _ in SCHEMES]
        paths = addresses(client, run, baseline)
    options.folder.mkdir(parents=True, exist_ok=True)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=os.environ.get("CHROMIUM") or shutil.which("chromium"), args=FLAGS)
        for scheme, address in zip(SCHEMES, entrances, strict=True):
            context = browser.new_context(base_url=options.url, viewport={"width": 1440, "height": 900}, color_scheme=scheme)
            page = context.new_page()
            page.set_default_timeout(PATIENCE_MS)
            page.goto(address)
            for name, path in ((name, path) for name, path in paths.items() if name in (options.only or paths)):
                page.set_viewport_size({"width": 1440, "height": 900})
                page.goto(path)
                settle(page)
                press(page, name)
                grow(page)
                page.screenshot(path=options.folder / f"{name}-{scheme}.png")
        browser.close()


if __name__ == "__main__":
    main()
