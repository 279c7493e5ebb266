from example_runs import compared_run, compared_seed

from dashboard.analysis.comparability import machines, other_work
from dashboard.analysis.seed_groups import seed_groups, seed_speedups
from longtail.schemas.comparison import ConfigDifference

BASELINE, OTHER = compared_seed("a", 1, False), compared_seed("b", 1)


def test_the_card_says_in_what_the_work_differs() -> None:
    values = {"model.path": ("tiny", "small"), "task.name": ("countdown", "math")}
    different = [ConfigDifference(field=field, values=dict(zip("ab", pair, strict=True))) for field, pair in values.items()]
    apart = OTHER.model_copy(update={"confounders": list(values)})
    assert other_work(BASELINE, apart, different) == "model.path (tiny, small) and task.name (countdown, math)"
    many = OTHER.model_copy(update={"confounders": [*values, "a", "b", "c", "d"]})
    assert other_work(BASELINE, many, different).endswith("a, b and 2 more")
    assert other_work(BASELINE, OTHER, different) == ""


def test_machines_are_named_where_they_differ() -> None:
    here, there = BASELINE.model_copy(update={"machine": "node-1"}), OTHER.model_copy(update={"machine": "node-2"})
    names = {"a": "plain", "b": "tlt"}
    assert machines([here, here], names) == "All on one machine: node-1."
    assert machines([here, there, BASELINE], names) == "On different machines. plain: node-1; tlt: node-2; plain: not known."
    assert machines([BASELINE, OTHER], names) == "Nobody told on which machines."


def test_groups_are_as_fast_as_their_runs_of_the_same_seed() -> None:
    plain = [compared_seed(f"p{seed}", seed, False, seconds_per_step=4.0 + seed) for seed in (1, 2, 3)]
    tlt = [compared_seed(f"t{seed}", seed, True, seconds_per_step=2.0) for seed in (2, 3, 4)]
    tlt = [item.model_copy(update={"confounders": ["seed"]}) for item in tlt]
    first, second = seed_groups([*plain, *tlt])
    assert seed_speedups(first, second) == [3.0, 3.5]
    other = second.items[0].model_copy(update={"confounders": ["seed", "model.path"]})
    assert seed_speedups(first, seed_groups([other])[0]) == []
    assert seed_speedups(first, seed_groups([compared_run(True)])[0]) == []
