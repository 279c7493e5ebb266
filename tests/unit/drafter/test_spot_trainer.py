import io
from collections.abc import Callable, Iterator, Sequence
from itertools import islice, pairwise

import pytest
import torch
from torch import Tensor, nn
from torch.nn.functional import embedding, smooth_l1_loss
from transformers import Qwen2ForCausalLM

from engine.config import SpotConfig
from engine.drafter.data_buffer import DataBuffer, Entry
from engine.drafter.eagle3 import first_drafter
from engine.drafter.held_out_evaluation import LOOK_AHEAD, UNJUDGED, HeldOutEvaluation, Judged, gain_noise
from engine.drafter.local_sgd import merge
from engine.drafter.model import Drafter
from engine.drafter.offline_training import PromptAndResponse, hidden_states
from engine.drafter.packing import MicroBatch, Segment, pack
from engine.drafter.recipe import RECIPES, HeldOutTruth, Recipe, acceptance
from engine.drafter.spot_trainer import JUDGED_EVERY, JUDGED_FIRST, SpotTrainer
from engine.models.onednn_linear import OneDNNLinear


def after(microsteps: int) -> Callable[[], bool]:
    """A ``should_stop`` that is true at its n-th call."""
    calls = iter(range(1, microsteps + 1))
    return lambda: next(calls) == microsteps


@pytest.mark.parametrize("unroll", [1, 3])
def test_loss_is_the_mean_over_pairs_built_one_by_one(trainer: SpotTrainer, target: Qwen2ForCausalLM, unroll: int) -> None:
    """h[t] and x[t+1] go in, alone with what came before; h[t+1] is asked for, whose logits are the target's law of x[t+2].
    In pass k the last k - 1 features are predictions, one of each pass before."""
    entry = max(trainer.buffer.mix(), key=lambda entry: entry.response)
    vocabulary, head = target.model.embed_tokens.weight, target.lm_head.weight
    logits = target(entry.tokens[None]).logits[0]
    losses: list[Tensor] = []
    passes: list[dict[int, Tensor]] = []
    for step in range(unroll):
        predictions = {}
        for t in range(step, len(entry.tokens) - 2):
            embedded = embedding(entry.tokens[1 : t + 2], vocabulary)
            own = [earlier[t - step + place] for place, earlier in enumerate(passes)]
            seen = torch.stack([*entry.features[: t - step + 1].float(), *own])
            predictions[t] = trainer.drafter(embedded[None], seen[None], torch.arange(t + 1)[None])[0, -1]
            if t >= entry.prompt - 1:
                law = logits[t + 1].softmax(-1)  # the target's own law of x[t+2]
                cross_entropy = -(law * (head @ predictions[t]).log_softmax(-1)).sum()
                losses.append(smooth_l1_loss(predictions[t], entry.features[t + 1].float()) + 0.1 * cross_entropy)
        passes.append(predictions)
    trainer.config = trainer.config.model_copy(update={"unroll": unroll})
    loss = trainer.micro_step(pack([Segment(entry, 0, entry.positions)]))
    assert loss == pytest.approx(torch.stack(losses).mean().item(), rel=2e-3)  # the buffer rounds features to bfloat16


def test_the_drafters_layers_multiply_by_the_library_that_is_fast(trainer: SpotTrainer) -> None:
    layers = [module for module in trainer.drafter.modules() if isinstance(module, nn.Linear)]
    assert len(layers) == 8
    assert all(isinstance(layer, OneDNNLinear) for layer in layers)


def test_target_is_frozen(trainer: SpotTrainer, target: Qwen2ForCausalLM) -> None:
    before = {name: weight.clone() for name, weight in target.state_dict().items()}
    trainer.train(after(3))
    assert all(weight.grad is None for weight in target.parameters())
    assert all(torch.equal(weight, before[name]) for name, weight in target.state_dict().items())
    assert not any(weight.shape[0] == 48 for weight in trainer.weights().values())


def test_the_noise_of_a_gain_is_its_standard_error_over_parts_of_responses() -> None:
    """Against the spread of means over parts that are drawn anew."""
    luck = torch.Generator().manual_seed(1)
    before = torch.rand(64, generator=luck) * 40
    after = before + 2 + torch.randn(64, generator=luck) * 5
    judged = [Judged(0.0, parts=tuple((kept, 100.0) for kept in each.tolist())) for each in (before, after)]
    again = torch.randint(64, (2000, 64), generator=luck)
    assert gain_noise(*judged) == pytest.approx((after - before)[again].mean(1).std().item() / 100, rel=0.1)
    assert gain_noise(judged[0], judged[0]) == 0.0
    assert gain_noise(judged[0], Judged(0.5, parts=((1.0, 2.0),))) == 0.0, "of other responses: nobody can tell"


def test_parts_add_up_to_what_is_accepted(trainer: SpotTrainer) -> None:
    judged = trainer.evaluate().judged
    assert len(judged.parts) > 2
    accepted, drafts = (sum(column) for column in zip(*judged.parts, strict=True))
    assert accepted / drafts == pytest.approx(judged.accepted, rel=1e-5)


def test_training_raises_held_out_agreement(trainer: SpotTrainer) -> None:
    report = trainer.train(after(60))
    assert report.microsteps == 60
    assert report.gain > 0.15 > 5 * report.noise > 0
    assert report.after == trainer.evaluate().judged
    assert report.before.top1 < report.after.top1 <= report.after.top3
    assert report.mix_distance == trainer.buffer.mix_distance() < 0.1


@pytest.mark.parametrize("name", ["hass", "eagle3"])
def test_every_recipe_raises_held_out_agreement(target: Qwen2ForCausalLM, responses: list[PromptAndResponse], name: str) -> None:
    torch.manual_seed(1)
    recipe, buffer = RECIPES[name], DataBuffer(2**24)
    for prompt, response in responses:
        buffer.add(0, [*prompt, *response], len(prompt), hidden_states(target, [[*prompt, *response]], recipe.kind)[0][:-1])
    config = SpotConfig(learning_rate=3e-3, tokens_per_microbatch=256, passes=100)
    trainer = SpotTrainer(first_drafter(recipe.kind, target), buffer, config, recipe)
    trainer.set_target(target.model.embed_tokens.weight, target.lm_head.weight)
    report = trainer.train(after(60))
    assert report.gain > 0.1


def test_a_recipe_for_another_kind_of_drafter_is_refused(target: Qwen2ForCausalLM) -> None:
    with pytest.raises(ValueError, match="eagle3 drafters cannot train one of kind eagle"):
        SpotTrainer(Drafter(target.config), DataBuffer(2**20), SpotConfig(), RECIPES["eagle3"])


def test_stops_after_the_micro_step_in_which_it_is_told_to(trainer: SpotTrainer) -> None:
    report = trainer.train(after(3))
    assert report.microsteps == 3
    assert 0 < report.tokens <= 3 * 256


def test_who_stops_it_early_waits_for_no_examination(trainer: SpotTrainer, monkeypatch: pytest.MonkeyPatch) -> None:
    first = trainer.weights()
    monkeypatch.delattr(SpotTrainer, "evaluate")
    report = trainer.train(after(JUDGED_FIRST[0]))
    assert report.microsteps == JUDGED_FIRST[0]
    assert report.before is report.after is UNJUDGED
    assert all(torch.equal(weight, first[name]) for name, weight in trainer.weights().items())


@pytest.mark.parametrize("asked", [1, 3, 5])
def test_an_examination_ends_when_it_is_told_to(trainer: SpotTrainer, asked: int) -> None:
    """In the first or the second of them, after so many of its passes."""
    first, calls = trainer.weights(), iter([False] * (asked - 1))
    report = trainer.train(lambda: False, interrupted=lambda: next(calls, True))
    assert report.microsteps == JUDGED_FIRST[0]
    assert report.before is report.after is UNJUDGED
    assert all(torch.equal(weight, first[name]) for name, weight in trainer.weights().items())


def test_an_interrupted_session_leaves_the_best_that_it_judged(trainer: SpotTrainer) -> None:
    calls = iter([False] * 3 * LOOK_AHEAD)  # what it began with, and two examinations; the third is interrupted
    report = trainer.train(lambda: False, interrupted=lambda: next(calls, True))
    assert report.microsteps == JUDGED_EVERY
    assert UNJUDGED not in (report.before, report.after)
    assert report.after == trainer.evaluate().judged


def test_held_out_entries_are_never_trained_on(trainer: SpotTrainer, monkeypatch: pytest.MonkeyPatch) -> None:
    rows: list[Sequence[Segment]] = []
    monkeypatch.setattr("engine.drafter.spot_trainer.pack", lambda row: rows.append(row) or pack(row))  # type: ignore[func-returns-value]
    list(trainer.one_pass())
    trained = [segment.entry.id for row in rows for segment in row]
    held_out = {entry.id for entry in trainer.buffer.held_out(10**6)}
    assert held_out
    assert sorted([*trained, *held_out]) == list(range(len(trainer.buffer)))


def test_nothing_to_train_on(target: Qwen2ForCausalLM) -> None:
    trainer = SpotTrainer(Drafter(target.config), DataBuffer(2**20), SpotConfig())
    trainer.set_target(target.model.embed_tokens.weight, target.lm_head.weight)
    report = trainer.train(after(1))
    assert (report.microsteps, report.tokens, report.after) == (0, 0, Judged(0.0))
    assert trainer.evaluate().positions == 0


@pytest.mark.parametrize("gains", [0, 2])
def test_a_response_is_used_a_few_times_and_more_often_only_if_that_helps(
    trainer: SpotTrainer, monkeypatch: pytest.MonkeyPatch, gains: int
) -> None:
    """Two passes, then two more for each time that held-out responses gained."""
    trainer.config = trainer.config.model_copy(update={"passes": 2})
    seen = iter([*(0.2 + 0.1 * gain for gain in range(gains)), 0.1])
    monkeypatch.setattr(SpotTrainer, "evaluate", lambda _, **__: HeldOutEvaluation(0.0, 0.0, 0.0, next(seen), 1))
    monkeypatch.setattr(SpotTrainer, "_judged", lambda _, __, ___: Judged(0.1))
    tokens = sum(entry.positions for entry in trainer.buffer.mix())
    assert trainer.has_data
    report = trainer.train(lambda: False)
    rounds = 1 + gains
    assert (2 * rounds - 1) * tokens < report.tokens <= 2 * rounds * tokens
    assert not trainer.has_data


def test_a_response_to_a_long_prompt_is_used_no_more_often(target: Qwen2ForCausalLM) -> None:
    """Of 1,020 tokens only those of the last two windows are trained on."""
    buffer, config = DataBuffer(2**20), SpotConfig(tokens_per_microbatch=64, passes=3)
    for first in range(3):
        buffer.add(0, [first, *range(1, 20)] * 51, 1000, torch.zeros(1019, 32))
    trainer = SpotTrainer(Drafter(target.config), buffer, config)
    passes = 0
    while trainer.has_data:
        assert len(list(trainer.one_pass())) > 0
        passes += 1
    assert passes == 3


def test_evaluation_of_a_perfect_drafter(trainer: SpotTrainer, monkeypatch: pytest.MonkeyPatch) -> None:
    def perfect(_: SpotTrainer, batch: MicroBatch, unroll: int) -> Iterator[tuple[Tensor, Tensor]]:
        for step in range(unroll):
            reached = batch.trained & (batch.offset >= step)
            yield batch.targets[batch.trained].float(), reached

    monkeypatch.setattr(SpotTrainer, "_predict", perfect)
    evaluation = trainer.evaluate()
    assert evaluation.agreement == evaluation.top3 == 1.0
    assert evaluation.acceptance == pytest.approx(1.0, abs=1e-5)
    assert evaluation.accepted == pytest.approx(1.0, abs=1e-5)


@torch.no_grad()
def test_a_drafter_is_judged_by_the_chains_that_it_would_serve(trainer: SpotTrainer, target: Qwen2ForCausalLM) -> None:
    """Each draft fed back by hand: a chain's k-th draft counts with the product of the first k acceptances."""
    entry = next(entry for entry in trainer.buffer.held_out(10**6) if entry.response >= 6)
    head, embedding = target.lm_head.weight, target.model.embed_tokens.weight
    features = entry.features.float()
    accepted, drafts = 0.0, 0
    for first in range(entry.prompt - 1, entry.positions):
        chain, kept = features[: first + 1], 1.0
        for position in range(first, min(first + LOOK_AHEAD, entry.positions)):
            tokens, places = entry.tokens[1 : position + 2], torch.arange(position + 1)
            predicted = trainer.drafter(embedding[tokens][None], chain[None], places[None])[0]
            kept *= acceptance(predicted[-1:], HeldOutTruth.of(features[position + 1 : position + 2], head), head).item()
            accepted, drafts = accepted + kept, drafts + 1
            chain = torch.cat([chain, predicted[-1:]])
    assert trainer.evaluate([entry]).accepted == pytest.approx(accepted / drafts, rel=1e-3)


def test_without_a_drafter_training_starts_from_the_targets_last_layer(target: Qwen2ForCausalLM) -> None:
    drafter, last = first_drafter("eagle", target), target.model.layers[-1].get_parameter("mlp.up_proj.weight")
    first = drafter.get_parameter("layers.0.mlp.up_proj.weight")
    assert torch.equal(first, last)
    first.data.zero_()
    assert last.any(), "it is a copy"


def test_sessions_that_do_not_help_slow_training_down_to_its_usual_pace(trainer: SpotTrainer) -> None:
    usual = trainer.config.learning_rate
    trainer.learning_rate = 1.5 * usual
    trainer.slow_down()
    assert trainer.learning_rate == pytest.approx(1.05 * usual)
    trainer.slow_down()
    assert trainer.learning_rate == usual


def test_follows_a_new_target(trainer: SpotTrainer, target: Qwen2ForCausalLM) -> None:
    before = trainer.evaluate()
    trainer.set_target(target.model.embed_tokens.weight, torch.randn_like(target.lm_head.weight))
    assert trainer.evaluate().acceptance != before.acceptance


def test_resumed_trainer_goes_on_as_if_it_had_not_stopped(trainer: SpotTrainer, target: Qwen2ForCausalLM, buffer: DataBuffer) -> None:
    for batch in islice(trainer.one_pass(), 5):
        trainer.micro_step(batch)
    file = io.BytesIO()
    torch.save(trainer.state_dict(), file)
    file.seek(0)
    resumed = SpotTrainer(Drafter(target.config), buffer, trainer.config)
    resumed.load_state_dict(torch.load(file, weights_only=True))
    resumed.set_target(target.model.embed_tokens.weight, target.lm_head.weight)
    assert trainer.train(after(4)) == resumed.train(after(4))
    for name, weight in trainer.weights().items():
        assert torch.equal(weight, resumed.weights()[name])


def test_merge_weighs_by_micro_steps() -> None:
    ones, twos = {"a": torch.ones(2), "b": torch.ones(3)}, {"a": torch.full((2,), 2.0), "b": torch.full((3,), 4.0)}
    merged = merge([(ones, 3), (twos, 1)])
    assert merged["a"].tolist() == [1.25, 1.25]
    assert merged["b"].tolist() == [1.75, 1.75, 1.75]
    assert merge([(ones, 0), (twos, 5)])["b"].tolist() == [4.0] * 3


def test_merge_needs_a_worker_that_trained() -> None:
    with pytest.raises(ValueError, match="no worker"):
        merge([({"a": torch.ones(1)}, 0)])


def test_merging_two_workers_is_better_than_their_start(trainer: SpotTrainer, target: Qwen2ForCausalLM, buffer: DataBuffer) -> None:
    start = trainer.weights()
    other = SpotTrainer(Drafter(target.config), buffer, trainer.config, seed=7)
    other.set_target(target.model.embed_tokens.weight, target.lm_head.weight)
    other.drafter.load_state_dict(start)
    before = trainer.evaluate()
    steps = [worker.train(after(40)).microsteps for worker in (trainer, other)]
    assert not torch.equal(trainer.weights()["fc.weight"], other.weights()["fc.weight"])
    trainer.drafter.load_state_dict(merge([(trainer.weights(), steps[0]), (other.weights(), steps[1])]))
    assert trainer.evaluate().accepted > before.accepted + 0.1


def test_one_step_each_averaged_is_the_step_of_a_large_batch(target: Qwen2ForCausalLM, buffer: DataBuffer) -> None:
    """What local SGD guarantees, with plain SGD: from one start, the average of two workers' steps is one step on both batches.
    Loss weights are small, so that no gradient is clipped."""

    def worker() -> SpotTrainer:
        torch.manual_seed(1)
        drafter = Drafter(target.config)
        config = SpotConfig(tokens_per_microbatch=256, unroll=1)
        recipe = Recipe(feature_weight=1e-3, token_weight=1e-4)
        trainer = SpotTrainer(drafter, buffer, config, recipe, optimizers=[torch.optim.SGD(drafter.parameters())])
        trainer.learning_rate = 100.0
        trainer.set_target(target.model.embed_tokens.weight, target.lm_head.weight)
        return trainer

    shares = [[Segment(entry, 0, entry.positions) for entry in entries] for entries in same_size(buffer.mix())]
    workers = [worker() for _ in shares]
    for each, share in zip(workers, shares, strict=True):
        each.micro_step(pack(share))
    alone = worker()
    alone.micro_step(pack([segment for share in shares for segment in share]))

    def step(weights: dict[str, torch.Tensor]) -> torch.Tensor:
        start = worker().weights()
        return torch.cat([(weights[name] - start[name]).flatten() for name in start])

    large, merged = step(alone.weights()), step(merge([(each.weights(), 1) for each in workers]))
    assert (merged - large).norm() < 1e-3 * large.norm()
    assert all((step(each.weights()) - large).norm() > 0.05 * large.norm() for each in workers), "each alone goes elsewhere"


def same_size(entries: list[Entry]) -> list[list[Entry]]:
    """Two shares with equally many trained positions, so that the mean over both batches is the mean of their means."""
    by_length = sorted(entries, key=lambda entry: entry.response)
    pairs = [(a, b) for a, b in pairwise(by_length) if a.response == b.response][::8][:4]
    return [[pair[side] for pair in pairs] for side in (0, 1)]


def test_a_session_leaves_the_best_that_it_judged_and_judges_nothing_after_the_stop(
    trainer: SpotTrainer, monkeypatch: pytest.MonkeyPatch
) -> None:
    verdicts = [0.6, 0.3, 0.5]  # of what it began with, and after 2 and 4 micro-steps
    judged: list[list[torch.Tensor]] = []

    def judge(_: SpotTrainer, weights: Sequence[torch.Tensor], __: Callable[[], bool]) -> Judged:
        judged.append([weight.clone() for weight in weights])
        return Judged(verdicts[len(judged) - 1])

    monkeypatch.setattr(SpotTrainer, "_judged", judge)
    report = trainer.train(after(5))
    assert (report.microsteps, len(judged)) == (5, 3)
    assert (report.before, report.after) == (Judged(0.6), Judged(0.5))
    for left, best in zip(trainer.drafter.parameters(), judged[2], strict=True):
        assert torch.equal(left, best)
