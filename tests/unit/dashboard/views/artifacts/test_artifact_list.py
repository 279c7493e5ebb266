"""What the list of artifacts says of each."""

from datetime import UTC, datetime

import pytest

from dashboard.views.artifacts.artifact_list import base_model
from longtail.schemas.artifacts import Artifact

FACTS = {"id": "a", "run_id": "b", "name": "drafter.zip", "version": 1, "type": "drafter", "bytes": 1, "sha256": "0" * 64}


@pytest.mark.parametrize(
    ("metadata", "told"),
    [
        ({"base_model": "tiny"}, "tiny"),
        ({"base_model": "/models/qwen2.5-1.5b-instruct/"}, "qwen2.5-1.5b-instruct"),
        ({"base_model": "Qwen/Qwen2.5-7B-Instruct"}, "Qwen2.5-7B-Instruct"),
        ({"base_model": ""}, "–"),
        ({}, "–"),
    ],
)
def test_for_which_model_a_drafter_is(metadata: dict[str, str], told: str) -> None:
    times = {"created_at": datetime(2030, 1, 2, tzinfo=UTC), "stored": True, "missing": False}
    assert base_model(Artifact.model_validate({**FACTS, **times, "metadata": metadata})) == told
