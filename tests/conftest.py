from pathlib import Path

import pytest
from models_for_tests import make_random_model


@pytest.fixture(scope="session")
def random_model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A shared random qwen2 folder (see models_for_tests); do not write to it."""
    return make_random_model(tmp_path_factory.mktemp("models") / "random")
