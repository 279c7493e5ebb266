from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from arena import Arena, Zygote
from postgres_for_tests import Postgres


@pytest.fixture(scope="session")
def zygote() -> Iterator[Zygote]:
    zygote = Zygote()
    yield zygote
    zygote.close()


@pytest.fixture
def arena(zygote: Zygote, tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Arena]:
    """Without processes yet. On SQLite, unless the test is parametrised to "postgresql"."""
    with ExitStack() as resources:
        url = ""
        if getattr(request, "param", "sqlite") == "postgresql":
            server: Postgres = request.getfixturevalue("postgres")
            url = resources.enter_context(server.database())
        arena = Arena(zygote, tmp_path / "home", url)
        resources.callback(arena.close)
        yield arena
