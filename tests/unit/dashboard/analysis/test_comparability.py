from example_runs import compared_run, compared_seed

from dashboard.analysis.comparability import machines, other_work, without_yardstick
from dashboard.analysis.seed_groups import seed_groups, seed_speedups
from dashboard.views.compare import seed_table
from longtail.schemas.comparison import ComparedRun, ConfigDifference, Measures

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


def script(item: ComparedRun) -> ComparedRun:
    return item.model_copy(update={"run": item.run.model_copy(update={"kind": "tracked"})})


def test_what_a_script_did_is_no_yardstick() -> None:
    assert other_work(BASELINE, script(OTHER), []) == "not known, as a script tracks it"
    assert other_work(script(BASELINE), OTHER, []) == "not known, as a script tracks the baseline"
    pair = [compared_seed("a", 1, False, seconds_per_step=4.0), compared_seed("b", 1, seconds_per_step=2.0)]
    assert seed_speedups(*seed_groups(pair)) == [2.0]
    assert seed_speedups(*seed_groups([script(item) for item in pair])) == []


def test_scripts_that_say_nothing_of_themselves_are_no_seeds_of_one_configuration() -> None:
    """And where they say their seed, that is it."""
    silent = [script(compared_seed(name, 0)) for name in "ab"]
    for item in silent:
        item.run.config.clear()
    assert len(seed_groups(silent)) == 2
    for number, item in enumerate(silent):
        item.run.config.update(lr=0.1, seed=number)
    assert [group.seeds for group in seed_groups(silent)] == [2]


def test_the_table_over_seeds_is_over_the_steps_that_all_have() -> None:
    """Steps become slower: over those that each has with the baseline, the longer run looks slower than it is."""

    def item(name: str, seed: int, speculation: bool, own: float, shared: float) -> ComparedRun:
        over_shared = Measures(steps=50, seconds_per_step=shared)
        apart = {"confounders": ["seed"] if seed > 1 else [], "shared": over_shared}
        return compared_seed(name, seed, speculation, seconds_per_step=own).model_copy(update=apart)

    items = [item("p1", 1, False, 8.0, 4.0), item("p2", 2, False, 8.0, 4.0), item("t1", 1, True, 2.0, 2.0), item("t2", 2, True, 4.0, 2.0)]
    assert seed_speedups(*seed_groups(items)) == [2.0, 2.0]
    plain, tlt = seed_table.rows(items, {each.run.id: each.run.id for each in items})
    assert (plain["Time a step"], tlt["Speed-up, seed by seed"]) == ("4.00\xa0s ± 0.00\xa0s", "2.00× (2.00× to 2.00×, 2 seeds)")
    assert seed_table.remark(items).startswith("Over the 50 steps that all these runs have. ")
    none = [each.model_copy(update={"shared": Measures(steps=0)}) for each in items]
    assert seed_table.remark(none).startswith("There is no step that all of these runs have. ")
    untimed = [each.model_copy(update={"shared": Measures(steps=5)}) for each in items]
    assert seed_table.remark(untimed).startswith("There is no step that all of these runs have. "), "of which anything is known"


def test_runs_without_a_yardstick_among_the_compared() -> None:
    """The second seed is measured by its plain run, the other learning rate by nothing here."""

    def apart(name: str, speculation: bool, *fields: str) -> ComparedRun:
        return compared_seed(name, 1, speculation).model_copy(update={"confounders": [*fields]})

    rate = "algorithm.learning_rate"
    items = [
        BASELINE,
        OTHER,
        apart("p2", False, "seed"),
        apart("t2", True, "seed"),
        apart("t3", True, rate),
        apart("p3", False, "seed", rate),
    ]
    seeds, rates = {"p2": 2, "t2": 2, "p3": 2}, {"t3": 0.1, "p3": 0.1}
    different = [
        ConfigDifference(field="seed", values={each.run.id: seeds.get(each.run.id, 1) for each in items}),
        ConfigDifference(field=rate, values={each.run.id: rates.get(each.run.id, 0.2) for each in items}),
    ]
    assert [item.run.id for item in without_yardstick(items, different)] == ["t3"]
    assert [item.run.id for item in without_yardstick([OTHER, *items[3:5]], different)] == ["b", "t2", "t3"]
    assert without_yardstick([OTHER, apart("c", True), BASELINE], different) == []
    assert [item.run.id for item in without_yardstick([script(BASELINE), OTHER, items[4]], different)] == ["b", "t3"]
