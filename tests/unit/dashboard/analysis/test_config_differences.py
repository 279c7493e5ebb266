from backend.services.runs.presets import preset
from dashboard.analysis.config_differences import NOT_SET, config_differences, one_line_yaml


def test_differences_are_the_leaves_that_are_not_the_same() -> None:
    mine = {"seed": 1, "task": {"name": "math", "path": "a"}, "rollout": {"stop": ["x"]}, "drafter": {}}
    other = {"seed": 1, "task": {"name": "countdown"}, "rollout": {"stop": []}, "more": None}
    assert config_differences(mine, other) == [
        ("task.name", "math", "countdown"),
        ("task.path", "a", NOT_SET),
        ("rollout.stop", ["x"], []),
        ("drafter", {}, NOT_SET),
        ("more", NOT_SET, None),
    ]
    assert config_differences(mine, mine) == []


def test_a_preset_differs_from_another_in_what_it_is_there_for() -> None:
    assert [row.field for row in config_differences(preset("demo-plain").config, preset("demo-tlt").config)] == [
        "name",
        "speculation.enabled",
    ]


def test_values_are_shown_as_yaml() -> None:
    assert [one_line_yaml(value) for value in (None, True, "x", ["a", 1], {}, NOT_SET)] == ["null", "true", "x", "[a, 1]", "{}", "not set"]
