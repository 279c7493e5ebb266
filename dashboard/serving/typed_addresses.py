"""Addresses that people type by hand, such as that of the list of runs by its name: Streamlit knows its first page as ``/`` only."""

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route


async def first_page(request: Request) -> Response:
    """With what the address holds, such as filters."""
    return RedirectResponse(f"/?{request.url.query}" if request.url.query else "/")


ROUTES = [Route("/runs", first_page), Route("/runs/", first_page)]
