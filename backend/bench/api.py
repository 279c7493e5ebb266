"""``longtail bench api``: what requests for lists, comparisons and charts take, and what the API costs idle."""

from typing import Any

from backend.bench import charts, lists


def run(quick: bool) -> dict[str, Any]:
    """The figures of both; ``postgres_*`` of PostgreSQL, if it is there."""
    return lists.run(quick) | charts.run(quick)
