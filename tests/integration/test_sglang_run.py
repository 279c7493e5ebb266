"""Whole runs with rollout.engine=sglang, in real processes: each worker has an SGLang of its own, over one device or several."""

from pathlib import Path
from typing import Any

import pytest
from sglang_cases import needs_sglang, run
from sizes import only_with_all

from engine.events import DrafterTrained, Log, Speculation, StepFinished

pytestmark = needs_sglang
RUN: dict[str, Any] = {
    "seed": 3,
    "algorithm": {"steps": 5, "prompts_per_step": 3, "group_size": 4},
    "rollout": {"engine": "sglang", "max_prompt_tokens": 32, "max_new_tokens": 160, "max_batch": 8, "sglang": {"release_memory": True}},
    "speculation": {
        "strategies": [{"depth": 5, "top_k": 2, "verify": 8}, {"depth": 3, "verify": 3}, {"drafter": "ngram", "depth": 3, "verify": 3}],
        "tuner": {"name": "beg", "epsilon": 0.5, "thresholds": [1, 5]},
    },
    "drafter": {"spot": {"first_set_up": 0.0}},
    "cluster": {"device": "cpu"},
}


def test_steps_with_spot_training_and_a_tuner(tmp_path: Path) -> None:
    """``tiny`` with its drafter. Worker 0 has two of three prompts, so that worker 1 waits and trains the drafter,
    once it has responses to more than the one prompt that is held out."""
    events = run(RUN, tmp_path)
    steps = [event for event in events if isinstance(event, StepFinished)]
    assert [event.step for event in steps] == [0, 1, 2, 3, 4]
    assert all(event.metrics["logprob_gap"] < 1e-3 for event in steps)
    assert all(event.metrics["accept_length"] > 1.2 for event in steps)
    arms = {arm.strategy for event in events if isinstance(event, Speculation) for arm in event.arms}
    assert arms == {"off", "eagle d5 k2 v8", "eagle d3 k1 v3"}
    assert sum(event.microsteps for event in events if isinstance(event, DrafterTrained)) > 0
    assert any(isinstance(event, Log) and event.message == "SGLang recorded no CUDA graphs" for event in events)
    assert events[-1].kind == "run_finished"


@only_with_all
@pytest.mark.parametrize("lora", [None, {"rank": 4}], ids=["all weights", "adapters"])
def test_the_learner_has_a_rank_on_each_device_of_a_worker(tmp_path: Path, lora: dict[str, Any] | None) -> None:
    """One worker over two: the shards of both reach its SGLang whole, or what it generates would not be the policy's."""
    changes: dict[str, Any] = {
        "algorithm": {"steps": 2, "prompts_per_step": 2, "group_size": 2, "learning_rate": 1e-4},
        "rollout": {"engine": "sglang", "max_prompt_tokens": 32, "max_new_tokens": 32, "max_batch": 4, "sglang": {"tensor_parallel": 2}},
        "speculation": {"strategies": [{"depth": 3, "verify": 3}], "tuner": {"name": "fixed"}},
        "cluster": {"device": "cpu", "workers": 1, "learner": {"parallel": "fsdp", "lora": lora}},
    }
    events = run(RUN | changes, tmp_path, ranks=2)
    steps = [event for event in events if isinstance(event, StepFinished)]
    assert [event.step for event in steps] == [0, 1]
    assert all(event.metrics["logprob_gap"] < 1e-3 for event in steps)
    assert all(event.metrics["accept_length"] > 1.2 for event in steps)
    assert events[-1].kind == "run_finished"
    policy = tmp_path / "checkpoints/step_000001/workers/policy"
    assert sorted(path.name for path in policy.glob("*.distcp")) == ["__0_0.distcp", "__1_0.distcp"]
