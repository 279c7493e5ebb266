import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings
from models_for_tests import make_random_model
from postgres_for_tests import Postgres, shared_folder
from xdist.remote import Producer
from xdist.scheduler import LoadScopeScheduling

# Speed is measured elsewhere: a busy machine must not fail a property.
settings.register_profile("busy", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("busy")

# A shell lets its background jobs ignore SIGINT, and processes inherit that: tests that send one need it heeded.
signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(scope="session")
def random_model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A shared random qwen2 folder (see models_for_tests); do not write to it."""
    return make_random_model(tmp_path_factory.mktemp("models") / "random")


@pytest.fixture(scope="session")
def postgres(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Postgres]:
    """A PostgreSQL server, the same one for all of a session's test processes."""
    server = Postgres(shared_folder(tmp_path_factory.getbasetemp()))
    yield server
    server.close()


@pytest.fixture(autouse=True)
def ordinary_floats() -> Iterator[None]:
    """Workers flush denormal numbers, for their whole process; a worker inside a test must not do so to the tests after it."""
    yield
    if "torch" in sys.modules:
        sys.modules["torch"].set_flush_denormal(False)


class OneSystemAtATime(LoadScopeScheduling):  # type: ignore[misc]
    """Whole systems run one after the other, in one of pytest-xdist's workers; unit tests run beside them, file by file."""

    def _split_scope(self, nodeid: str) -> str:
        file = nodeid.partition("::")[0]
        return file if file.startswith("tests/unit/") else "systems"


def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> OneSystemAtATime:
    return OneSystemAtATime(config, log)
