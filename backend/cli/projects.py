"""``longtail project``: what groups runs, and who may see them."""

from typing import Annotated

import typer
from rich.console import Console
from rich.markup import escape

from backend.cli import terminal
from backend.cli.identity import role_of
from longtail import Longtail

MOST = 200

project = typer.Typer(no_args_is_help=True, help="Projects, and who may see their runs.")
console = Console()

Name = Annotated[str, typer.Argument(metavar="PROJECT", help="Name or id of a project")]
UserName = Annotated[str, typer.Argument(metavar="USER", help="Name of a user")]


@project.command("list")
def list_projects(archived: Annotated[bool, typer.Option("--all", help="With archived ones")] = False) -> None:
    """List the projects that you may see."""
    shown = terminal.listing("Id", "Name", "You are", "State", "Description")
    with Longtail() as client:
        for each in client.projects(archived, MOST).items:
            shown.add_row(each.id, escape(each.name), each.role, "archived" if each.archived_at else "open", escape(each.description))
    console.print(shown)


@project.command("create")
def create(
    name: Annotated[str, typer.Argument(help="Its name")], description: Annotated[str, typer.Option(help="What it is about")] = ""
) -> None:
    """Make a project, which you administer; prints its id."""
    with Longtail() as client:
        typer.echo(client.create_project(name, description).id)


@project.command("rename")
def rename(name: Name, new: Annotated[str, typer.Argument(help="The new name")]) -> None:
    """Give a project another name."""
    with Longtail() as client:
        client.change_project(client.project(name).id, name=new)


@project.command("archive")
def archive(name: Name, undo: Annotated[bool, typer.Option("--undo", help="Take it back out of the archive")] = False) -> None:
    """Let a project take no more runs, and keep those that it has out of the lists that do not name it."""
    with Longtail() as client:
        client.change_project(client.project(name).id, archived=not undo)


@project.command("members")
def members(name: Name) -> None:
    """List who may see a project, beside the admins of this server."""
    with Longtail() as client:
        for member in client.members(client.project(name).id):
            console.print(f"{member.user}: {member.role}", markup=False, highlight=False)


@project.command("add")
def add(name: Name, user: UserName, role: Annotated[str, typer.Option(help="viewer, editor or admin")] = "editor") -> None:
    """Let a user into a project, or change what they may do there."""
    with Longtail() as client:
        client.set_member(client.project(name).id, user, role_of(role))


@project.command("remove")
def remove(name: Name, user: UserName) -> None:
    """Take a user out of a project."""
    with Longtail() as client:
        client.remove_member(client.project(name).id, user)
