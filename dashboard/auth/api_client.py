"""The API in the name of whoever looks at the page."""

from functools import lru_cache

import streamlit as st

from longtail import ApiError, Longtail
from longtail.schemas.identity import Me
from longtail.schemas.projects import Project
from longtail.schemas.runs import Run
from longtail.transport import MOST

SESSIONS = 256
UNAUTHORIZED, NOT_FOUND = 401, 404


def cookie_name() -> str:
    """Holds the session. Browsers give a cookie to every port of a host, so each dashboard has its own."""
    return f"longtail-session-{st.get_option('server.port')}"


@lru_cache(SESSIONS)
def client_of_session(session: str) -> Longtail:
    """The API as seen by who has this session; an empty one is nobody, never this machine's own token."""
    return Longtail(token=session, timeout=10)


def client() -> Longtail:
    return client_of_session(st.context.cookies.get(cookie_name(), ""))


def me() -> Me:
    """Who looks at the page; app.py asks the API before every page."""
    known: Me = st.session_state["me"]
    return known


def all_projects(archived: bool = False) -> list[Project]:
    """That are in the visitor's sight; those that are ``archived`` only if asked for."""
    return list(client().every(client().projects, archived=archived, limit=MOST))


def run_if_any(run_id: str) -> Run | None:
    """None if there is none in the visitor's sight."""
    try:
        return client().run(run_id)
    except ApiError as error:
        if error.status != NOT_FOUND:
            raise
        return None
