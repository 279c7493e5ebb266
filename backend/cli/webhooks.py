"""``longtail webhook``: who is told of what happens to runs."""

import time
from typing import Annotated, cast, get_args

import typer
from rich.console import Console
from rich.markup import escape

from backend.cli import terminal
from engine.errors import LongtailError
from longtail import Longtail
from longtail.schemas.webhooks import ENDINGS, Delivery, Event

WAIT_SECONDS = 20.0
POLL_SECONDS = 0.2
MOST = 200

webhook = typer.Typer(no_args_is_help=True, help="Who is told of what happens to runs (for admins).")
console = Console()

WebhookId = Annotated[str, typer.Argument(metavar="ID", help="Id of the webhook")]


@webhook.command("add")
def add(
    url: Annotated[str, typer.Argument(help="Where to send the messages: https://...")],
    event: Annotated[list[str] | None, typer.Option(help="What to tell of, such as run.failed; may be repeated")] = None,
    project: Annotated[str | None, typer.Option(help="Of this project's runs only: its name or id")] = None,
) -> None:
    """Add a webhook; prints its id and its secret, which is shown this once."""
    with Longtail() as client:
        project_id = client.project(project).id if project else None
        added = client.add_webhook(url, [_event(name) for name in event] if event else ENDINGS, project_id)
    typer.echo(f"{added.id} {added.secret}")


@webhook.command("list")
def list_() -> None:
    """List webhooks, newest first."""
    shown = terminal.listing("Id", "URL", "Project", "Events", overflow="fold")
    with Longtail() as client:
        projects = {project.id: project.name for project in client.every(client.projects, archived=True, limit=MOST)}
        for each in client.webhooks(MOST).items:
            project = projects.get(each.project_id, each.project_id) if each.project_id else "all"
            shown.add_row(each.id, escape(each.url), escape(project), " ".join(each.events))
    console.print(shown)


@webhook.command("remove")
def remove(webhook_id: WebhookId) -> None:
    """Stop telling it anything, at once."""
    with Longtail() as client:
        client.remove_webhook(webhook_id)


@webhook.command("test")
def test(webhook_id: WebhookId) -> None:
    """Send a ping, and say what came of it."""
    with Longtail() as client:
        sent = _settled(client, webhook_id, client.test_webhook(webhook_id).id)
    if sent is None or sent.state != "delivered":
        raise LongtailError(f"the ping did not arrive: {sent.error if sent else 'nobody has sent it yet'}")
    console.print(f"answered {sent.status}")


def _settled(client: Longtail, webhook_id: str, delivery_id: str) -> Delivery | None:
    """None if nothing has become of it in time."""
    deadline = time.monotonic() + WAIT_SECONDS
    while time.monotonic() < deadline:
        found = next((each for each in client.deliveries(webhook_id, MOST).items if each.id == delivery_id), None)
        if found is not None and found.state != "pending":
            return found
        time.sleep(POLL_SECONDS)
    return None


def _event(name: str) -> Event:
    if name not in get_args(Event):
        raise LongtailError(f"{name} is no event: {', '.join(get_args(Event))}")
    return cast(Event, name)
