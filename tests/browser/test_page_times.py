"""The benchmark of pages waits for what a visitor waits for, and counts what that costs the API."""

from playwright.sync_api import Browser
from sizes import only_with_all

from backend.bench.browser import load, visitor
from backend.bench.cold_pages import visit
from backend.bench.pages import click_seconds, measured, requests_of_an_open_page
from backend.stack.local_stack import Stack
from longtail import Longtail
from longtail.identity import entrance
from longtail.schemas.runs import Run


@only_with_all
def test_a_page_is_timed(browser: Browser, stack: Stack, api: Longtail) -> None:
    assert stack.dashboard_url is not None
    context = browser.new_context(base_url=stack.dashboard_url)
    load(context, entrance(api, stack.dashboard_url))
    found = measured(stack, context, "/settings", loads=1)
    context.close()
    assert 0.1 < found["s"] <= found["max_s"] < 600
    assert found["api_requests"] >= 1
    assert 0 < found["api_s"] < found["s"]


@only_with_all
def test_a_click_on_a_run_in_the_list_is_timed(browser: Browser, stack: Stack, pair: tuple[Run, Run]) -> None:
    with visitor(browser, stack) as context:
        assert 0 < click_seconds(context, pair[1].id, clicks=1) < 600


def test_a_first_visit_brings_little_and_an_open_page_asks_little(browser: Browser, stack: Stack, pair: tuple[Run, Run]) -> None:
    path = f"/run?id={pair[1].id}"
    with visitor(browser, stack) as context:
        seconds, files, frames = visit(context, path)
        assert 100_000 < files + frames < 3_000_000
        assert 0 < seconds < 600
        assert requests_of_an_open_page(stack, context, "/", seconds=6) <= 1
