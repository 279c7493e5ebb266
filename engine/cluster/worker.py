"""One worker: its rollout engine, its share of the learner, its spot trainer. Plain Python; ``worker_group.py`` makes it a Ray actor."""

import copy
import threading
import time
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import Future
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from engine.checkpoint import storage
from engine.checkpoint.drafter_snapshots import SessionProgress
from engine.cluster.cache_lending import cache_lending
from engine.cluster.distributed_rollout.early_stop_on_worker import WorkerEarlyStop
from engine.cluster.distributed_rollout.finish_forecast import FinishForecaster
from engine.cluster.learner_rank import LearnerRank
from engine.cluster.shares import LearnShare, RolloutShare
from engine.cluster.spot_training.sent_weights import SentWeights
from engine.cluster.spot_training.trained_session import TrainedSession
from engine.cluster.spot_training.worker_side import SpotTraining
from engine.config import RunConfig
from engine.drafter.data_buffer import HELD_OUT_EVERY, Entry, group_of
from engine.drafter.export import write_drafter_folder
from engine.drafter.finished_responses import FinishedResponses
from engine.drafter.held_out_evaluation import Judged
from engine.drafter.model_card import DrafterCard
from engine.drafter.offline_training import PromptAndResponse
from engine.models.load import load_tokenizer, resolve
from engine.models.weights import base_weights
from engine.policy.training.training_row import Inferred, TrainingRow
from engine.pretraining.pretraining_round import PretrainingRound
from engine.pretraining.schedule import PretrainingSchedule
from engine.pretraining.time_limit import TimeLimit
from engine.rollout.factory import build_engine
from engine.rollout.interface import Alarm, Answers, Completion, LoadedWeights, Request, RolloutStatistics, Sampling
from engine.rollout.native.engine import NativeEngine
from engine.rollout.sglang.engine import SGLangEngine
from engine.rollout.sglang.supported_speculation import trains_drafter
from engine.speculation.step_pace import Neighbours, of_worker

BEFORE_STEPS = -(10**6)
"""What the rounds of a pretraining count from in the data buffer, whose steps never fall."""


class Worker(LearnerRank):
    """Created once per run and ``rank``, which counts workers; it is the first rank of the learner on its GPUs, the others are
    ``LearnerOnlyRank``s. ``checkpoints``, the run's folder for them, gets snapshots of the drafter while it trains."""

    def __init__(self, rank: int, config: RunConfig, rendezvous: str, checkpoints: Path | None = None) -> None:
        super().__init__(rank * config.rollout.gpus, config, rendezvous)
        self.rank = rank
        self._workers = config.cluster.workers
        folder, model = resolve(config.model.path), self.policy.model
        self._model_config = model.config
        self._tokenizer = load_tokenizer(folder)
        self.spot = SpotTraining(config, model, rank, self.device, checkpoints) if trains_drafter(config) else None
        published = self.spot.published if self.spot else None
        self.engine = build_engine(config, rank, folder, self.policy, self._tokenizer, self.device, published, self._giving)
        # Then the engine's checksum of the target is the policy's.
        self._copies_exactly = config.rollout.engine != "sglang" and self._dtype == torch.float32
        self._lending = cache_lending(self.engine, config.rollout, self.device, config.algorithm.tokens_per_microbatch)
        self._drafter_version = 0
        self._first_responses: Sequence[PromptAndResponse] = ()
        # SGLang keeps no features: they are taken out of the learner's passes over the responses.
        self._captures = config.rollout.engine == "sglang" and self.spot is not None and config.drafter.spot.enabled
        self._keeps_features = config.drafter.spot.enabled or config.drafter.pretrain_minutes > 0
        self._staged: dict[str, Any] = {}
        self._max_batch = config.rollout.max_batch
        self._trains_policy, self._kl_in_loss = config.algorithm.steps > 0, config.algorithm.kl_in_loss
        self._step = -1
        self._halt = threading.Event()
        self._early_stop = WorkerEarlyStop(self.engine.abort)
        self._forecaster = FinishForecaster(time.monotonic(), self._max_batch)

    def facts(self) -> dict[str, str]:
        """Parameters, vocabulary and device of the policy, the data type it generates in, the number of workers, and what SGLang, if it is
        there, says of its CUDA graphs."""
        parameters = sum(weight.numel() for weight in base_weights(self.policy.model).values())
        name = torch.cuda.get_device_name(self.device) if self.device.type == "cuda" else "cpu"
        graphs = {"graphs": self.engine.describe_graphs()} if isinstance(self.engine, SGLangEngine) else {}
        dtype = str(self._dtype).removeprefix("torch.")
        vocabulary = str(self._model_config.vocab_size)
        facts = {"parameters": str(parameters), "device": name, "dtype": dtype, "workers": str(self._workers), "vocabulary": vocabulary}
        return facts | graphs

    def rollout(self, step: int, requests: Sequence[Request], sampling: Sampling, watch: bool = True) -> RolloutShare:
        """Generates this worker's share of ``step``; without ``watch`` neither speculation nor the drafter learns of it."""
        self._begin(step, watch)
        finished = self.spot.finished(request.id for request in requests) if self.spot and self._keeps_features else None
        with self._early_stop.rollout(step, requests):
            completions = self._generate(requests, sampling, self._early_stop.finished, finished)
        statistics = self._observed(finished.take() if finished else (), self.engine.take_statistics())
        return RolloutShare(completions, statistics, time.time())

    def _begin(self, step: int, watch: bool) -> None:
        self._step = step
        self._halt.clear()
        self.engine.beside(None)
        if self._captures and watch:
            self.learner.capture(self._kind, partial(self._require_spot().add, step))
        else:
            self.learner.capture_nothing()
        self._forecaster = FinishForecaster(time.monotonic(), self._max_batch)
        self.engine.watch(watch)

    def _observed(self, finished: Sequence[Sequence[Entry]], statistics: RolloutStatistics) -> RolloutStatistics:
        """The statistics as this worker's; the drafter remembers the responses that ended."""
        if self.spot and finished:
            self.spot.remember(self._step, finished)
        statistics.moments = {self.rank: statistics.moments[0]}
        if statistics.decode_seconds:
            statistics.decode_seconds = {self.rank: statistics.decode_seconds[0]}
        statistics.paces = of_worker(statistics.paces, self.rank)
        statistics.alarms += self.spot.take_alarms() if self.spot else []
        return statistics

    def infer(self, rows: Sequence[TrainingRow], groups: Sequence[int] | None = None) -> list[Inferred] | None:
        found = super().infer(rows, groups)
        self._write_remembered()
        return found

    def learn(self, rows: Sequence[TrainingRow], inferred: Sequence[Inferred] | None, step: int) -> LearnShare:
        share = super().learn(rows, inferred, step)
        if self._lending:
            teaching = (len(row.tokens) for row in rows if row.teaches(self._kl_in_loss))
            self._lending.updated(max(teaching, default=0))
        self._write_remembered()
        return share

    def _write_remembered(self) -> None:
        """What the drafter is to learn of the policy's passes over the step's rows."""
        if self.spot and self._captures:
            self.spot.write_new()

    def answer(self, requests: Sequence[Request], sampling: Sampling) -> Answers:
        """Generates outside of training: neither speculation nor the drafter learns of it, nor do the statistics."""
        self.engine.watch(True, learn=False)
        completions = self._generate(requests, sampling)
        return Answers(completions, self.engine.take_statistics().alarms)

    def _generate(
        self,
        requests: Sequence[Request],
        sampling: Sampling,
        on_finish: Callable[[Completion], None] | None = None,
        finished: FinishedResponses | None = None,
    ) -> list[Completion]:
        if self._lending:
            self._lending.rollout_begins()
        completions = self.engine.generate(requests, sampling, on_finish, finished.keep if finished else None)
        if self._lending:
            self._lending.rollout_ended()
        return completions

    def forecast(self) -> float | None:
        """Seconds until the share is done, as predicted; None if nothing can be said yet. Called from another thread."""
        return self._forecaster.seconds(self.engine.progress(time.monotonic()))

    def complete_groups(self, step: int) -> int:
        """How many groups of its share of ``step`` it has generated by now. Called from another thread, as ``stop_early`` is."""
        return self._early_stop.complete(step)

    def complete_group(self, step: int, taken: Collection[int]) -> list[Completion]:
        """A group of its share of ``step`` that it has generated by now, and that is not among ``taken``; nothing if there is none. Called
        from another thread."""
        return self._early_stop.complete_group(step, taken)

    def finished_responses(self, step: int) -> int:
        """How many responses of its share of ``step`` it has generated by now. Called from another thread."""
        return self._early_stop.responses(step)

    def stop_early(self, step: int) -> None:
        """Ends its share of ``step`` as it is."""
        self._early_stop.stop_early(step)

    def beside(self, step: int, neighbours: Neighbours | None) -> None:
        """What other workers do while it generates its share of ``step``. Called from another thread."""
        if step == self._step:
            self.engine.beside(neighbours)

    def train_drafter(self, step: int) -> TrainedSession | None:
        """Trains the drafter in the tail of ``step`` until ``halt``; None if there is nothing to train on yet, or not enough time."""
        if not self.spot or step != self._step or self._halt.is_set():
            return None
        return self.spot.train(self._halt.is_set, SessionProgress(self._target_version))

    def halt(self, step: int) -> None:
        """Ends ``train_drafter`` of ``step`` after its current micro-step. Called from another thread."""
        if step == self._step:
            self._halt.set()

    def pretrain(
        self, number: int, requests: Sequence[Request], sampling: Sampling, schedule: PretrainingSchedule | None, seconds: float
    ) -> PretrainingRound:
        """Round ``number``: writes its share of responses, or reads those that are given. Then, given a ``schedule``, trains until
        ``seconds`` after it began. It writes for about as long as the schedule lasts, without one for ``seconds``: see ``TimeLimit``."""
        began = time.monotonic()
        written = PretrainingRound(0, 0, 0.0, dropped=self._require_spot().dropped)
        if requests:
            most = seconds if schedule is None else schedule.end - schedule.spent
            written = self._write(number, requests, sampling, TimeLimit(most, self.engine.abort))
        if not requests and isinstance(self.engine, SGLangEngine):
            self._read(number, [])  # shards of the policy take part in what other workers read
        return written if schedule is None else self._require_spot().pretrain(written, schedule, began, seconds)

    def _write(self, number: int, requests: Sequence[Request], sampling: Sampling, limit: TimeLimit) -> PretrainingRound:
        """The responses of a round, if they are not given, with their features."""
        began, spot, alarms = time.monotonic(), self._require_spot(), list[Alarm]()
        responses = [(request.prompt, request.begun.tokens) for request in requests if request.begun.tokens]
        if responses:
            self._read(number, responses)
        else:
            finished = spot.finished(request.id for request in requests)
            with limit:
                completions = self._generate(requests, sampling, limit.finished, finished)
            completions = [completion for completion in completions if completion.finish != "abort"]
            responses = [(completion.request.prompt, completion.tokens) for completion in completions]
            if isinstance(self.engine, SGLangEngine):
                self._read(number, responses)
            else:
                spot.remember(number + BEFORE_STEPS, finished.take())
                self.engine.release()  # training has the memory of the cache, which is made anew for the next responses
            alarms = self.engine.take_statistics().alarms
            if not number:
                self._first_responses = responses
        lost, dropped = spot.take_lost()
        alarms += [*spot.take_alarms(), *dropped]
        tokens = sum(len(response) for _, response in responses) - lost.tokens
        seconds = time.monotonic() - began
        return PretrainingRound(len(responses) - lost.responses, tokens, seconds, alarms=tuple(alarms), dropped=spot.dropped)

    def _read(self, number: int, responses: Sequence[PromptAndResponse]) -> None:
        """Remembers what another engine wrote in a round of a pretraining, which has no other pass of the policy over it."""
        lines = [(len(prompt), (*prompt, *response)) for prompt, response in responses]
        rows = [TrainingRow(tokens, prompt, 0.0, (0.0,) * (len(tokens) - prompt)) for prompt, tokens in lines]
        features = self.learner.features(rows, self._kind)
        spot = self._require_spot()
        for row, states in zip(rows, features, strict=True):
            spot.add(number + BEFORE_STEPS, row, states)
        spot.write_new()

    def token_counts(self) -> Counter[int]:
        """How often tokens occur in the first responses that it wrote and their prompts, also in those that the buffer had no room for; but
        in none that are held out."""
        taught = [pair for pair in self._first_responses if group_of(torch.tensor(pair[0])) % HELD_OUT_EVERY]
        return Counter(token for prompt, response in taught for token in (*prompt, *response))

    def begin_pretraining(self, vocabulary: Tensor | None) -> tuple[int, ...] | None:
        """See ``SpotTraining``; the vocabulary that the drafter has."""
        return self._require_spot().begin_pretraining(vocabulary)

    def adopt_pretrained(self, weights: Mapping[str, Tensor]) -> None:
        """Goes on training from ``weights``; its engine still drafts with the last version."""
        self._require_spot().adopt(weights)

    def judge_pretrained(self) -> Judged:
        """The drafter on held-out responses."""
        return self._require_spot().judge_pretrained()

    def end_pretraining(self) -> None:
        self._require_spot().end_pretraining()
        if self._trains_policy:
            self.measure_costs()

    def measure_costs(self) -> None:
        """Of the drafter that the engine has now: pretrained, it drafts from fewer tokens than the one that the engine began with. What
        this machine knows already is read; else it may take a minute."""
        if isinstance(self.engine, NativeEngine):
            self.engine.measure_costs()

    def write_pretraining(self, folder: Path) -> None:
        """Writes its part of what a pretraining goes on from."""
        for name, part in self._require_spot().stage(f"spot_{self.rank}").items():
            storage.write(part.result() if isinstance(part, Future) else part, folder / name)

    def load_pretraining(self, folder: Path, vocabulary: Sequence[int] | None, version: int) -> None:
        """Goes on from ``folder``. A worker that is new to the run takes over rank 0's drafter."""
        spot, rank = self._require_spot(), self.rank if (folder / f"spot_{self.rank}.trainer.pt").exists() else 0
        spot.begin_pretraining(None if vocabulary is None else torch.tensor(vocabulary))
        spot.load(folder / f"spot_{rank}")
        self._load_drafter(spot.published, version)

    def stage(self) -> None:
        super().stage()
        learnt = self.engine.speculator.state() if self.engine.speculator else None
        versions = {"target": self._target_version, "drafter": self._drafter_version, "speculation": copy.deepcopy(learnt)}
        sketches = {"target": self._sketch, "drafters": self._drafters_sketch}
        self._staged = {f"engine_{self.rank}.json": versions, f"sketches_{self.rank}.pt": sketches}
        self._staged |= self.spot.stage(f"spot_{self.rank}") if self.spot else {}

    def write(self, folder: Path) -> None:
        for name, part in self._staged.items():
            storage.write(part.result() if isinstance(part, Future) else part, folder / name)
        self._staged = {}
        super().write(folder)

    def load(self, folder: Path) -> int:
        """See LearnerRank. A worker that is new to the run takes over rank 0's drafter."""
        rank = self.rank if (folder / f"engine_{self.rank}.json").exists() else 0
        versions = storage.read(folder / f"engine_{rank}.json")
        self._target_version = versions["target"]
        super().load(folder)
        self._load_sketches(folder / f"sketches_{rank}.pt")
        if self.spot:
            self.spot.load(folder / f"spot_{rank}")
            self._load_drafter(self.spot.published, versions["drafter"])
            self.measure_costs()
        if self.engine.speculator and versions["speculation"]:
            self.engine.speculator.load_state(versions["speculation"])
        return self._drafter_version

    def _load_sketches(self, path: Path) -> None:
        """From where the target has moved since the drafter was trained; from where it is, if the policy was shared out otherwise then, or
        if the checkpoint is of an earlier version."""
        if path.exists():
            saved = storage.read(path)
            self._drafters_sketch = saved["drafters"] if torch.equal(saved["target"], self._sketch) else self._sketch

    def export(self, folder: Path, card: DrafterCard) -> list[Path]:
        """Writes the policy, if it was trained, and the drafter, if there is one, as Hugging Face folders; returns those. One worker
        writes, all take part."""
        own = self.rank == 0
        written: list[Path] = []
        with storage.writing(folder):
            folder.mkdir(parents=True, exist_ok=True)
            if self._trains_policy:
                self.policy.export(folder / "policy" if own else None)
            if not own:
                return []
            if self._trains_policy:
                self._tokenizer.save_pretrained(folder / "policy")
                written.append(folder / "policy")
            if self.spot:
                write_drafter_folder(folder / "drafter", self.spot.published, self._model_config, card)
                written.append(folder / "drafter")
        return written

    def drafter_weights(self) -> dict[str, Tensor]:
        """The spot trainer's current weights."""
        return SentWeights(self._require_spot().weights())

    def judge(self, candidate: dict[str, Tensor] | None) -> tuple[Judged, Judged]:
        """The published drafter and ``candidate``, by default the last good one, on held-out responses."""
        return self._require_spot().judge(candidate)

    def prove(self) -> None:
        """The published drafter drafted well, so that it is the one to roll back to."""
        spot = self._require_spot()
        spot.good = spot.published

    def publish(self, weights: Mapping[str, Tensor], version: int) -> LoadedWeights:
        """Takes ``weights`` as the drafter of ``version``, in engine and trainer; returns what the engine holds now."""
        self._settle(weights)
        self._load_drafter(weights, version)
        return self.engine.loaded_weights()

    def keep(self) -> None:
        """Undoes what was trained since the last version, which stays."""
        self._settle(None)

    def _settle(self, weights: Mapping[str, Tensor] | None) -> None:
        """Looks at no weights of the policy: a worker's further GPUs know nothing of it."""
        self._require_spot().adopt(weights)
        self._drafters_sketch = self._sketch

    def roll_back(self, version: int) -> LoadedWeights:
        """Takes the last good drafter again, as ``version``; returns what the engine holds now."""
        spot = self._require_spot()
        spot.roll_back()
        self._load_drafter(spot.published, version)
        return self.engine.loaded_weights()

    def _loaded_weights(self) -> LoadedWeights:
        return self.engine.loaded_weights()

    def _checksum(self, loaded_weights: LoadedWeights | None) -> str:
        return loaded_weights.target if loaded_weights and self._copies_exactly else super()._checksum(loaded_weights)

    def _follow(self) -> None:
        if self.spot:
            self.spot.follow()

    def _load_target(self, version: int) -> None:
        self.engine.load_target(self.policy.weights(), version)
        self._target_version = version

    def _load_drafter(self, weights: Mapping[str, Tensor], version: int) -> None:
        self.engine.load_drafter(weights, version)
        self._drafter_version = version

    def _require_spot(self) -> SpotTraining:
        assert self.spot is not None, "the plain baseline has no drafter"
        return self.spot
