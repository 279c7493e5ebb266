from typing import Any

from dashboard.views.new.edited_config import EditedConfig, with_defaults
from engine.config import RunConfig

SCHEMA = RunConfig.model_json_schema()
CHOSEN: dict[str, Any] = {"name": "chosen", "task": {"name": "countdown", "four_numbers": 0.5}, "algorithm": {"steps": 30}}


def test_a_draft_is_what_was_chosen_with_the_edits() -> None:
    draft = EditedConfig().edited("name", "mine").edited("algorithm.steps", 3)
    assert draft.config(SCHEMA, CHOSEN) == CHOSEN | {"name": "mine", "algorithm": {"steps": 3}}
    assert draft.config(SCHEMA, {"seed": 5}) == {"seed": 5, "name": "mine", "algorithm": {"steps": 3}}
    assert EditedConfig({"seed": 1}).edited("name", "mine").config(SCHEMA, CHOSEN) == {"seed": 1, "name": "mine"}


def test_of_a_field_that_is_typed_the_last_value_counts() -> None:
    draft = EditedConfig()
    for text in ("m", "mi", "mine"):
        draft = draft.edited("name", text)
    assert draft.edits == (("name", "mine"),)


def test_another_choice_takes_what_the_old_one_had_with_it() -> None:
    draft = EditedConfig().edited("task.four_numbers", 0.1).edited("task.name", "math")
    assert draft.config(SCHEMA, CHOSEN)["task"] == {"name": "math"}
    late = draft.edited("task.four_numbers", 0.2)
    assert late.config(SCHEMA, CHOSEN)["task"] == {"name": "math"}, "typed before the browser had drawn the new fields"
    assert late.edited("task.name", "countdown").config(SCHEMA, CHOSEN)["task"] == {"name": "countdown"}


def test_what_is_left_out_is_completed_and_nothing_else() -> None:
    full = {"name": "run", "seed": 0, "task": {"name": "math", "path": "", "question": "q"}}
    assert with_defaults({"task": {"name": "math", "path": "mine"}, "seed": 7}, full) == {
        "name": "run",
        "seed": 7,
        "task": {"name": "math", "path": "mine", "question": "q"},
    }
    assert with_defaults({"task": 5}, full) == full | {"task": 5}
