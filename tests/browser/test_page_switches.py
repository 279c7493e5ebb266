"""A page that looks for news by itself is left for another one, whatever is asked of it meanwhile."""

import re

from grid import Grid
from page_cases import until
from playwright.sync_api import Page, WebSocketRoute, expect
from sizes import only_with_all
from streamlit.proto.BackMsg_pb2 import BackMsg
from streamlit.proto.ClientState_pb2 import ClientState
from streamlit.proto.ForwardMsg_pb2 import ForwardMsg

from longtail.schemas.runs import Run

SETTLE_MS = 3_000


class LateLook:
    """Between a page that is opened after this and its server: once that draws another page, it gets the last look for news again, as if
    the browser had looked before it heard of the other page."""

    def __init__(self, page: Page) -> None:
        self.came_late = False
        self._page = page
        self._looks: list[bytes] = []
        page.route_web_socket(re.compile("_stcore/stream"), self._join)

    def has_looked(self) -> bool:
        self._page.wait_for_timeout(1)  # Playwright hears only while it is called
        return bool(self._looks)

    def _join(self, page: WebSocketRoute) -> None:
        server = page.connect_to_server()

        def ask(message: str | bytes) -> None:
            if isinstance(message, bytes) and asked(message).is_auto_rerun:
                self._looks.append(message)
            server.send(message)

        def answer(message: str | bytes) -> None:
            page.send(message)
            if isinstance(message, bytes) and self._looks and not self.came_late and self._draws_another(message):
                self.came_late = True
                server.send(self._looks[-1])

        page.on_message(ask)
        server.on_message(answer)

    def _draws_another(self, message: bytes) -> bool:
        drawn = ForwardMsg.FromString(message)
        other = drawn.new_session.page_script_hash != asked(self._looks[-1]).page_script_hash
        return bool(drawn.WhichOneof("type") == "new_session" and other)


def asked(message: bytes) -> ClientState:
    request: ClientState = BackMsg.FromString(message).rerun_script
    return request


def test_a_run_stays_open_though_the_list_has_looked_for_news_when_it_was_left(page: Page, pair: tuple[Run, Run]) -> None:
    """Whose address was typed by hand."""
    network, grid = LateLook(page), Grid(page)
    page.goto("/runs?tag=pair")
    grid.has(pair[1].name, pair[0].name)
    until(network.has_looked, bool)
    grid.open(pair[1].name)
    question = page.get_by_text("Is it training?")
    expect(question).to_be_visible()
    page.wait_for_timeout(SETTLE_MS)
    assert network.came_late
    expect(question).to_be_visible()


@only_with_all
def test_what_the_way_back_leads_to_has_nothing_of_the_page_that_was_left_in_its_address(page: Page, pair: tuple[Run, Run]) -> None:
    page.goto("/?tag=pair")
    Grid(page).open(pair[1].name)
    expect(page.get_by_text("Is it training?")).to_be_visible()
    page.go_back()
    expect(page.get_by_role("heading", name="Runs", exact=True)).to_be_visible()
    expect(page).not_to_have_url(re.compile("id="))
    page.goto(f"/run?id={pair[1].id}")
    page.get_by_role("button", name="Compare with").click()
    expect(page.get_by_role("heading", name="Compare", exact=True)).to_be_visible()
    page.go_back()
    expect(page.get_by_text("Is it training?")).to_be_visible()
    expect(page).not_to_have_url(re.compile("runs="))
