from backend.presets import preset
from dashboard.differences import MISSING, differences, shown


def test_differences_are_the_leaves_that_are_not_the_same() -> None:
    mine = {"seed": 1, "task": {"name": "math", "path": "a"}, "rollout": {"stop": ["x"]}, "drafter": {}}
    other = {"seed": 1, "task": {"name": "countdown"}, "rollout": {"stop": []}, "more": None}
    assert differences(mine, other) == [
        ("task.name", "math", "countdown"),
        ("task.path", "a", MISSING),
        ("rollout.stop", ["x"], []),
        ("drafter", {}, MISSING),
        ("more", MISSING, None),
    ]
    assert differences(mine, mine) == []


def test_a_preset_differs_from_another_in_what_it_is_there_for() -> None:
    assert [row.field for row in differences(preset("demo-plain").config, preset("demo-tlt").config)] == ["name", "speculation.enabled"]


def test_values_are_shown_as_yaml() -> None:
    assert [shown(value) for value in (None, True, "x", ["a", 1], {}, MISSING)] == ["null", "true", "x", "[a, 1]", "{}", "not set"]
