"""What to change in the configuration first: each change is simulated, and ranked by the seconds of a step that it saves."""

from dataclasses import dataclass
from typing import Any

from engine.errors import ConfigError
from engine.planner.answers.arms import CHANGES, PLAIN, arm, changed
from engine.planner.answers.basis import Basis

LEAST = 0.01
"""Share of a step that a change must save to be worth a word."""


@dataclass(frozen=True)
class Advice:
    """``changes`` are fields of the configuration; ``price`` says what else they change."""

    changes: dict[str, Any]
    saved: float
    share: float
    price: str


def advice(basis: Basis) -> list[Advice]:
    """The best first; nothing that saves less than LEAST."""
    now = arm(basis).step_seconds
    found = []
    for changes, price in _candidates(basis):
        try:
            config = changed(basis.config, changes)
        except ConfigError:  # it does not go together with something else
            continue
        saved = now - arm(basis.with_config(config)).step_seconds
        if saved > LEAST * now:
            found.append(Advice(changes, saved, saved / now, price))
    return sorted(found, key=lambda each: -each.saved)


def _room(basis: Basis, slots: int) -> bool:
    """Whether the cache holds so many requests of a worker at their longest."""
    rollout = basis.config.rollout
    return basis.memory is None or basis.memory.cache >= slots * (rollout.max_prompt_tokens + rollout.max_new_tokens)


def _candidates(basis: Basis) -> list[tuple[dict[str, Any], str]]:
    config = basis.config
    speculation, rollout, algorithm, learner = config.speculation, config.rollout, config.algorithm, config.cluster.learner
    slots = rollout.max_batch
    cut = "long responses are cut, and teach nothing" if algorithm.mask_truncated else "long responses are cut"
    partial = {"over_sampling": 1.5, "partial": True}
    without = PLAIN if config.drafter.pretrain_minutes else {"speculation": {"enabled": False}}
    return [
        (without if speculation.enabled else CHANGES["TLT"], "responses stay the same"),
        ({"speculation": {"threshold": 2 * speculation.threshold}}, "responses stay the same"),
        ({"speculation": {"threshold": max(1, speculation.threshold // 2)}}, "responses stay the same"),
        ({"drafter": {"spot": {"enabled": not config.drafter.spot.enabled}}}, "responses stay the same"),
        ({"rollout": {"scheduling": {"longest_first": True}}}, "responses stay the same"),
        ({"rollout": {"scheduling": partial}, "algorithm": {"rollout_correction": 2.0}}, "some tokens are those of older policies"),
        ({"rollout": {"max_batch": 2 * slots}} if _room(basis, 2 * slots) else {}, "the cache takes twice the memory"),
        ({"rollout": {"max_new_tokens": max(1, rollout.max_new_tokens // 2)}}, cut),
        ({"algorithm": {"kl_coefficient": 0.0}} if algorithm.kl_coefficient else {}, "nothing holds the policy near its start"),
        ({"cluster": {"learner": {"activation_checkpointing": False}}} if learner.activation_checkpointing else {}, "more memory"),
        ({"evaluation": {"every": 2 * config.evaluation.every}}, "half as many evaluations"),
        ({"checkpoint": {"every": 4 * config.checkpoint.every}}, "a lost attempt repeats more steps"),
    ]
