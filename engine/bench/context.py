"""``bench context``: what it brings at which positions, and what it costs, that a drafter's training windows see what is before them."""

import time
from collections.abc import Iterator
from itertools import chain, islice, repeat
from statistics import median
from typing import Any

import torch
from transformers import LlamaConfig, Qwen2ForCausalLM

from engine.bench.recalling_target import LAWS, Law, recalling_drafter, recalling_target, sequence
from engine.bench.testbed import machine, ratio
from engine.config import SpotConfig
from engine.drafter.data_buffer import DataBuffer, Entry
from engine.drafter.eagle3 import make_drafter
from engine.drafter.offline_training import remember
from engine.drafter.packing import MicroBatch, Segment, cut, pack
from engine.drafter.recipe import RECIPES
from engine.drafter.spot_trainer import SpotTrainer
from engine.drafter.training_report import LOOK_AHEAD
from engine.models.weights import ends

POSITIONS = {"at_1k": 1024, "at_4k": 4096, "at_16k": 16_384}
MEASURED = 1024
"""Positions around each of these."""
CONTEXTS = {"seeing nothing": 0, "seeing 1 k": 1024, "seeing 4 k": 4096, "seeing 16 k": 16_384}
FRESH = 1000
WIDTHS: dict[str, Any] = {
    "hidden_size": 576,
    "intermediate_size": 1536,
    "num_attention_heads": 9,
    "num_key_value_heads": 3,
    "vocab_size": 49_152,
}
"""Those of SmolLM2-135M."""
DRAFTED = 8192


def run(quick: bool, _: str) -> dict[str, Any]:
    """``accept_length``: expected of chains of ``LOOK_AHEAD`` on fresh responses, with all of the past seen, by law, context of the
    training, and position. ``cost``: of a training step, by the length of responses, with the context and without. Seconds are the
    processor's."""
    torch.set_num_threads(1)
    count, steps, repetitions = (2, 4, 1) if quick else (6, 48, 3)
    positions = {name: place for name, place in POSITIONS.items() if not quick or place < 16_384}
    laws = {name: _compared(law, count, steps, positions) for name, law in LAWS.items()}
    return {
        "facts": machine() | {"responses": count, "tokens": _length(positions), "steps": steps},
        "laws": laws,
        "cost": {length: _cost(length, repetitions) for length in ((2048,) if quick else (2048, 8192, 16_384))},
    }


def _length(positions: dict[str, int]) -> int:
    """Of responses that have all that is measured."""
    return max(positions.values()) + MEASURED // 2


def _compared(law: Law, count: int, steps: int, positions: dict[str, int]) -> dict[str, Any]:
    length = _length(positions)
    target = recalling_target(law, length)
    stored, fresh = _buffer(target, count, length, 0), _buffer(target, 2, length, FRESH)
    entries = [*fresh.mix(), *fresh.held_out(fresh.limit)]
    found: dict[str, Any] = {}
    for name, context in {"untrained": None, **CONTEXTS}.items():
        trainer = _trainer(target, stored, context or 0)
        batches = islice(_batches(trainer), 0 if context is None else steps)
        seconds = [_timed(trainer, batch) for batch in batches]
        lengths = {place: _accept_length(trainer, entries, position) for place, position in positions.items()}
        found[name] = {"accept_length": lengths} | ({"seconds": round(sum(seconds), 1)} if seconds else {})
        print(f"{law}, {name}: {found[name]}", flush=True)
    return found


def _buffer(target: Qwen2ForCausalLM, count: int, length: int, seed: int) -> DataBuffer:
    buffer = DataBuffer(2**32)
    for number in range(count):  # one at a time: each is long
        tokens = sequence(length, seed + number)
        remember(buffer, 0, target, [(tokens[:8], tokens[8:])])
    return buffer


def _trainer(target: Qwen2ForCausalLM, stored: DataBuffer, context: int) -> SpotTrainer:
    torch.manual_seed(0)
    spot = SpotConfig(learning_rate=SpotConfig().first_learning_rate, context=context)
    trainer = SpotTrainer(recalling_drafter(target), stored, spot, RECIPES["eagle"])
    trainer.set_target(*ends(target))
    return trainer


def _batches(trainer: SpotTrainer) -> Iterator[MicroBatch]:
    return chain.from_iterable(trainer.one_pass(passes=10**6) for _ in repeat(None))


def _timed(trainer: SpotTrainer, batch: MicroBatch) -> float:
    began = time.process_time()
    trainer.micro_step(batch)
    return time.process_time() - began


def _accept_length(trainer: SpotTrainer, entries: list[Entry], position: int) -> float:
    start = position - MEASURED // 2
    segments = [Segment(entry, start, min(start + MEASURED, entry.positions), start) for entry in entries]
    return round(1 + LOOK_AHEAD * trainer.evaluate_segments(segments).accepted, 3)


def _cost(length: int, repetitions: int) -> dict[str, Any]:
    """Of the middle window of responses of ``length`` tokens. Their features are random: what they are does not matter for the time."""
    torch.manual_seed(0)
    config = LlamaConfig(**WIDTHS, max_position_embeddings=2 * length)
    entry = Entry(1, 1, 0, torch.randint(DRAFTED, (length + 2,)), 1, torch.randn(length + 1, config.hidden_size).bfloat16())
    embedding = torch.randn(config.vocab_size, config.hidden_size)
    drafter = make_drafter("eagle", config, torch.arange(DRAFTED))
    trainer = SpotTrainer(drafter, DataBuffer(2**20), SpotConfig(), RECIPES["eagle"])
    trainer.set_target(embedding, embedding)
    bound = trainer.config.tokens_per_microbatch
    windows = {name: cut(entry, bound, context)[length // bound // 2] for name, context in {"without": 0, "with": length}.items()}
    seconds: dict[str, list[float]] = {name: [] for name in windows}
    for _ in range(repetitions):
        for name, window in windows.items():
            seconds[name].append(_timed(trainer, pack([window])))
    pairs = list(zip(seconds["with"], seconds["without"], strict=True))
    return {name: round(median(values), 3) for name, values in seconds.items()} | {"ratio": ratio(pairs)}
