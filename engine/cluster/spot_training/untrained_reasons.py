"""Why a step's idle workers did not train the drafter, for users. Pure."""

from collections.abc import Sequence
from math import inf
from typing import Literal

from engine.cluster.distributed_rollout.coordinator import Phase, RolloutState

Refusal = Literal["no data", "too late", "failed"]
"""A worker's answer when it was told to train: there is nothing to train on, the rollout was over too soon, or an error."""

TOO_LATE = "the tail was over before training had brought anything"
WORDS: dict[Refusal, str] = {
    "no data": "no data left: every response was trained on as often as it may be",
    "too late": TOO_LATE,
    "failed": "training failed, as an alarm says",
}


def untrained_reason(state: RolloutState, refusals: Sequence[Refusal]) -> str:
    """``state`` at the end of a rollout in which idle workers were to train and none did; ``refusals`` of those that were told to."""
    if refusals:
        return WORDS[refusals[0]]
    waited = {span.worker for span in state.spans if span.activity == "IDLE"}
    if not waited:
        return "no worker was idle"
    if len(waited) < state.min_idle_workers:
        return f"{len(waited)} of {state.min_idle_workers} workers that must be idle were so"
    if any(worker.phase is Phase.STOPPED for worker in state.workers.values()):
        return TOO_LATE
    if all(worker.ends == -inf for worker in state.workers.values()):
        return "nobody could say how long the tail would last"
    return "the tail was predicted too short to set training up"
