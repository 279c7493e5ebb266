from collections.abc import Iterator

import pytest
from live_platform import Platform


@pytest.fixture(scope="module")
def serving(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Platform]:
    platform = Platform(tmp_path_factory.mktemp("platform"))
    try:
        platform.until(platform.answers)
        yield platform
    finally:
        platform.close()


@pytest.fixture
def platform(serving: Platform) -> Iterator[Platform]:
    """The platform without workers."""
    yield serving
    serving.stop_workers()
