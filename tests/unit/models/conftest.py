from pathlib import Path

import pytest


@pytest.fixture
def models(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("LONGTAIL_HOME", str(tmp_path / "home"))
    return tmp_path / "home" / "models"
