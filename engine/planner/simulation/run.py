"""A whole run, simulated step by step, as ``engine.run`` has it: rollout with spot training in its tail, inference, update, sync."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from math import ceil

import numpy as np

from engine.cluster.distributed_rollout.coordinator import RolloutState
from engine.cluster.spot_training.set_up import WORTH
from engine.cluster.spot_training.when_to_train import TrainingDecision, TrainingHistory, decide, rolled_out, trained
from engine.config import RunConfig
from engine.events import ArmStatistics
from engine.planner.calibration import Calibration
from engine.planner.simulation.acceptance import accepted_tokens
from engine.planner.simulation.decoding import Decoded, Pace, decode
from engine.planner.simulation.drafter_quality import DrafterQuality, at_the_start
from engine.planner.simulation.phase_costs import PhaseCosts, inferred, updated_with
from engine.planner.simulation.response_lengths import ResponseLengths
from engine.planner.simulation.spot_tail import Tail, tail
from engine.planner.simulation.strategy_choice import Choice, StrategyChoice
from engine.planner.simulation.workload import Numbers, Shares, Workload
from engine.speculation.cooldown import Cooldown, watched
from engine.speculation.strategy import OFF
from engine.speculation.tuner.cost_table import CostTable

MANY = 10**6
"""First drafts of a rollout, so that chance makes no difference."""
PROMPT_TOKENS_SHARE = 0.5
"""Of ``rollout.max_prompt_tokens``, what a prompt has."""


@dataclass(frozen=True)
class Assumptions:
    """What a simulation rests on beside the configuration. ``prompt``: tokens of a prompt; ``prefill``: seconds for one of them;
    ``firsts``: by step, the probability that the drafter's first token is accepted, where a run has recorded it; ``plain``: costs of a run
    that never drafts, where they are known apart."""

    costs: CostTable
    phases: PhaseCosts
    lengths: ResponseLengths
    calibration: Calibration
    workers: int
    prefill: float
    prompt: float
    firsts: Sequence[float] = ()
    plain: CostTable | None = None


@dataclass(frozen=True)
class SimulatedStep:
    """Seconds by ``phases``, of which most steps have no ``evaluation``. ``generated`` [W, R]: tokens of each request of ``shares`` at the
    end of the rollout; ``unused`` of these are not learned from in this step. ``first``: probability that the drafter's first token was
    accepted, before it became as good as ``quality``."""

    index: int
    phases: dict[str, float]
    checkpoint: float
    shares: Shares
    generated: Numbers
    decoded: Decoded
    rollout_end: float
    tail: Tail
    choices: Sequence[Choice]
    arms: list[ArmStatistics]
    accept_length: float
    first: float
    quality: DrafterQuality
    unused: int
    untrained: str | None

    @property
    def seconds(self) -> float:
        """Without the checkpoint, which the next step waits for."""
        return sum(self.phases.values())


class Simulation:
    """Deterministic by ``config.seed``."""

    def __init__(self, config: RunConfig, assumptions: Assumptions) -> None:
        self._config, self._given = config, assumptions
        limit, self._slots = config.rollout.max_new_tokens, config.rollout.max_batch
        calibration = assumptions.calibration
        costs = assumptions.costs if config.speculation.enabled or not assumptions.plain else assumptions.plain
        self._choice = StrategyChoice(config.speculation, costs, calibration.acceptance, self._slots, limit, config.seed)
        self._workload = Workload(config, assumptions.lengths, assumptions.workers)
        self._quality = at_the_start(config.drafter)
        self._history, self._cooldown = TrainingHistory(), Cooldown()

    def steps(self, count: int) -> Iterator[SimulatedStep]:
        """The first ``count`` RL steps."""
        for index in range(count):
            yield self._step(index)

    def _step(self, index: int) -> SimulatedStep:
        shares = self._workload.next(index)
        first = self._first(index)
        choices = self._choices(index, shares, first)
        pace = self._choice.pace(choices, first, self._given.prefill)
        fresh = 1 / self._config.algorithm.group_size
        decoded = decode(shares.remaining, np.where(shares.lengths > 0, shares.begun + round(self._given.prompt), 0), pace, fresh)
        end, generated, complete = self._ended(shares, decoded)
        decision = self._decision(index)
        found = tail(np.minimum(decoded.done, end), self._conditions(decision))
        self._workload.finished(*self._by_group(shares, generated, complete))
        accept_length, drafted = self._accept_length(choices, decoded, first)
        quality = self._learn(index, decision, found, generated, first, drafted)
        phases = self._phases(index, end, shares, generated, complete, pace)
        kept = int(generated[np.isin(shares.group, complete)].sum()) if shares.quota is not None else int(generated.sum())
        costs = (index + 1) % self._config.checkpoint.every == 0 or index + 1 == self._config.algorithm.steps
        return SimulatedStep(
            index,
            phases,
            self._given.phases.checkpoint if costs else 0.0,
            shares,
            generated,
            decoded,
            end,
            found,
            choices,
            self._choice.take_arms(),
            accept_length,
            first,
            quality,
            int(generated.sum()) - kept,
            None if found.trained else decision.reason if not decision.train else "the tail was too short to set training up",
        )

    def _first(self, index: int) -> float:
        """The probability that the drafter's first token is accepted."""
        if self._given.firsts:
            return self._given.firsts[index % len(self._given.firsts)]
        return self._quality.first(self._given.calibration.acceptance)

    def _choices(self, index: int, shares: Shares, first: float) -> list[Choice]:
        speculation = self._config.speculation
        if not speculation.enabled or self._cooldown.at(index):
            return self._choice.plain()
        learned = any(strategy.drafter == "eagle" for strategy in speculation.strategies)
        lengths = shares.lengths[shares.group >= 0].tolist()
        most = int((shares.group >= 0).sum(axis=1).max())
        return self._choice.tuned(first, learned, (index, self._quality.version), lengths, self._given.prompt, most)

    def _ended(self, shares: Shares, decoded: Decoded) -> tuple[float, Numbers, Numbers]:
        """When the rollout is over, the tokens [W, R] of each response then, and the groups to learn from."""
        if shares.quota is None:
            return float(decoded.done.max()), shares.lengths, np.unique(shares.group[shares.group >= 0])
        real = shares.group >= 0
        last = np.zeros(int(shares.group.max()) + 1)
        np.maximum.at(last, shares.group[real], decoded.seconds[real])
        end = float(np.sort(last[np.unique(shares.group[real])])[max(shares.quota, 1) - 1])
        generated = np.minimum(shares.begun + decoded.generated(end).astype(np.int64), shares.lengths)
        return end, generated, np.flatnonzero(last <= end)[: self._workload.wanted]

    def _by_group(self, shares: Shares, generated: Numbers, complete: Numbers) -> tuple[Numbers, np.ndarray]:
        """Tokens [G, M] of all members, and which groups [G] are complete."""
        real = shares.group >= 0
        tokens = np.zeros((int(shares.group.max()) + 1, self._config.algorithm.group_size), np.int64)
        tokens[shares.group[real], shares.member[real]] = generated[real]
        whole = np.zeros(len(tokens), np.bool_)
        whole[complete] = True
        return tokens, whole

    def _decision(self, index: int) -> TrainingDecision:
        spot = self._config.drafter.spot
        learned = any(strategy.drafter == "eagle" for strategy in self._config.speculation.strategies)
        if not (self._config.speculation.enabled and spot.enabled and learned):
            return TrainingDecision(False, "training is turned off (drafter.spot.enabled)")
        if self._cooldown.at(index):
            return TrainingDecision(False, f"speculation rests until step {self._cooldown.until}")
        return decide(self._history, index, spot.trigger)

    def _conditions(self, decision: TrainingDecision) -> RolloutState:
        spot = self._config.drafter.spot
        return RolloutState(spot.min_idle_workers if decision.train else self._given.workers + 1, WORTH * spot.first_set_up)

    def _accept_length(self, choices: Sequence[Choice], decoded: Decoded, first: float) -> tuple[float, float]:
        """Tokens of a speculative step, and the share of all tokens that were drafted."""
        acceptance = self._given.calibration.acceptance
        gained = np.diff(decoded.marks, axis=1, prepend=0.0) * decoded.running
        tokens = np.bincount(decoded.running.ravel(), gained.ravel(), minlength=self._slots + 1)
        steps = drafts = plain = 0.0
        for batch in np.flatnonzero(tokens).tolist():
            found = choices[batch].shares
            brought = {strategy: share * (1 + accepted_tokens(strategy, acceptance, first)) for strategy, share in found.items()}
            scale = tokens[batch] / sum(brought.values())
            plain += scale * brought.get(OFF, 0.0)
            steps += scale * sum(share for strategy, share in found.items() if strategy != OFF)
            drafts += scale * sum(tokens for strategy, tokens in brought.items() if strategy != OFF)
        return (drafts / steps if steps else 1.0), (drafts - steps) / max(plain + drafts, 1.0)

    def _learn(
        self, index: int, decision: TrainingDecision, found: Tail, generated: Numbers, first: float, drafted: float
    ) -> DrafterQuality:
        """What the drafter knows at the next step; and what decides when to train, and whether speculation rests."""
        spot, calibration = self._config.drafter.spot, self._given.calibration
        at_most = spot.passes * max(int(generated.sum()) // self._given.workers, spot.least_tokens)
        sessions = [max(0.0, seconds - spot.first_set_up) for seconds in found.trained.values()]
        seconds = sum(sessions) / max(len(sessions), 1)  # copies are averaged: each has learnt from its own share only
        tokens = min(at_most, seconds * self._given.phases.trained_tokens)
        better = self._quality.trained(tokens, calibration.learning)
        if self._config.speculation.enabled and not self._cooldown.at(index):
            self._history = rolled_out(self._history, MANY, round(MANY * first))
            self._cooldown = watched(self._cooldown, index, drafted, tokens > 0, self._config.speculation.rest)
        if decision.train and tokens > 0:
            gain = better.first(calibration.acceptance) - self._quality.first(calibration.acceptance)
            microsteps = ceil(tokens / spot.tokens_per_microbatch)
            self._history = trained(self._history, index, gain, microsteps, spot.trigger)
        self._quality = better.drifted(calibration.acceptance, calibration.learning)
        return better

    def _phases(self, index: int, end: float, shares: Shares, generated: Numbers, complete: Numbers, pace: Pace) -> dict[str, float]:
        costs, algorithm = self._given.phases, self._config.algorithm
        learned = generated[np.isin(shares.group, complete)]
        (read, read_pairs), (tokens, pairs) = (
            (float(lengths.sum()), float((lengths**2).sum()))
            for lengths in (chosen(self._config, learned) + self._given.prompt for chosen in (inferred, updated_with))
        )
        phases = {
            "rollout": end,
            "reward": costs.reward * len(learned),
            "inference": costs.inference * read + costs.inference_square * read_pairs,
            "update": costs.update * tokens + costs.update_square * pairs + costs.update_once,
            "sync": costs.sync,
        }
        evaluation, done = self._config.evaluation, index + 1
        if evaluation.every and (done % evaluation.every == 0 or done == algorithm.steps):
            phases["evaluation"] = self._evaluation(index, pace)
        return phases

    def _evaluation(self, index: int, pace: Pace) -> float:
        """Seconds of a rollout of the validation prompts, at the same pace."""
        evaluation, workers = self._config.evaluation, self._given.workers
        positions = np.arange(evaluation.prompts)
        lengths = self._given.lengths.draw(index, positions, evaluation.samples, self._config.rollout.max_new_tokens)
        rows = -(-evaluation.prompts // workers) * workers
        padded = np.zeros((rows, evaluation.samples), np.int64)
        padded[rows - len(lengths) :] = lengths
        shared = padded.reshape(-1, workers, evaluation.samples).transpose(1, 0, 2).reshape(workers, -1)
        known = np.where(shared > 0, round(self._given.prompt), 0)
        return float(decode(shared, known, pace, 1 / evaluation.samples).done.max())


def on_workers(config: RunConfig, workers: int) -> RunConfig:
    """The same run on so many workers, but no more than it has prompts."""
    return config.with_workers(min(workers, max(config.algorithm.prompts_per_step, 1)))


def scaled(costs: CostTable, factor: float) -> CostTable:
    """Every pass takes ``factor`` times as long."""
    grids = (replace(grid, seconds=(np.asarray(grid.seconds) * factor).tolist()) for grid in (costs.target, costs.draft))
    return CostTable(*grids)
