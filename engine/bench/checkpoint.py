"""``bench checkpoint``: how long training stands still for a checkpoint of the drafter (TLT section 3).

``sync``: everything in the trainer's memory, frozen embedding and head included, is written by the training thread. ``async``: the
same, copied to host memory there and written by another thread. ``selective``: that without what is frozen.
"""

import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any

import torch
from torch import Tensor
from transformers import PretrainedConfig

from engine.bench.testbed import Bed, ratio
from engine.checkpoint import storage
from engine.checkpoint.drafter_snapshots import SessionProgress, Snapshot, SnapshotWriter
from engine.config import SpotConfig
from engine.drafter.data_buffer import DataBuffer
from engine.drafter.model import Drafter
from engine.drafter.spot_trainer import SpotTrainer
from engine.models.weights import host_copy

RESPONSE, RESPONSES = 100, 9
LARGE_VOCABULARY = 151_936  # Qwen2.5's: what is frozen is then most of it
PROGRESS = SessionProgress(target=0)


def run(quick: bool, model: str) -> dict[str, Any]:
    """Medians of the blocking milliseconds, interleaved; the bytes that are written. ``models`` has other sizes."""
    repetitions = 5 if quick else 15
    bed = Bed(model)
    models = {name: _measure(Bed(name).model.config, repetitions) for name in dict.fromkeys((model, "tiny", "small"))}
    large = Bed("small").model.config
    large.vocab_size = LARGE_VOCABULARY
    models[f"small, vocabulary {LARGE_VOCABULARY}"] = _measure(large, max(3, repetitions // 5))
    return {"facts": bed.facts(), **models[model], "models": models}


def _measure(target: PretrainedConfig, repetitions: int) -> dict[str, Any]:
    trainer, frozen = _trainer(target)
    with TemporaryDirectory(prefix="longtail-") as folder:
        arms = _arms(trainer, frozen, Path(folder))
        seconds: dict[str, list[float]] = {name: [] for name in arms}
        for _ in range(repetitions):
            for name, arm in arms.items():
                began = time.perf_counter()
                finish = arm()
                seconds[name].append(time.perf_counter() - began)
                finish()
        sizes = {name: max(file.stat().st_size for file in (Path(folder) / name).rglob("*.pt")) for name in arms}
    return {
        **{f"{name}_ms": round(1000 * median(values), 3) for name, values in seconds.items()},
        "spread_ms": {name: [round(1000 * min(values), 3), round(1000 * max(values), 3)] for name, values in seconds.items()},
        "bytes": sizes,
        "speedup_async": ratio(list(zip(seconds["sync"], seconds["async"], strict=True))),
        "speedup": ratio(list(zip(seconds["sync"], seconds["selective"], strict=True))),
    }


def _arms(trainer: SpotTrainer, frozen: dict[str, Tensor], folder: Path) -> dict[str, Callable[[], Callable[[], None]]]:
    """Each blocks as long as training would, and returns what waits for its end."""

    def everything() -> dict[str, Any]:
        return trainer.state_dict() | {"frozen": host_copy(frozen)}

    def synchronous() -> Callable[[], None]:
        storage.save(folder / "sync", 0, {"trainer.pt": everything()})
        return lambda: None

    def asynchronous(name: str, state: Callable[[], dict[str, Any]]) -> Callable[[], None]:
        writer = SnapshotWriter(folder / name)
        writer.put(Snapshot(PROGRESS, state()))
        return writer.close

    return {
        "sync": synchronous,
        "async": lambda: asynchronous("async", everything),
        "selective": lambda: asynchronous("selective", trainer.state_dict),
    }


def _trainer(target: PretrainedConfig) -> tuple[SpotTrainer, dict[str, Tensor]]:
    """After one micro-step on random data, so that its optimizer has a state; and the frozen tensors, a tied head once."""
    torch.manual_seed(0)
    buffer = DataBuffer(2**28)
    for number in range(RESPONSES):
        buffer.add(0, [number, *range(1, RESPONSE)], 1, torch.randn(RESPONSE - 1, target.hidden_size))
    frozen = {"embedding": torch.randn(target.vocab_size, target.hidden_size)}
    if not target.tie_word_embeddings:
        frozen["head"] = torch.randn_like(frozen["embedding"])
    trainer = SpotTrainer(Drafter(target), buffer, SpotConfig(tokens_per_microbatch=RESPONSE))
    trainer.set_target(frozen["embedding"], frozen.get("head", frozen["embedding"]))
    trainer.micro_step(next(trainer.one_pass()))
    return trainer, frozen
