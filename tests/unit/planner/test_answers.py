"""What a plan answers: arms, machines, inputs that matter, and a run that was recorded."""

import math
from pathlib import Path
from typing import Any

import pytest

from engine.config import RunConfig, merged, parse
from engine.errors import ConfigError, DataError
from engine.events import AnyEvent, RolloutFinished, StepFinished
from engine.planner.answers import sensitivity
from engine.planner.answers.arms import arm, arms
from engine.planner.answers.basis import MOST_RESPONSES, Basis, basis
from engine.planner.answers.cache_room import requests_at_once
from engine.planner.answers.machine_choice import cheapest
from engine.planner.answers.recorded_run import MOST_STEPS, of_events
from engine.planner.answers.sensitivity import break_evens, wider
from engine.planner.hardware import Machines, machines
from engine.planner.plan_command import main
from engine.planner.simulation.response_lengths import Recorded

RUN: dict[str, Any] = {
    "model": {"path": "0.5B"},
    "algorithm": {"steps": 100, "prompts_per_step": 4, "group_size": 4},
    "rollout": {"max_new_tokens": 512, "max_batch": 16},
}
PRETRAINED = {"drafter": {"pretrain_minutes": 5}}


def based(changes: dict[str, Any], gpus: str = "h100:2") -> Basis:
    return basis(parse(merged(RUN, changes)), machines(gpus))


def test_a_run_that_pretrains_its_drafter_is_measured_by_a_plain_one_too() -> None:
    found = arms(based(PRETRAINED))
    assert [each.name for each in found][:2] == ["plain", "TLT"]
    assert found[0].accept_length == 1


TIGHT: dict[str, Any] = {
    "model": {"path": "7B"},
    "rollout": {"max_new_tokens": 8192, "max_batch": 256},
    "cluster": {"learner": {"parallel": "fsdp", "activation_checkpointing": True}},
}


def test_the_native_engine_lends_its_memory_to_training_and_sglang_if_asked() -> None:
    def room(engine: str, release: bool) -> int:
        memory = based(merged(TIGHT, {"rollout": {"engine": engine, "sglang": {"release_memory": release}}}), "h100:4").memory
        assert memory is not None
        return memory.cache

    kept, asked = room("sglang", False), room("sglang", True)
    assert room("native", False) == asked > kept


def test_an_update_has_room_for_the_longest_response() -> None:
    """Micro-batches of 2,048 tokens would fit."""
    kept = {"rollout": {"engine": "native"}, "cluster": {"learner": {"activation_checkpointing": False}}}
    assert based(merged(TIGHT, kept | {"rollout": {"engine": "native", "max_new_tokens": 2048}}), "h100:8").memory
    with pytest.raises(ConfigError, match=r"gpus: h100:8 has 80 GB a GPU, and update takes .*activation_checkpointing.*max_new_tokens$"):
        based(merged(TIGHT, kept | {"rollout": {"engine": "native", "max_new_tokens": 32_768}}), "h100:8")


@pytest.mark.parametrize(
    ("changes", "phase", "remedy"),
    [
        ({"algorithm": {"tokens_per_microbatch": 10**6}}, "update", "algorithm.tokens_per_microbatch=8448"),
        ({"drafter": {"spot": {"tokens_per_microbatch": 2**15}}}, "drafter training", "drafter.spot.tokens_per_microbatch=1024"),
    ],
)
def test_too_large_a_micro_batch_is_named_where_a_smaller_one_fits(changes: dict[str, Any], phase: str, remedy: str) -> None:
    with pytest.raises(ConfigError, match=f"and {phase} takes .*; take {remedy}, more GPUs"):
        based(merged(TIGHT, changes), "h100:8")
    with pytest.raises(ConfigError, match=r"; take cluster\.learner\.parallel=fsdp, more GPUs"):  # all of a model of 7 B is on each GPU
        based(merged(TIGHT, changes | {"cluster": {"learner": {"parallel": "ddp"}}}), "h100:8")


def test_a_recipe_takes_the_memory_of_its_own_drafter() -> None:
    plans = [based(merged(TIGHT, {"drafter": {"recipe": recipe, "path": None}}), "h100:4").memory for recipe in ("eagle", "eagle3")]
    small, large = (plan.phases["drafter training"] for plan in plans if plan)
    assert large > small


def test_as_many_requests_run_as_the_cache_holds_at_their_lengths() -> None:
    """All of one length end together, so that the cache holds them whole; of a heavy tail few are so long."""
    long = Recorded(((1024,) * 64,), "all alike")
    limited = parse(merged(RUN, {"rollout": {"max_new_tokens": 1024, "max_prompt_tokens": 64, "max_batch": 64, "cache_tokens": 16 * 1088}}))
    assert requests_at_once(limited, 10**6, long, prompt=64) == 16
    assert requests_at_once(limited, 8 * 1088, long, prompt=64) == 8
    mixed = Recorded(((1024,) + (1,) * 63,), "one is long")
    assert requests_at_once(limited, 8 * 1088, mixed, prompt=64) == 64
    found = basis(limited, machines("h100:1"), long)
    assert found.config.rollout.max_batch == 16
    assert found.notes == ("the cache of a worker has room for about 16 requests at once, not 64: the others wait",)


def test_machines_for_a_deadline_cost_what_was_given() -> None:
    config = parse(merged(RUN, PRETRAINED))
    given = machines("h100:2", price=7.0)

    def on(kind: Machines) -> Basis:
        return basis(config, kind)

    offers = cheapest(on, config, [given], deadline=1000)
    assert [offer.dollars for offer in offers] == [pytest.approx(offer.hours * offer.gpus * 7) for offer in offers]
    assert len(offers) == 1
    assert not cheapest(on, config, [given], deadline=1e-6)


def test_a_rare_evaluation_takes_no_longer_than_a_frequent_one() -> None:
    rare, often = (arm(based({"evaluation": {"every": every, "prompts": 2, "samples": 1}})) for every in (50, 5))
    assert 50 * rare.phases["evaluation"] == pytest.approx(5 * often.phases["evaluation"], rel=0.3)
    assert 50 * rare.phases["evaluation"] < rare.phases["rollout"]


def test_no_more_prompts_are_tried_than_a_configuration_may_have_or_are_simulated() -> None:
    large = based({"algorithm": {"prompts_per_step": 4096}})
    assert wider(large, 32).config.algorithm.prompts_per_step == 65_536
    groups = based({"algorithm": {"prompts_per_step": 512, "group_size": 512}})
    assert wider(groups, 32).config.algorithm.prompts_per_step == MOST_RESPONSES // 512


def test_a_break_even_is_what_the_run_has_there(monkeypatch: pytest.MonkeyPatch) -> None:
    """Responses are cut at the limit of 512: 32 times the factor is not 32 times the length."""

    def speedup(varied: Basis) -> float:
        return 2.0 if sensitivity.mean_length(varied) > 300 else 1.0

    monkeypatch.setattr(sensitivity, "speedup", speedup)
    found = {even.input: even for even in break_evens(based({}))}["mean response length in tokens"]
    assert found.pays == "above"
    assert found.value == pytest.approx(300, rel=0.1)


def recorded(steps: int, phases: dict[str, float]) -> list[AnyEvent]:
    return [
        event
        for step in range(steps)
        for event in (
            RolloutFinished(step=step, lengths=[5, 9], truncated=0),
            StepFinished(step=step, seconds=2.0, phases=phases, metrics={}),
        )
    ]


def test_what_is_varied_is_compared_over_the_same_steps() -> None:
    """By the first four of these steps, decoding at half its speed would look faster than the run as it is."""
    growing = tuple((length,) * 16 for length in (8, 8, 8, 8, 500, 500))
    found = basis(parse(RUN), machines("h100:2"), Recorded(growing, "a run"))
    speed = next(each for each in sensitivity.influences(found) if each.input == "speed of decoding")
    assert speed.twice < arm(found).step_seconds < speed.half


def test_of_a_long_run_the_last_steps_count() -> None:
    found = of_events(recorded(MOST_STEPS + 36, {"rollout": 1.0}), "long")
    assert [step.index for step in found.steps] == list(range(36, MOST_STEPS + 36))


@pytest.mark.parametrize("phases", [{}, {"rollout": 0.0}])
def test_a_step_that_does_not_tell_of_its_rollout_teaches_nothing(phases: dict[str, float]) -> None:
    with pytest.raises(DataError, match="no finished step"):
        of_events(recorded(3, phases), "a script")


def test_the_spread_alone_counts(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "run.yaml"
    file.write_text(RunConfig.model_validate(RUN).model_dump_json(), encoding="utf-8")
    assert main([str(file), "--gpus", "h100:1", "--quick", "--spread", "0.3"]) == 0
    assert "median 21 tokens, spread 0.3" in capsys.readouterr().out


def test_a_prompt_has_the_tokens_that_were_recorded_or_half_of_the_most() -> None:
    config, silent = parse({"model": {"path": "0.5B"}, "rollout": {"max_prompt_tokens": 64}}), recorded(3, {"rollout": 1.0})

    def planned(prompt: float) -> float:
        told = [event.model_copy(update={"metrics": {"prompt_tokens": prompt}}) if event.kind == "step" else event for event in silent]
        return basis(config, machines("h100:8"), recorded=of_events(told, "a run")).assumptions.prompt

    assert basis(config, machines("h100:8"), recorded=of_events(silent, "a run")).assumptions.prompt == 32.0
    assert [planned(tokens) for tokens in (21.0, math.nan, math.inf, -3.0)] == [21.0, 32.0, 32.0, 32.0]


def test_large_micro_batches_of_the_drafter_take_memory() -> None:
    large = {"model": {"path": "7B"}, "cluster": {"learner": {"parallel": "fsdp"}}}
    usual, more = (
        basis(parse(large | {"drafter": {"spot": {"tokens_per_microbatch": tokens}}}), machines("h100:8")).memory for tokens in (1024, 4096)
    )
    assert usual
    assert more
    assert more.phases["drafter training"] > usual.phases["drafter training"] + 10**9
