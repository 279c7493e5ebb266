"""Whether runs differ by more than their seeds."""

from typing import Any

import numpy as np
import pytest
from example_runs import compared_seed
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from dashboard.analysis.seed_groups import seed_groups
from dashboard.analysis.significance import least_p, p_value, too_few
from dashboard.views.compare import seed_table
from longtail.schemas.comparison import ComparedRun

NUMBERS = st.lists(st.integers(-50, 50).map(float), min_size=2, max_size=5)


def rows(items: list[ComparedRun]) -> list[dict[str, str]]:
    return seed_table.rows(items, {each.run.id: each.run.id for each in items})


def test_runs_that_differ_in_seed_and_name_only_are_one_group() -> None:
    items = [
        compared_seed("a", 1, name="first"),
        compared_seed("b", 1, False),
        compared_seed("c", 2, name="second"),
        compared_seed("d", 2, name="the same seed again"),
    ]
    assert [[each.run.id for each in group.items] for group in seed_groups(items)] == [["a", "c", "d"], ["b"]]
    assert [(group.seeds, group.told(), group.ids_by_seed()) for group in seed_groups(items)] == [
        (2, "3 runs of 2 seeds", [["a"], ["c", "d"]]),
        (1, "1 seed", [["b"]]),
    ]


def test_runs_that_repeat_a_seed_are_no_further_seeds() -> None:
    """Their mean counts, whichever of them is first."""
    plain = [compared_seed(f"p{number}", 1, False, seconds_per_step=4.0 + number) for number in range(3)]
    tlt = [compared_seed(name, seed, seconds_per_step=2.5) for name, seed in (("t1", 1), ("t2", 2))]
    first, second = rows([*plain, *tlt])
    assert (first["Runs"], first["Seeds"], first["Time a step"]) == ("p0 and 2 more", "3 runs of 1 seed", "5.00\xa0s")
    assert (second["Seeds"], second["Time a step"], second["Speed-up, seed by seed"]) == (
        "2",
        "2.50\xa0s ± 0.00\xa0s (too few seeds)",
        "2.00×",
    )
    assert seed_table.REPEATED in seed_table.remark([*plain, *tlt])
    assert seed_table.REPEATED not in seed_table.remark(tlt)
    assert "nobody can tell a difference from luck" in seed_table.remark(plain)


def test_runs_whose_seeds_nobody_knows_are_not_said_to_repeat_one() -> None:
    """Such as those of a script that does not tell it: whether they are seeds or repeats cannot be known, so that they count as one."""

    def script(name: str, seconds: float) -> ComparedRun:
        one = compared_seed(name, 1, seconds_per_step=seconds)
        told = {"kind": "tracked", "config": {"lr": 0.1}}
        return one.model_copy(update={"run": one.run.model_copy(update=told)})

    items = [script(name, seconds) for name, seconds in (("a", 1.0), ("b", 2.0), ("c", 3.0))]
    (group,) = seed_groups(items)
    assert (group.told(), group.repeats, group.seeds) == ("3 runs, seeds not known", False, 1)
    assert group.ids_by_seed() == [["a", "b", "c"]]
    (row,) = rows(items)
    assert (row["Seeds"], row["Time a step"]) == ("3 runs, seeds not known", "2.00\xa0s")
    assert seed_table.REPEATED not in seed_table.remark(items)
    assert "nobody can tell a difference from luck" in seed_table.remark(items)
    (alone,) = seed_groups(items[:1])
    assert alone.told() == "seed not known"


@given(NUMBERS, NUMBERS)
def test_the_p_value_is_that_of_an_exact_permutation_test(one: list[float], other: list[float]) -> None:
    def gap(first: Any, second: Any, axis: int) -> Any:
        return abs(np.mean(first, axis=axis) - np.mean(second, axis=axis))

    exact = stats.permutation_test((one, other), gap, vectorized=True, n_resamples=np.inf, alternative="greater")
    assert p_value(one, other) == pytest.approx(exact.pvalue)


@pytest.mark.parametrize("sizes", [(1, 1), (2, 3), (3, 3), (3, 4), (4, 4), (5, 5)])
def test_the_least_p_value_is_that_of_groups_that_lie_apart(sizes: tuple[int, int]) -> None:
    one, other = [float(n) for n in range(sizes[0])], [1000.0 + n for n in range(sizes[1])]
    assert p_value(one, other) == pytest.approx(least_p(*sizes))


def test_few_seeds_cannot_show_anything() -> None:
    assert [too_few(*sizes) for sizes in ((1, 5), (2, 8), (3, 3), (3, 4), (4, 4), (5, 5))] == [True, True, True, False, False, False]


def test_a_difference_over_enough_seeds_is_called_one() -> None:
    plain = [compared_seed(f"p{seed}", seed, False, seconds_per_step=4.0 + seed / 50, reward_last=0.5) for seed in range(4)]
    tlt = [compared_seed(f"t{seed}", seed, seconds_per_step=2.0 + seed / 50, reward_last=0.5 + seed / 100) for seed in range(4)]
    first, second = rows([*plain, *tlt])
    assert (first["Runs"], first["Seeds"], first["Time a step"]) == ("p0 and 3 more", "4", "4.03\xa0s ± 0.03\xa0s")
    assert second["Time a step"] == "2.03\xa0s ± 0.03\xa0s (differs, p = 0.029)"
    assert "no clear difference" in second["Reward, last quarter"]
    assert second["Accept length, last quarter"] == "–"
    assert "p is 0.029 at least" in seed_table.remark([*plain, *tlt])


def test_too_few_seeds_are_called_that() -> None:
    items = [
        compared_seed("a", 1, False, seconds_per_step=4.0),
        compared_seed("b", 1, seconds_per_step=1.0),
        compared_seed("c", 2, seconds_per_step=1.1),
    ]
    assert rows(items)[1]["Time a step"] == "1.05\xa0s ± 0.07\xa0s (too few seeds)"
    assert "nobody can tell a difference from luck" in seed_table.remark(items[:2])
    assert "at least" not in seed_table.remark(items)
