"""What the client does not ask a server for."""

from collections.abc import Callable

import pytest

from longtail import ApiError, Longtail


@pytest.mark.parametrize("ask", [Longtail.run, Longtail.artifact])
@pytest.mark.parametrize("asked", ["0123456789abcdef/metrics", "0123456789abcdef/"])
def test_an_id_leads_to_nothing_else(ask: Callable[[Longtail, str], object], asked: str) -> None:
    with Longtail("http://localhost:1", "token") as client, pytest.raises(ApiError) as refusal:
        ask(client, asked)
    assert refusal.value.status == 404
    assert asked in str(refusal.value)
