from datetime import UTC, datetime, timedelta

import pytest

from dashboard.text.escaping import escaped, visible
from dashboard.text.formats import ago, count, duration, last_steps, number, percent, ratio, size


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (None, "–"),
        (0, "0.00\xa0s"),
        (0.00042, "0.42\xa0ms"),
        (0.0042, "4.2\xa0ms"),
        (0.00999, "10\xa0ms"),
        (0.0101, "0.01\xa0s"),
        (0.417, "0.42\xa0s"),
        (9.994, "9.99\xa0s"),
        (9.996, "10.0\xa0s"),
        (59.94, "59.9\xa0s"),
        (59.96, "1\xa0min 0\xa0s"),
        (245, "4\xa0min 5\xa0s"),
        (3599.6, "1\xa0h 0\xa0min"),
        (7980, "2\xa0h 13\xa0min"),
        (273_600, "3\xa0d 4\xa0h"),
    ],
)
def test_duration_has_two_units_at_most(seconds: float | None, text: str) -> None:
    assert duration(seconds) == text


def test_missing_numbers_are_dashes() -> None:
    assert {number(None), percent(None), ratio(None)} == {"–"}


def test_numbers_carry_their_units() -> None:
    assert (number(12345.678, 1), percent(0.834), ratio(1.8249)) == ("12,345.7", "83\xa0%", "1.82×")
    assert [size(n) for n in (999, 50_000, 12_300_000, 5_000_000_000)] == ["999\xa0B", "50.0\xa0kB", "12.3\xa0MB", "5.0\xa0GB"]


@pytest.mark.parametrize(("seconds", "text"), [(3, "just now"), (61, "1\xa0min ago"), (7300, "2\xa0h ago"), (200_000, "2\xa0d ago")])
def test_ago(seconds: int, text: str) -> None:
    now = datetime(2030, 1, 1, tzinfo=UTC)
    assert ago(now - timedelta(seconds=seconds), now) == text


def test_one_is_no_plural() -> None:
    assert [count(number, "run") for number in (0, 1, 1200)] == ["0 runs", "1 run", "1,200 runs"]
    assert [last_steps(number) for number in (1, 5)] == ["last step", "last 5 steps"]


def test_nothing_turns_around_what_follows_it_or_reaches_a_terminal() -> None:
    assert visible("a\u202ezip.exe \u05d0\u05d1") == "a\ufffdzip.exe \u05d0\u05d1"
    assert escaped("\x1b[31mred") == "\u241b\\[31mred"


def test_plain_escapes_every_markdown_character() -> None:
    assert escaped("<b>*x*</b>") == r"\<b\>\*x\*\</b\>"
    assert escaped("a\n\n# b") == r"a \# b"


@pytest.mark.parametrize(
    ("text", "dangerous"),
    [
        (":material/home:", ":material"),
        ("http://h/x.png", "://"),
        ("www.h.example", "www."),
        ("a@h.example", "@h"),
        ("a -- b", "--"),
        ("a <-> b", "<->"),
    ],
)
def test_plain_parts_what_markdown_would_find_behind_escapes(text: str, dangerous: str) -> None:
    shown = escaped(text).replace("\\", "")
    assert dangerous not in shown
    assert shown.replace("\u2060", "") == text


def test_a_number_stays_with_its_unit_in_what_markdown_shows() -> None:
    assert escaped(f"took\n{duration(1.2)}  a step") == "took 1\\.20\N{NO-BREAK SPACE}s a step"
