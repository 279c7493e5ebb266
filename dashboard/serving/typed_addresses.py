"""Addresses that people type by hand, such as that of the list of runs by its name: Streamlit knows its first page as ``/`` only."""

from urllib.parse import urlencode

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route


async def first_page(request: Request) -> Response:
    """With what the address holds, such as filters."""
    return RedirectResponse(f"/?{request.url.query}" if request.url.query else "/")


async def run_page(request: Request) -> Response:
    """Of an id behind a slash, with what else the address holds."""
    rest = [(name, value) for name, value in request.query_params.multi_items() if name != "id"]
    return RedirectResponse(f"/run?{urlencode([('id', request.path_params['run_id']), *rest])}")


ROUTES = [Route("/runs", first_page), Route("/runs/", first_page), Route("/run/{run_id}", run_page)]
