"""The text of a draft that a browser keeps: it says all that was typed, and no text breaks the form."""

import json
from typing import Any

import pytest

from dashboard.views.new.edited_config import EditedConfig
from dashboard.views.new.kept_draft import MOST_LETTERS, KeptDraft, draft_of, text_of
from engine.config import RunConfig

SCHEMA = RunConfig.model_json_schema()
EDITED = EditedConfig(None, (("name", "typed"), ("algorithm.steps", 7), ("drafter.path", None), ("speculation.enabled", False)))


@pytest.mark.parametrize(
    "draft",
    [
        KeptDraft("countdown", EDITED, None, {"tags": "a, b", "notes": "<b>é\n🚀", "priority": -3, "twin": True}),
        KeptDraft("0123456789abcdef", EditedConfig({"name": "base", "rollout": {"stop": ["x"]}}), "name: [unclosed", {}),
    ],
    ids=["form", "yaml"],
)
def test_what_is_kept_comes_back(draft: KeptDraft) -> None:
    assert draft_of(text_of(draft)) == draft


def test_nothing_and_too_much_are_not_kept() -> None:
    assert text_of(KeptDraft("countdown", EditedConfig(), None, {})) is None
    assert text_of(KeptDraft("countdown", EditedConfig(), "x" * MOST_LETTERS, {})) is None


@pytest.mark.parametrize(
    "text",
    [
        *(None, 7, "", "{", "[]", "{}", '{"origin": 5}', '{"origin": "a", "edits": [["seed", NaN]]}', "[" * 100_000, "9" * 5000),
        r'{"origin": "a", "options": {"notes": "\ud800"}}',
    ],
)
def test_what_is_no_draft_is_none(text: object) -> None:
    assert draft_of(text) is None


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("edits", {"name": "x"}),
        ("edits", [["name"], ["name", 1, 2], [5, "x"], "name", ["name", {"a": 1}], ["seed", 2**60], ["seed", [1]]]),
        ("base", ["x"]),
        ("yaml", {"name": "x"}),
        ("options", [1]),
        ("options", {"notes": None, "tags": ["x"], "priority": 1e300}),
    ],
)
def test_what_cannot_be_in_a_form_is_left_out(name: str, told: Any) -> None:
    assert draft_of(json.dumps({"origin": "a", name: told})) == KeptDraft("a", EditedConfig(), None, {})


def test_of_an_older_form_counts_what_this_one_has() -> None:
    """A value out of range stays: the API says at its field what is wrong with it."""
    edits = [
        ["name", "typed"],
        ["retired.setting", 3],
        ["algorithm", 3],
        ["seed.x", 1],
        ["algorithm.steps", -5],
    ]
    draft = draft_of(json.dumps({"origin": "a", "edits": edits}))
    assert draft is not None
    assert draft.config.config(SCHEMA, {"seed": 1}) == {"seed": 1, "name": "typed", "algorithm": {"steps": -5}}
