import re

import typer.main

from backend.api import create_app
from backend.cli.main import app
from backend.settings import Settings
from dashboard.text.guides import GLOSSARY, GUIDES
from dashboard.views.run.tab_list import TABS


def test_every_tab_says_how_to_read_it() -> None:
    assert {tab.name for tab in TABS} == set(GUIDES)
    assert list(GLOSSARY) == sorted(GLOSSARY, key=str.lower)


def test_the_commands_and_routes_that_are_named_are_there() -> None:
    commands = set(typer.main.get_command(app).commands)  # type: ignore[attr-defined]
    assert {guide.command.split()[1] for guide in GUIDES.values()} <= commands
    routes = create_app(Settings()).openapi()["paths"]
    named = {re.sub(r"\?.*", "", guide.rest.split()[1]).replace("{run}", "{run_id}") for guide in GUIDES.values()}
    assert named <= set(routes)
