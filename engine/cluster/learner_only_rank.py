"""What a worker's GPUs do for its learner, all but the first: they hold shards or replicas, and have no engine and no drafter."""

from collections import deque
from pathlib import Path

from engine.cluster.learner_rank import LearnerRank
from engine.config import RunConfig
from engine.drafter.eagle3 import first_drafter
from engine.drafter.model_card import DrafterCard
from engine.models.weights import ends, gathered
from engine.rollout.interface import LoadedWeights
from engine.rollout.sglang.supported_speculation import trains_drafter
from engine.rollout.sglang.weight_transfer import on_device


class LearnerOnlyRank(LearnerRank):
    """Looks at all the weights that a ``Worker`` looks at, which may need this rank's shards of them."""

    def __init__(self, place: int, config: RunConfig, rendezvous: str) -> None:
        super().__init__(place, config, rendezvous)
        self._drafts = trains_drafter(config)
        if self._drafts:
            first_drafter(self._kind, self.policy.model)
        self._follow()
        self._load_target(0)

    def export(self, folder: Path, card: DrafterCard) -> list[Path]:  # noqa: ARG002
        """Helps to write the policy; returns nothing."""
        self.policy.export(None)
        return []

    def pretrain(self, *_: object) -> None:
        """Takes part in what the workers read: see ``Worker.pretrain``."""
        self.learner.features([], self._kind)

    def begin_pretraining(self, *_: object) -> None:
        """Takes part in what the drafter gets of the policy."""
        self._follow()

    def load_pretraining(self, *_: object) -> None:
        """As ``begin_pretraining``."""
        self._follow()

    def _loaded_weights(self) -> LoadedWeights | None:
        return None

    def _load_target(self, version: int) -> None:  # noqa: ARG002
        weights = self.policy.weights()
        if self._giving:
            deque(on_device(weights, self._dtype, self.device, self._giving), maxlen=0)
        elif self.policy.sharded:
            deque(gathered(weights, self._dtype), maxlen=0)

    def _follow(self) -> None:
        if self._drafts:
            ends(self.policy.model)
