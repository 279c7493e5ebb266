from __future__ import annotations

import gc
import signal
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import passive_threads  # noqa: F401 - before whatever imports torch
import pytest
import scopes
from hypothesis import HealthCheck, settings
from models_for_tests import make_random_model
from sizes import ALL, examples
from xdist.remote import Producer
from xdist.scheduler import LoadScopeScheduling

from engine.interruption import INTERRUPTS

if TYPE_CHECKING:  # a machine that only measures on a GPU has no databases
    from database_copies import DatabaseCopies
    from postgres_for_tests import Postgres

# Speed is measured elsewhere: a busy machine must not fail a property. By default a property is tried on the same examples each time.
settings.register_profile(
    "longtail", deadline=None, suppress_health_check=[HealthCheck.too_slow], max_examples=examples(100), derandomize=not ALL
)
settings.load_profile("longtail")

# A shell lets its background jobs ignore SIGINT, and processes inherit that: tests that send one need it heeded.
signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(scope="session")
def random_model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A shared random qwen2 folder (see models_for_tests); do not write to it."""
    return make_random_model(tmp_path_factory.mktemp("models") / "random")


@pytest.fixture(scope="session")
def postgres(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Postgres]:
    """A PostgreSQL server, the same one for all of a session's test processes."""
    from postgres_for_tests import Postgres, shared_folder

    server = Postgres(shared_folder(tmp_path_factory.getbasetemp()))
    yield server
    server.close()


@pytest.fixture(scope="session")
def database_copies(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> DatabaseCopies:
    from database_copies import DatabaseCopies

    return DatabaseCopies(tmp_path_factory.mktemp("originals"), lambda: request.getfixturevalue("postgres"))


@pytest.fixture(scope="session")
def make_tables(database_copies: DatabaseCopies) -> Callable[[str], None]:
    """Creates the database at a URL with all tables."""
    return database_copies.make


@pytest.fixture(autouse=True)
def ordinary_floats() -> Iterator[None]:
    """Workers flush denormal numbers, for their whole process; a worker inside a test must not do so to the tests after it."""
    yield
    if "torch" in sys.modules:
        sys.modules["torch"].set_flush_denormal(False)


@pytest.fixture
def kept_signals() -> Iterator[None]:
    """Who was interrupted heeds no signal any more, as it is on its way out; a test is not."""
    before = {number: signal.getsignal(number) for number in INTERRUPTS}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


class LongestFirst(LoadScopeScheduling):  # type: ignore[misc]
    """What shares servers runs in one worker of pytest-xdist; the scopes that take longest begin first, so that none is left at the end."""

    def _split_scope(self, nodeid: str) -> str:
        return scopes.scope(nodeid)


def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> LongestFirst:
    config.option.loadscopereorder = False
    return LongestFirst(config, log)


def pytest_collection_finish() -> None:
    """What is imported by now stays. To look through all of it for garbage again and again takes a fifth of the tests' time."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(10_000, 20, 20)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if hasattr(config, "workerinput"):
        items.sort(key=lambda item: -scopes.seconds(item.nodeid))
