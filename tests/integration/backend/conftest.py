from collections.abc import Iterator
from pathlib import Path

import pytest
from live_platform import Platform


@pytest.fixture
def platform(tmp_path: Path) -> Iterator[Platform]:
    platform = Platform(tmp_path)
    yield platform
    platform.close()
