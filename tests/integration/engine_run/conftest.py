"""A plain run and one by TLT, which the tests here look at."""

from pathlib import Path

import pytest
from engine_processes import ALONE, SMALL_RUN, STRATEGIES, Config, run


@pytest.fixture(scope="package")
def config(random_model: Path) -> Config:
    return SMALL_RUN | {"model": {"path": str(random_model)}}


@pytest.fixture(scope="package")
def tlt(config: Config, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """With the default tuner; the other runs with speculation use the bandit."""
    out = tmp_path_factory.mktemp("tlt")
    run(config | {"speculation": {"strategies": STRATEGIES}}, out)
    return out


@pytest.fixture(scope="package")
def plain(config: Config, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("plain")
    run(config | ALONE | {"speculation": {"enabled": False}}, out)
    return out
