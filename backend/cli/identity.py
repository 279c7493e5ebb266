"""``longtail user``, ``token``, ``login``, ``logout`` and ``open``."""

from datetime import datetime
from typing import Annotated

import typer
from rich.markup import escape

from backend.cli import terminal
from backend.settings import Settings
from backend.stack.home_folder import read_server_file
from engine.errors import LongtailError
from longtail import Longtail
from longtail.identity import Identity, entrance
from longtail.logins import forget, remember
from longtail.schemas.identity import Role, User

MOST = 200

user = typer.Typer(no_args_is_help=True, help="Who may use this server (for admins).")
token = typer.Typer(no_args_is_help=True, help="Tokens for programs and other machines.")
console = terminal.WIDE

Name = Annotated[str, typer.Argument(metavar="USER", help="Name of the user")]
Server = Annotated[str, typer.Argument(metavar="URL", help="Address of the API, such as https://longtail.example")]


def login(
    url: Server,
    name: Annotated[str | None, typer.Option("--user", help="Log in by password, with a token that lasts 90 days")] = None,
) -> None:
    """Keep a token for a remote server; later commands talk to it."""
    url = url.rstrip("/")
    secret = typer.prompt("Password" if name else "Token", hide_input=True)
    if name:
        with Longtail(url, "") as client:
            session = client.log_in(name, secret).token
        with Longtail(url, session) as client:
            try:
                secret = client.create_token("longtail login", client.me().role).token
            finally:
                client.log_out()
    with Longtail(url, secret) as client:
        who = client.me()
    console.print(f"Logged in at {url} as {who.user} ({who.role}); the token is in {remember(url, secret)}", highlight=False)


def logout(url: Server) -> None:
    """Revoke the token that ``longtail login`` has kept, and forget it."""
    url = url.rstrip("/")
    with Longtail(url) as client:
        client.log_out()
    if not forget(url):
        raise LongtailError(f"there is no login at {url}")


def open_dashboard() -> None:
    """Print an address that opens the dashboard, logged in, once."""
    facts = read_server_file(Settings())
    if facts is None or facts["dashboard_url"] is None:
        raise LongtailError("no dashboard runs from this data folder; start one with: longtail up")
    with Longtail(facts["url"]) as client:
        typer.echo(entrance(client, facts["dashboard_url"]))


@user.command("add")
def add_user(
    name: Annotated[str, typer.Argument(help="a-z, 0-9, dot, dash, underscore")],
    role: Annotated[str, typer.Option(help="viewer, editor or admin")] = "editor",
    password: Annotated[bool, typer.Option("--password", help="Ask for a password; else the user gets a token")] = False,
) -> None:
    """Add a user; prints a first token, or asks for a password."""
    chosen = typer.prompt("Password (12 characters or more)", hide_input=True, confirmation_prompt=True) if password else None
    with Longtail() as client:
        added = client.add_user(name, role_of(role), chosen)
        if chosen is None:
            typer.echo(client.create_token("first", added.role, user_id=added.id).token)


@user.command("list")
def list_users() -> None:
    """List users, newest first."""
    shown = terminal.listing("Name", "Role", "State", "Password", "Created", no_wrap=True)
    with Longtail() as client:
        for each in client.users(MOST).items:
            state = "disabled" if each.disabled else "active"
            shown.add_row(escape(each.name), each.role, state, "yes" if each.has_password else "no", _day(each.created_at))
    console.print(shown)


@user.command("disable")
def disable_user(name: Name) -> None:
    """Shut a user out at once."""
    _change(name, disabled=True)


@user.command("enable")
def enable_user(name: Name) -> None:
    """Let a user in again."""
    _change(name, disabled=False)


@user.command("role")
def set_role(name: Name, role: Annotated[str, typer.Argument(help="viewer, editor or admin")]) -> None:
    """Change what a user may do."""
    _change(name, role=role_of(role))


@token.command("create")
def create_token(
    name: Annotated[str, typer.Argument(help="What it is for")],
    scope: Annotated[str, typer.Option(help="The most that it allows: viewer, editor or admin")] = "editor",
    days: Annotated[float, typer.Option(min=0, help="Until it expires; 0: never")] = 90,
    project: Annotated[str | None, typer.Option(help="Name or id of the only project that it opens")] = None,
) -> None:
    """Make a token; it is shown this once."""
    with Longtail() as client:
        only = project and client.project(project).id
        typer.echo(client.create_token(name, role_of(scope), days or None, project_id=only).token)


@token.command("list")
def list_tokens(everyone: Annotated[bool, typer.Option("--all", help="Of all users, for admins")] = False) -> None:
    """List tokens and sessions, newest first."""
    shown = terminal.listing("Id", "User", "Name", "Scope", "Expires", "Last used", "State", no_wrap=True)
    with Longtail() as client:
        for each in client.tokens(everyone, MOST).items:
            state = "revoked" if each.revoked_at else "over" if each.is_over else "valid"
            times = _day(each.expires_at), _day(each.last_used_at)
            shown.add_row(each.id, escape(each.user_name), escape(each.name), each.scope, *times, state)
    console.print(shown)


@token.command("revoke")
def revoke_token(token_id: Annotated[str, typer.Argument(metavar="ID", help="Id of the token")]) -> None:
    """End a token at once."""
    with Longtail() as client:
        client.revoke_token(token_id)


def _change(name: str, **changes: bool | Role) -> None:
    with Longtail() as client:
        changed = client.change_user(_find(client, name).id, **changes)
        console.print(f"{changed.name}: {changed.role}{', disabled' if changed.disabled else ''}", highlight=False)


def _find(client: Identity, name: str) -> User:
    for each in client.every(client.users, limit=MOST):
        if each.name == name:
            return each
    raise LongtailError(f"there is no user {name}")


def role_of(text: str) -> Role:
    """LongtailError if there is no such role."""
    match text:
        case "viewer" | "editor" | "admin":
            return text
    raise LongtailError(f"{text} is no role: viewer, editor or admin")


def _day(moment: datetime | None) -> str:
    return f"{moment.astimezone():%Y-%m-%d}" if moment else "never"
