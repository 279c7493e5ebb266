import pytest

from backend.services.runs.presets import presets
from dashboard.views.new.yaml_editor import MOST_BYTES, NotAConfigError, dump, parse

BOMB = "a: &a0 [x, x]\n" + "".join(f"b{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]\n" for n in range(1, 12))


def test_what_is_written_is_read_again() -> None:
    for preset in presets():
        assert parse(dump(preset.config)) == preset.config
    name = "<b>é</b> \u202eabc 🚀 \x1b[31m"
    assert parse(dump({"name": name})) == {"name": name}


def test_anchors_and_dates_are_plain_values() -> None:
    assert parse("a: &x {b: 1}\nc: *x\nd: 2026-01-31\n1: e") == {"a": {"b": 1}, "c": {"b": 1}, "d": "2026-01-31", "1": "e"}


def test_what_is_merged_may_be_overridden() -> None:
    assert parse("a: &x {b: 1}\nc: {<<: *x, b: 2}")["c"] == {"b": 2}


def test_an_infinite_limit_is_a_text_as_in_json() -> None:
    assert parse("{a: .inf, b: [-.inf]}") == {"a": "Infinity", "b": ["-Infinity"]}


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("name: [unclosed", "not readable as YAML"),
        ("a: 2026-13-45", "not readable as YAML"),
        ("[" * 5000, "not readable as YAML"),
        ("!!python/object:os.system {}", "not readable as YAML"),
        ("just text", "is a mapping"),
        ("", "is a mapping"),
        ("a: .nan", "nan is none"),
        ("drafter: {recipe: hass}\nname: x\ndrafter: {path: auto}", "line 3: drafter is given twice"),
        ("a: [{b: {c: 1, c: 2}}]", "line 1: c is given twice"),
        ("a: &a [*a]", "contains itself"),
        ("2026-01-31: x", "texts as its keys"),
        (BOMB, f"at most {MOST_BYTES:,} characters"),
        (f"a: {'x' * MOST_BYTES}", f"at most {MOST_BYTES:,} characters"),
    ],
)
def test_what_is_no_configuration_is_explained(text: str, said: str) -> None:
    with pytest.raises(NotAConfigError, match=said):
        parse(text)
