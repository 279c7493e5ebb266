"""One worker that generates while it learns, on a small random model."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import torch

from engine.cluster.asynchronous_worker import AsynchronousWorker
from engine.cluster.shares import LearnShare, RolloutShare
from engine.config import RunConfig, parse
from engine.policy.training.training_row import TrainingRow
from engine.rollout.interface import Completion, PartialResponse, Request, Sampling

LONG = 160
SAMPLING = Sampling(max_new_tokens=LONG)


def config(model: Path, **speculation: Any) -> RunConfig:
    return parse(
        {
            "model": {"path": str(model), "dtype": "float32"},
            "algorithm": {"learning_rate": 0.05, "warmup_steps": 0, "kl_coefficient": 0.0},
            "rollout": {"max_batch": 2, "max_prompt_tokens": 8, "max_new_tokens": LONG, "scheduling": {"asynchronous": True}},
            "speculation": {"strategies": [{"depth": 2, "verify": 2}], "tuner": {"name": "fixed"}, **speculation},
            "drafter": {"path": None},
            "cluster": {"workers": 1, "device": "cpu"},
        }
    )


def request(index: int, begun: PartialResponse | None = None) -> Request:
    return Request(index, index, (3 + index, 5, 7), begun or PartialResponse())


def rows(completions: Sequence[Completion]) -> list[TrainingRow]:
    found = [(len(each.request.prompt), (*each.request.prompt, *each.tokens), each.logprobs) for each in completions]
    return [TrainingRow(tokens, prompt, float(1 - 2 * (index % 2)), logprobs) for index, (prompt, tokens, logprobs) in enumerate(found)]


def learn(worker: AsynchronousWorker, completions: Sequence[Completion], step: int) -> LearnShare:
    taught = rows(completions)
    return worker.learn(taught, worker.infer(taught), step)


def own_logprobs(worker: AsynchronousWorker, completion: Completion) -> torch.Tensor:
    """Of the policy that the worker has now."""
    (batch,) = worker.learner._microbatches(rows([completion]))
    with torch.no_grad():
        return worker.policy.forward(batch)[0]


def begun(completion: Completion) -> PartialResponse:
    return PartialResponse(completion.tokens, completion.logprobs, completion.spans)


def interrupted(worker: AsynchronousWorker) -> tuple[RolloutShare, list[Completion]]:
    """A step of one response, which had nearly reached its limit before, and those of the next, which its update interrupts."""
    worker.engine._end_tokens = frozenset()  # only the limit ends a response
    first = request(0, PartialResponse((5,) * (LONG - 2), (-3.0,) * (LONG - 2), ((-1, LONG - 2),)))
    share = worker.rollout(0, [first], SAMPLING, ahead=[request(index) for index in range(1, 10)])
    assert (len(share.completions), share.goes_on) == (1, True)
    found = learn(worker, share.completions, 0).interrupted
    assert found is not None
    assert (len(found.completions), found.discarded_tokens) == (9, 0)
    return share, found.completions


def test_a_response_has_the_log_probs_of_each_policy_that_wrote_it(random_model: Path) -> None:
    """New weights come in the middle of it, and what follows is the new policy's, on a cache of the new policy."""
    worker, before = (AsynchronousWorker(0, config(random_model, enabled=False), "") for _ in range(2))
    _, waiting = interrupted(worker)
    cut = next(each for each in waiting if each.tokens and each.finish == "abort")
    share = worker.rollout(1, [request(cut.request.id, begun(cut))], SAMPLING)
    (whole,) = share.completions
    (_, old), (_, new) = whole.spans
    assert (whole.spans, old + new, whole.tokens[:old]) == (((0, old), (1, new)), LONG, cut.tokens)
    found, first, second = torch.tensor(whole.logprobs), own_logprobs(before, whole), own_logprobs(worker, whole)
    torch.testing.assert_close(found[:old], first[:old], atol=1e-3, rtol=0)
    torch.testing.assert_close(found[old:], second[old:], atol=1e-3, rtol=0)
    assert (first - second)[old:].abs().mean() > 0.1, "the update moved the policy"
    assert not share.goes_on


def test_every_token_is_in_the_statistics_of_one_step(random_model: Path) -> None:
    worker = AsynchronousWorker(0, config(random_model), "")
    first, waiting = interrupted(worker)
    second = worker.rollout(1, [request(each.request.id, begun(each)) for each in waiting if each.finish == "abort"], SAMPLING)
    late = [each for each in waiting if each.finish != "abort"]
    assert first.statistics.tokens > sum(each.fresh for each in first.completions), "those of the other slot, too"
    assert first.statistics.tokens + second.statistics.tokens == 2 + len(waiting) * LONG
    assert len(late) + len(second.completions) == len(waiting)
    ended, went_on = first.statistics.moments[0][-1], second.statistics.moments[0][0]
    assert (ended.time, ended.running) == (went_on.time, 0), "and every second in the timeline of one step"
    assert went_on.running > 0
    assert worker.spot
    assert [entry.written for entry in worker.spot._buffer._entries] == [LONG] * (1 + len(waiting)), "of late ones, too"


def test_a_checkpoint_between_two_steps_is_that_of_any_worker(random_model: Path, tmp_path: Path) -> None:
    worker = AsynchronousWorker(0, config(random_model, enabled=False), "")
    interrupted(worker)
    tmp_path.joinpath("saved").mkdir()
    worker.stage()
    worker.write(tmp_path / "saved")
    assert json.loads((tmp_path / "saved/engine_0.json").read_text())["target"] == 1
    other = AsynchronousWorker(0, config(random_model, enabled=False), "")
    other.load(tmp_path / "saved")
    assert other.engine.loaded_weights() == worker.engine.loaded_weights()


def test_a_generation_that_fails_ends_the_step(random_model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    worker = AsynchronousWorker(0, config(random_model, enabled=False), "")

    def broken(*_: object) -> None:
        raise MemoryError("no room for the cache")

    monkeypatch.setattr(worker.engine, "_reserve", broken)
    with pytest.raises(MemoryError, match="no room"):
        worker.rollout(0, [request(0)], SAMPLING)
