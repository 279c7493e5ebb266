"""What makes a run a record: its groups, its samples by prompt, its trace, and how to do it again."""

import json
import time
from argparse import Namespace
from datetime import datetime
from typing import Any

import pytest
import yaml
from example_runs import NOW, run

from backend.demo_data import telemetry
from dashboard.analysis.chrome_trace import chrome_trace
from dashboard.analysis.metric_search import PatternError, matching
from dashboard.analysis.reproduction import commands, config_yaml, memory_command, versions
from dashboard.analysis.run_groups import group_row, run_groups
from dashboard.analysis.sample_groups import SampleGroup, in_pages, sample_groups
from dashboard.views.runs.own_columns import cell, offered
from engine.config import RunConfig
from engine.planner.__main__ import _parser
from longtail.schemas.attempts import Attempt, Environment, GitState
from longtail.schemas.run_overviews import RunOverview
from longtail.schemas.runs import Run
from longtail.schemas.telemetry import Decoding, SampleItem, Series, WorkerSpan

KEYS = ["reward_mean", "kl", "system/a/cpu_percent", "eval/reward"]


def test_series_are_found_by_a_regular_expression_and_the_pinned_come_first() -> None:
    assert matching(KEYS, "REWARD|kl", ["eval/reward"]) == ["eval/reward", "kl", "reward_mean"]
    assert matching(KEYS, "", ["kl"]) == ["kl", "eval/reward", "reward_mean", "system/a/cpu_percent"]
    layers = ["layer 10", "layer 9", "layer ²", "loss", "layer 09/2", "7"]
    assert matching(layers, "", []) == ["7", "layer 9", "layer 09/2", "layer 10", "layer ²", "loss"]
    with pytest.raises(PatternError, match="missing ]"):
        matching(KEYS, "[a", [])


def test_no_pattern_keeps_the_pages_waiting() -> None:
    began = time.process_time()
    assert matching(["a" * 28], "(a+)+!", []) == []
    assert time.process_time() - began < 1, "backtracking doubles its time with each letter"


def sample(step: int, reward: float, **facts: Any) -> SampleItem:
    return SampleItem(step=step, prompt=facts.pop("prompt", "p"), response="r", reward=reward, **facts)


def test_samples_stand_with_their_siblings() -> None:
    rewards = [0.0, 1.0, 0.0]
    items = [
        sample(0, 0.0, prompt_number=1, group_rewards=rewards, tokens=900),
        sample(0, 1.0, prompt_number=1, group_rewards=rewards, tokens=3),
        sample(0, 1.0, prompt_number=2, tokens=5),
        sample(4, 0.5, tokens=7),
    ]
    newest, *others = sample_groups(items)
    assert (newest.step, newest.rewards) == (4, ())
    assert sorted(len(group.items) for group in others) == [1, 2]
    first = sample_groups(items, longest_first=True)[0]
    assert ([item.reward for item in first.items], first.rewards, first.longest) == ([1.0, 0.0], rewards, 900)


def test_responses_of_a_page_have_a_bounded_number_of_characters() -> None:
    def group(step: int, *sizes: int) -> SampleGroup:
        return SampleGroup(step, "p", tuple(SampleItem(step=step, prompt="p", response="r" * size, reward=0.0) for size in sizes))

    groups = [group(0, 0), group(1, 40, 40), group(2, 30), group(3, 500), group(4, 0, 100), group(5, 1)]
    pages = in_pages(groups, 100)
    assert [[each.step for each in page] for page in pages] == [[0, 1], [2], [3], [4], [5]]
    assert in_pages([], 100) == []


def test_runs_that_differ_in_their_seed_are_one_row() -> None:
    seeds = [
        run(name, telemetry.config(True) | {"seed": seed, "name": name}).model_copy(
            update={"seed": seed, "summary": {"reward_recent": reward}}
        )
        for name, seed, reward in (("a", 1, 0.4), ("b", 2, 0.6))
    ]
    script = run("c", {"name": "c"}).model_copy(update={"kind": "tracked", "config": {}})
    pair, other, last = run_groups([*seeds, run("d", telemetry.config(False)), script])
    glances = {each: RunOverview(run_id=each, reward=[], step_seconds=2.0, partner_id=None, speedup=1.5) for each in "abd"}
    row = group_row(pair, glances)
    assert (row["Configuration"], row["Seeds"], row["States"]) == ("a and 1 more run", "1, 2", "2 running")
    assert (row["Reward"], row["Speed-up"], row["Time a step"]) == ("0.500 ± 0.141", "1.50× ± 0.00×", "2.00\xa0s ± 0.00\xa0s")
    assert (len(other.runs), len(last.runs), group_row(last, {})["Reward"]) == (1, 1, "")
    plain = group_row(other, glances)
    assert (plain["Speed-up"], plain["Time a step"]) == ("", "2.00\xa0s"), "the speed-up that is told of a pair is its TLT run's"


def test_runs_that_repeat_a_seed_count_as_one_by_their_mean() -> None:
    """Else a seed would weigh the more the more often it was repeated, and its noise would pass for that of seeds."""

    def of_seed(name: str, seed: int, reward: float) -> Run:
        one = run(name, telemetry.config(True) | {"seed": seed, "name": name})
        return one.model_copy(update={"seed": seed, "summary": {"reward_recent": reward}})

    repeats = [of_seed(name, 1, reward) for name, reward in (("a", 0.3), ("b", 0.4), ("c", 0.5))]
    row = group_row(run_groups(repeats)[0], {})
    assert (row["Configuration"], row["Seeds"], row["Reward"]) == ("a and 2 more runs", "1 (3 runs)", "0.400")
    row = group_row(run_groups([*repeats, of_seed("d", 0, 0.6)])[0], {})
    assert (row["Seeds"], row["Reward"]) == ("0, 1 (3 runs)", "0.500 ± 0.141")


def test_columns_of_ones_own_are_settings_and_metrics() -> None:
    one = run("a", telemetry.config(True)).model_copy(update={"summary": {"kl": None, "loss": 0.5}})
    names = offered([one])
    assert {"config.algorithm.learning_rate", "summary.loss"} <= set(names)
    assert [cell(one, name) for name in ("config.algorithm.learning_rate", "config.speculation.enabled", "summary.kl", "summary.loss")] == [
        2e-5,
        "true",
        None,
        0.5,
    ]


def test_a_trace_has_a_row_for_each_worker_and_the_phases_of_each_step() -> None:
    spans = [WorkerSpan(step=3, worker=worker, state="BUSY", start=100.0 + worker, end=102.0) for worker in (0, 1)]
    decoding = [Decoding(step=3, worker=1, start=101.0, points=[(0.0, 1, "off")], marks=[(0.5, "stopped", 2)])]
    phases = {"phase/rollout": Series(steps=[3], values=[2.0]), "phase/update": Series(steps=[3], values=[1.0])}
    found = json.loads(chrome_trace(spans, decoding, phases))["traceEvents"]
    names = {entry["args"]["name"] for entry in found if entry["ph"] == "M"}
    assert names == {"training loop", "worker 0", "worker 1"}
    slices = {(entry["name"], entry["tid"]): (entry["ts"], entry["dur"]) for entry in found if entry["ph"] == "X"}
    assert slices["step 3", 0] == (0.0, 3e6)
    assert slices["update", 0] == (2e6, 1e6)
    assert slices["BUSY", 2] == (1e6, 1e6)
    (mark,) = [entry for entry in found if entry["ph"] == "i"]
    assert (mark["name"], mark["tid"], mark["ts"]) == ("stopped", 2, 1.5e6)


def attempt(dirty: bool) -> Attempt:
    environment = Environment(
        python="3.11.2",
        platform="Linux",
        host="node-1",
        cpu="EPYC",
        cores=2,
        memory_bytes=1,
        gpus=[],
        longtail=GitState(commit="a" * 40, dirty=dirty),
        packages={"torch": "2.13", "other": "1"},
        variables={},
    )
    ended: datetime | None = None
    known: dict[str, Any] = {"exit_code": None, "error": None, "gpus": [], "finished_at": ended}
    return Attempt(number=1, state="running", worker_id="w", started_at=NOW, environment=environment, **known)


def test_a_run_can_be_done_again() -> None:
    one = run("abc", telemetry.config(True))
    assert RunConfig.model_validate(yaml.safe_load(config_yaml(one))).model_dump(mode="json") == one.config
    assert commands(one, None) == "longtail submit abc.yaml"
    assert commands(one, attempt(False)).splitlines() == [f"git checkout {'a' * 40}", "longtail submit abc.yaml"]
    assert commands(one, attempt(True)).startswith("# the run was made with changes")
    assert versions(attempt(False)) == [
        ("Python", "3.11.2"),
        ("torch", "2.13"),
        ("System", "Linux"),
        ("Machine", "node-1: EPYC, 2 cores"),
    ]
    assert versions(None) == []


def test_the_memory_plan_knows_the_drafter_and_whether_the_cache_is_lent() -> None:
    def options(**changes: Any) -> Namespace:
        config = RunConfig.model_validate({"name": "x"} | changes).model_dump(mode="json")
        return _parser().parse_args(memory_command(config).split()[2:])

    recipe = {"recipe": "eagle3", "path": None}
    native, sglang = options(drafter=recipe, rollout={"engine": "native"}), options(rollout={"engine": "sglang"})
    assert (native.recipe, native.keep_cache) == ("eagle3", False)
    assert (sglang.recipe, sglang.keep_cache) == ("eagle", True)
    assert not options(rollout={"engine": "sglang", "sglang": {"release_memory": True}}).keep_cache


@pytest.mark.parametrize("changes", [{}, {"algorithm": {"steps": 3, "kl_coefficient": 0}, "cluster": {"learner": {"lora": {"rank": 8}}}}])
def test_the_memory_plan_is_a_command_that_the_planner_takes(changes: dict[str, Any]) -> None:
    words = memory_command(RunConfig.model_validate({"name": "x"} | changes).model_dump(mode="json")).split()
    assert words[:2] == ["longtail", "plan-memory"]
    options = _parser().parse_args(words[2:])
    assert (options.model, options.gpus, options.context, options.no_reference) == ("tiny", 2, 1280, bool(changes))
    assert options.lora == (8 if changes else None)
