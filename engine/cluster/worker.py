"""One worker: its rollout engine, its share of the learner, and its spot trainer. Plain Python; ``group.py`` makes it a Ray actor."""

import json
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
import torch.distributed as dist
from torch import Tensor

from engine.cluster.drift import drift, sketch
from engine.cluster.forecast import Forecaster
from engine.cluster.spot import Spot, Trained
from engine.config import RunConfig
from engine.drafter.card import Card
from engine.drafter.checkpoint import Progress
from engine.drafter.export import write_drafter_folder
from engine.models.load import load_model, load_tokenizer, resolve
from engine.policy.batch import Inferred, Row
from engine.policy.learner import Learner
from engine.rollout.base import Completion, Holding, Request, RolloutStatistics, Sampling
from engine.rollout.build import build_engine
from engine.rollout.sglang.engine import SGLangEngine


@dataclass(frozen=True)
class RolloutShare:
    """What one worker generated, until ``ended`` (seconds since the epoch)."""

    completions: list[Completion]
    statistics: RolloutStatistics
    ended: float


@dataclass(frozen=True)
class LearnShare:
    """The training metrics (global, so equal on every worker), this worker's seconds of it, the checksum of the policy's weights, what the
    engine holds after the sync, and how far the target has moved since the drafter was last trained (see ``drift``)."""

    metrics: dict[str, float]
    update_seconds: float
    checksum: str
    holding: Holding
    drift: float


class Worker:
    """Created once per run and rank. ``rendezvous`` is a torch.distributed init method that all ranks share; ``checkpoints``, the
    run's folder for them, gets snapshots of the drafter while it trains."""

    def __init__(self, rank: int, config: RunConfig, rendezvous: str, checkpoints: Path | None = None) -> None:
        torch.set_num_threads(config.cluster.threads_per_worker)
        torch.set_flush_denormal(True)  # denormals are slow on CPUs; every worker must round alike
        self.rank = rank
        self.device = _device(config)
        workers = config.cluster.workers
        if workers > 1:
            backend = "nccl" if self.device.type == "cuda" else "gloo"
            dist.init_process_group(backend, init_method=rendezvous, rank=rank, world_size=workers)
        folder = resolve(config.model.path)
        model = load_model(folder, torch.float32)
        self._model_config = model.config
        self._tokenizer = load_tokenizer(folder)
        self.learner = Learner(
            model,
            config.algorithm,
            config.rollout.temperature,
            config.rollout.max_new_tokens,
            self.device,
            dist.group.WORLD if workers > 1 else None,
        )
        self.spot = Spot(config, model, rank, checkpoints) if config.speculation.enabled else None
        published = self.spot.published if self.spot else None
        self.engine = build_engine(config, rank, folder, model, self._tokenizer, self.device, self.learner.weights(), published)
        # Then the engine's checksum of the target is the policy's.
        self._copies_exactly = config.rollout.engine == "native" and config.model.dtype == "float32"
        self._lends_memory = config.rollout.engine == "sglang" and config.rollout.sglang.release_memory
        self._target_version = self._drafter_version = 0
        self._max_batch = config.rollout.max_batch
        self._step = -1
        self._halt = threading.Event()
        self._forecaster = Forecaster(time.monotonic(), self._max_batch)
        self._sketch = sketch(self.learner.weights())

    def facts(self) -> dict[str, str]:
        """Parameters and device of the policy, and what SGLang, if it is there, says of its CUDA graphs."""
        parameters = sum(weight.numel() for weight in self.learner.weights().values())
        name = torch.cuda.get_device_name(self.device) if self.device.type == "cuda" else "cpu"
        graphs = {"graphs": self.engine.describe_graphs()} if isinstance(self.engine, SGLangEngine) else {}
        return {"parameters": str(parameters), "device": name} | graphs

    def rollout(self, step: int, requests: Sequence[Request], sampling: Sampling) -> RolloutShare:
        """Generates this worker's share of ``step``."""
        self._step = step
        self._halt.clear()
        self._forecaster = Forecaster(time.monotonic(), self._max_batch)
        completions = self._generate(requests, sampling)
        if self.spot and (features := self.engine.take_features()):
            self.spot.remember(step, completions, features)
        return RolloutShare(completions, self.engine.take_statistics(), time.time())

    def answer(self, requests: Sequence[Request], sampling: Sampling) -> list[Completion]:
        """Generates outside of training: neither the drafter nor the statistics learn of it."""
        completions = self._generate(requests, sampling)
        self.engine.take_features()
        self.engine.take_statistics()
        return completions

    def _generate(self, requests: Sequence[Request], sampling: Sampling) -> list[Completion]:
        if self._lends_memory:
            self.engine.resume()
        completions = self.engine.generate(requests, sampling)
        if self._lends_memory:
            self.engine.release()  # until the next rollout: the drafter's training and the update use it
        return completions

    def forecast(self) -> float | None:
        """Seconds until the share is done, as predicted; None if nothing can be said yet. Called from another thread."""
        return self._forecaster.seconds(self.engine.progress(time.monotonic()))

    def train_drafter(self, step: int) -> Trained | None:
        """Trains the drafter in the tail of ``step`` until ``halt``; None if there is nothing to train on yet, or it is too late."""
        if not self.spot or step != self._step or self._halt.is_set():
            return None
        return self.spot.train(self._halt.is_set, Progress(self._target_version))

    def halt(self, step: int) -> None:
        """Ends ``train_drafter`` of ``step`` after its current micro-step. Called from another thread."""
        if step == self._step:
            self._halt.set()

    def infer(self, rows: Sequence[Row]) -> list[Inferred] | None:
        """Log-probs under the policy, before its update, and under the reference; None if nobody needs them."""
        return self.learner.infer(rows)

    def learn(self, rows: Sequence[Row], inferred: Sequence[Inferred] | None, step: int) -> LearnShare:
        """Policy update with all other workers, and new weights into the rollout engine. ``inferred``: what ``infer`` said of the rows."""
        began = time.perf_counter()
        metrics = self.learner.update(rows, inferred, step)
        seconds = time.perf_counter() - began
        self._load_target(step + 1)
        if self.spot:
            self.spot.follow()
        holding = self.engine.holding()
        return LearnShare(
            metrics,
            seconds,
            holding.target if self._copies_exactly else self.learner.checksum(),
            holding,
            drift(self._sketch, sketch(self.learner.weights())),
        )

    def save(self, folder: Path) -> None:
        """Writes this worker's part of the resume unit; the policy, equal everywhere, is rank 0's to write."""
        if self.rank == 0:
            torch.save(self.learner.state(), folder / "policy.pt")
        learnt = self.engine.speculator.state() if self.engine.speculator else None
        versions = {"target": self._target_version, "drafter": self._drafter_version, "speculation": learnt}
        (folder / f"engine_{self.rank}.json").write_text(json.dumps(versions), encoding="utf-8")
        if self.spot:
            self.spot.save(folder / f"spot_{self.rank}")

    def load(self, folder: Path) -> int:
        """Goes on from ``folder``; returns the drafter's version. A worker that is new to the run takes over rank 0's drafter."""
        self.learner.load_state(torch.load(folder / "policy.pt", map_location=self.device, weights_only=True))
        self._sketch = sketch(self.learner.weights())
        rank = self.rank if (folder / f"engine_{self.rank}.json").exists() else 0
        versions = json.loads((folder / f"engine_{rank}.json").read_text(encoding="utf-8"))
        self._load_target(versions["target"])
        if self.spot:
            self.spot.load(folder / f"spot_{rank}")
            self._load_drafter(self.spot.published, versions["drafter"])
        if self.engine.speculator and versions["speculation"]:
            self.engine.speculator.load_state(versions["speculation"])
        return self._drafter_version

    def export(self, folder: Path, card: Card) -> list[Path]:
        """Writes the policy, and the drafter if there is one, as Hugging Face folders; returns those."""
        folder.mkdir(parents=True, exist_ok=True)
        self.learner.export(folder / "policy")
        self._tokenizer.save_pretrained(folder / "policy")
        if not self.spot:
            return [folder / "policy"]
        write_drafter_folder(folder / "drafter", self.spot.published, self._model_config, card)
        return [folder / "policy", folder / "drafter"]

    def drafter_weights(self) -> dict[str, Tensor]:
        """The spot trainer's current weights."""
        return self._require_spot().weights()

    def judge(self, candidate: dict[str, Tensor] | None) -> tuple[float, float]:
        """Held-out acceptance of the published drafter and of ``candidate``, by default the last good one."""
        return self._require_spot().judge(candidate)

    def publish(self, weights: Mapping[str, Tensor], version: int, proven: bool) -> Holding:
        """Takes ``weights`` as the drafter of ``version``, in engine and trainer; returns what the engine holds now.

        ``proven``: the version held until now drafted well, so that it is the one to roll back to.
        """
        self._settle(weights, proven)
        self._load_drafter(weights, version)
        return self.engine.holding()

    def keep(self, proven: bool) -> None:
        """Undoes what was trained since the last version, which stays; for ``proven`` see ``publish``."""
        self._settle(None, proven)

    def _settle(self, weights: Mapping[str, Tensor] | None, proven: bool) -> None:
        spot = self._require_spot()
        if proven:
            spot.good = spot.published
        spot.adopt(weights)
        self._sketch = sketch(self.learner.weights())

    def roll_back(self, version: int) -> Holding:
        """Takes the last good drafter again, as ``version``; returns what the engine holds now."""
        spot = self._require_spot()
        spot.roll_back()
        self._load_drafter(spot.published, version)
        return self.engine.holding()

    def _load_target(self, version: int) -> None:
        self.engine.load_target(self.learner.weights(), version)
        self._target_version = version

    def _load_drafter(self, weights: Mapping[str, Tensor], version: int) -> None:
        self.engine.load_drafter(weights, version)
        self._drafter_version = version

    def _require_spot(self) -> Spot:
        assert self.spot is not None, "the plain baseline has no drafter"
        return self.spot


def _device(config: RunConfig) -> torch.device:
    if config.cluster.device == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    return torch.device(config.cluster.device)
