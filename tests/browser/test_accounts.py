"""Coming in and going out, and what who may do, as a visitor sees it."""

import re
from collections.abc import Callable, Iterator

import pytest
from page_cases import Submit, guarded, tab, until
from playwright.sync_api import Browser, Page, expect
from sizes import only_with_all

from backend.stack.local_stack import Stack
from longtail import ApiError, Longtail
from longtail.identity import entrance
from longtail.schemas.identity import Role

LONG = "correct horse battery"
As = Callable[[Role], Page]


@pytest.fixture
def as_role(browser: Browser, stack: Stack, api: Longtail, request: pytest.FixtureRequest) -> Iterator[As]:
    """A tab in which a new user of a role has logged in."""
    tabs: list[Iterator[Page]] = []

    def log_in(role: Role) -> Page:
        name = f"{role}-{abs(hash(request.node.nodeid)) % 10**6}"
        user = api.add_user(name, role)
        token = api.create_token("tab", role, user_id=user.id).token
        assert stack.dashboard_url is not None
        tabs.append(guarded(browser, stack.dashboard_url, api.log_in_by_token(token).token))
        return next(tabs[-1])

    yield log_in
    for opened in tabs:
        assert next(opened, None) is None


def test_a_stranger_logs_in_where_they_wanted_to_go_and_stays_logged_in(stranger: Page, api: Longtail) -> None:
    api.add_user("grace", "editor", LONG)
    stranger.goto("/new?x=1")
    expect(stranger).to_have_url(re.compile("/login"))
    stranger.get_by_label("User").fill("grace")
    stranger.get_by_label("Password or token").fill("wrong")
    with stranger.expect_response("**/login") as wrong:
        stranger.get_by_role("button", name="Log in").click()
    assert wrong.value.status == 401
    expect(stranger.get_by_role("alert")).to_contain_text("the user or the password is wrong")
    expect(stranger.get_by_label("User")).to_have_value("grace")
    stranger.get_by_label("Password or token").fill(LONG)
    stranger.get_by_role("button", name="Log in").click()
    expect(stranger.get_by_role("heading", name="New run")).to_be_visible()
    stranger.reload()
    expect(stranger.get_by_role("button", name="Start run")).to_be_enabled()
    assert [cookie["httpOnly"] for cookie in stranger.context.cookies() if cookie["name"].startswith("longtail")] == [True]


def test_a_ticket_opens_the_page_it_is_for_once(stranger: Page, api: Longtail, stack: Stack) -> None:
    assert stack.dashboard_url is not None
    address = entrance(api, stack.dashboard_url, "/settings")
    stranger.goto(address)
    expect(stranger.get_by_role("heading", name="Settings")).to_be_visible()
    stranger.context.clear_cookies()
    stranger.goto(address)
    expect(stranger.get_by_text("This link has been used")).to_be_visible()


def test_logging_out(page: Page) -> None:
    page.goto("/settings")
    page.get_by_role("button", name="Log out").click()
    expect(page.get_by_text("You are logged out")).to_be_visible()
    page.reload()
    expect(page).to_have_url(re.compile("/login"))


def test_a_viewer_looks_and_starts_nothing(as_role: As, api: Longtail, submit: Submit) -> None:
    run = submit(name="stuck for viewers")
    until(lambda: api.run(run.id), lambda run: run.state == "running")
    page = as_role("viewer")
    page.goto("/new")
    expect(page.get_by_text("not start any")).to_be_visible()
    expect(page.get_by_role("button", name="Start run")).to_have_count(0)
    page.goto("/")
    expect(page.get_by_role("button", name="Open run")).to_be_visible()
    for action in ("Clone", "Cancel", "Tag", "Delete"):
        expect(page.get_by_role("button", name=action, exact=True)).to_have_count(0)
    page.goto(f"/run?id={run.id}")
    expect(page.get_by_role("heading", name="stuck for viewers")).to_be_visible()
    expect(page.get_by_role("button", name="Cancel run")).to_have_count(0)
    page.goto("/workers")
    expect(page.get_by_role("link", name="stuck for viewers")).to_be_visible()
    page.goto("/settings?tab=Users")
    expect(page.get_by_text("viewer (you)")).to_be_visible()
    for admins in ("Users", "Webhooks", "Audit"):
        expect(tab(page, admins)).to_have_count(0)
    tab(page, "Projects").click()
    expect(page.get_by_text("You are its viewer")).to_be_visible()
    expect(page.get_by_role("button", name=re.compile("Create project|Remove|Save"))).to_have_count(0)
    api.cancel(run.id)


@only_with_all
def test_a_token_is_made_shown_once_and_revoked(as_role: As, stack: Stack) -> None:
    tab = as_role("editor")
    tab.goto("/settings")
    tab.get_by_label("What it is for").fill("<b>laptop</b>")
    tab.get_by_role("button", name="Create token").click()
    shown = tab.locator("code").filter(has_text=re.compile("^lt_"))
    expect(shown).to_be_visible()
    with Longtail(stack.url, shown.inner_text()) as client:
        assert client.me().role == "viewer"
        tab.reload()
        expect(tab.get_by_text("<b>laptop</b>")).to_be_visible()
        expect(shown).to_have_count(0)
        tab.get_by_role("button", name="Revoke").and_(tab.locator(":enabled")).first.click()
        until(lambda: refused(client), bool)


def refused(client: Longtail) -> bool:
    try:
        client.me()
    except ApiError:
        return True
    return False


@only_with_all
def test_an_admin_adds_a_user_and_shuts_them_out(page: Page, api: Longtail, stack: Stack) -> None:
    page.goto("/settings?tab=Users")
    name = page.get_by_label("Name", exact=True)
    name.fill("Linus T.")
    page.get_by_role("button", name="Add user").click()
    expect(page.get_by_role("alert")).to_contain_text("Name: up to 64 of a-z, 0-9")
    expect(name).to_have_value("Linus T.")
    name.fill("linus")
    page.get_by_role("button", name="Add user").click()
    shown = page.locator("code").filter(has_text=re.compile("^lt_"))
    expect(shown).to_be_visible()
    with Longtail(stack.url, shown.inner_text()) as linus:
        assert linus.me().role == "editor"
        user = next(user for user in api.users().items if user.name == "linus")
        page.locator(f".st-key-disable-{user.id} button").click()
        until(lambda: refused(linus), bool)
    assert "add_user" in [entry.action for entry in api.audit().items]


@only_with_all
def test_a_project_and_its_members(page: Page, api: Longtail) -> None:
    api.add_user("noether", "editor")
    page.goto("/settings?tab=Projects")
    page.get_by_label("Name of a new project").fill("<b>rings</b>")
    page.get_by_role("button", name="Create project").click()
    made = until(lambda: [each for each in api.projects().items if each.name == "<b>rings</b>"], bool)[0]
    page.reload()
    expect(page.get_by_label("Name", exact=True)).to_have_value("<b>rings</b>")
    page.get_by_label("User to let in").fill("noether")
    page.get_by_role("button", name="Add member").click()
    until(lambda: {member.user: member.role for member in api.members(made.id)}.get("noether"), lambda role: role == "editor")
    page.locator(f".st-key-expel-{made.id}-noether button").click()
    until(lambda: [member.user for member in api.members(made.id)], lambda names: "noether" not in names)


@only_with_all
def test_a_webhook_is_made_tested_and_removed(page: Page, api: Longtail) -> None:
    page.goto("/settings?tab=Webhooks")
    address = page.get_by_label("Address")
    address.fill("example.org")
    page.get_by_role("button", name="Add webhook").click()
    expect(page.get_by_role("alert")).to_contain_text("such as https://example.org/longtail")
    expect(address).to_have_value("example.org")
    address.fill("https://127.0.0.1:9/<b>hook</b>")
    page.get_by_role("button", name="Add webhook").click()
    expect(page.locator("code").filter(has_text=re.compile("^whsec_"))).to_be_visible()
    page.get_by_role("button", name="Send a test").click()
    expect(page.get_by_role("cell", name="failed", exact=True)).to_be_visible()
    (webhook,) = api.webhooks().items
    (delivery,) = api.deliveries(webhook.id).items
    assert delivery.error is not None
    expect(page.get_by_role("cell", name=delivery.error)).to_be_visible()
    page.locator(f".st-key-remove-{webhook.id} button").click()
    page.get_by_role("button", name="Remove the webhook").click()
    until(lambda: api.webhooks().items, lambda items: not items)
