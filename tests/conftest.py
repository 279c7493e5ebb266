from pathlib import Path

import pytest
from models_for_tests import make_random_model


@pytest.fixture(scope="session")
def random_model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A shared random qwen2 folder (see models_for_tests); do not write to it."""
    return make_random_model(tmp_path_factory.mktemp("models") / "random")


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Whole systems run one after the other, in one of pytest-xdist's workers; unit tests run beside them."""
    unit = Path(__file__).parent / "unit"
    for item in items:
        if unit not in item.path.parents:
            item.add_marker(pytest.mark.xdist_group("systems"))
