import re

import typer.main

from backend.api import create_app
from backend.cli.main import app
from backend.settings import Settings
from dashboard.text.guides import EVERY_ROUTE, GLOSSARY, GUIDES
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


def test_what_describes_every_route_is_there() -> None:
    assert create_app(Settings()).openapi_url == EVERY_ROUTE


def test_words_on_charts_are_explained() -> None:
    assert {"chain, tree", "clip share", "dip", "entropy", "staleness"} <= set(GLOSSARY)
