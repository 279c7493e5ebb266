"""All workers of a run as Ray actors, and what the training loop asks of them."""

import json
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from engine.cluster.coordinator import State
from engine.cluster.placement import places
from engine.cluster.ray_session import lost, ray_session
from engine.cluster.tail import Rollout, Tail
from engine.cluster.trigger import Decision, History, decide, moved, rolled_out, trained
from engine.cluster.versions import DrafterVersions, Published, same
from engine.config import RunConfig
from engine.drafter.card import Card
from engine.errors import SyncError
from engine.policy.batch import Inferred, Row, balance
from engine.rollout.base import Completion, Request, Sampling

TRIGGER = "trigger.json"
WORTH = 2.0
"""Set-ups that a tail must be predicted to last for: then at least half of it is spent on training."""


@dataclass(frozen=True)
class Learning:
    """Global training metrics, and the slowest worker's seconds of the update."""

    metrics: dict[str, float]
    update_seconds: float


@contextmanager
def worker_group(config: RunConfig, checkpoints: Path) -> Iterator["WorkerGroup"]:
    """Starts Ray and the workers; both are gone after the block. ``checkpoints``: see ``Worker``."""
    with ray_session(config.cluster), tempfile.TemporaryDirectory(prefix="longtail-") as folder:
        yield WorkerGroup(config, f"file://{folder}/rendezvous", checkpoints.absolute())


class WorkerGroup:
    """A call returns when every worker has done its part."""

    def __init__(self, config: RunConfig, rendezvous: str, checkpoints: Path) -> None:
        import ray as untyped_ray  # late: ray reads the settings of ``ray_session`` when it is imported

        from engine.cluster.worker import Worker

        ray: Any = untyped_ray
        self._config = config
        self._ray = ray
        self._spot = config.drafter.spot
        actor = ray.remote(concurrency_groups={"control": 1})(Worker)
        options = places(config, ray)
        self._actors = [actor.options(**place).remote(rank, config, rendezvous, checkpoints) for rank, place in enumerate(options)]
        self._versions = DrafterVersions(self._all)
        self._history = History()
        self._set_up = self._spot.first_set_up
        self.facts: dict[str, str] = ray.get([actor.facts.remote() for actor in self._actors])[0]

    def rollout(
        self, step: int, requests: Sequence[Request], sampling: Sampling, on_share: Callable[[Sequence[Completion]], None]
    ) -> Rollout:
        """Generates all responses, each group on one worker; ``on_share`` sees a worker's when they are done. Idle workers train."""
        decision = self._decision(step)
        rollout = Tail(step, self._actors, self._conditions(decision)).run(self._shares(requests), sampling, on_share)
        if not decision.train:
            rollout = replace(rollout, untrained=decision.reason)
        statistics = rollout.statistics
        drafted, accepted = (sum(counts[:1]) for counts in (statistics.drafted_by_position, statistics.accepted_by_position))
        self._history = rolled_out(self._history, drafted, accepted)
        faded = 0.9 * self._set_up  # else one slow set-up could keep all later tails from being used
        self._set_up = max((session.set_up for session in rollout.sessions.values()), default=faded)
        return rollout

    def answer(self, requests: Sequence[Request], sampling: Sampling) -> list[Completion]:
        """Responses in the order of ``requests``, each group on one worker, outside of training: nothing of them is kept."""
        shares = zip(self._actors, self._shares(requests), strict=True)
        found = self._get([actor.answer.remote(share, sampling) for actor, share in shares])
        return sorted((completion for share in found for completion in share), key=lambda completion: completion.request.id)

    def infer(self, rows: Sequence[Row]) -> list[Inferred] | None:
        """What ``Learner.infer`` says of all rows, in their order; None if nobody needs it."""
        if not self._config.algorithm.needs_inference:
            return None
        parts = balance([len(row.tokens) for row in rows], len(self._actors))
        calls = [actor.infer.remote([rows[index] for index in part]) for actor, part in zip(self._actors, parts, strict=True)]
        shares = [dict(zip(part, share, strict=True)) for part, share in zip(parts, self._get(calls), strict=True)]
        found: dict[int, Inferred] = {index: inferred for share in shares for index, inferred in share.items()}
        return [found[index] for index in range(len(rows))]

    def learn(self, step: int, rows: Sequence[Row], inferred: Sequence[Inferred] | None) -> Learning:
        """Policy update, and the new weights into every engine. SyncError if the workers' weights come apart."""
        parts = balance([self._work(row) for row in rows], len(self._actors))
        calls = [
            actor.learn.remote([rows[index] for index in part], inferred and [inferred[index] for index in part], step)
            for actor, part in zip(self._actors, parts, strict=True)
        ]
        shares = self._get(calls)
        if len({share.checksum for share in shares}) > 1:
            raise SyncError(f"step {step}: the workers hold different policy weights after the update; resume from the last checkpoint")
        same([share.holding for share in shares])
        self._history = moved(self._history, shares[0].drift)
        metrics = shares[0].metrics | ({"target_drift": shares[0].drift} if self._config.speculation.enabled else {})
        return Learning(metrics, max(share.update_seconds for share in shares))

    def publish(self, step: int, rollout: Rollout) -> Published | None:
        """Settles which drafter all engines hold after ``step``; None if nothing was trained in its tail. See DrafterVersions."""
        published = self._versions.publish(rollout.sessions, rollout.statistics)
        if published and published.report.microsteps:
            gain = published.report.held_out_after - published.report.held_out_before
            self._history = trained(self._history, step, gain, self._spot.trigger)
        elif published:
            self._history = History()  # an older version is back: there is something to learn again
        return published

    def save(self, folder: Path) -> None:
        """Writes every worker's part of the resume unit, and what decides when to train, into ``folder``."""
        folder.mkdir()
        self._all("save", folder.absolute())
        (folder / TRIGGER).write_text(json.dumps(asdict(self._history)), encoding="utf-8")

    def load(self, folder: Path) -> None:
        """Every worker goes on from its part of ``folder``."""
        self._versions.resumed(max(self._all("load", folder.absolute())))
        path = folder / TRIGGER  # checkpoints of earlier versions have none
        self._history = History(**json.loads(path.read_text(encoding="utf-8"))) if path.exists() else History()

    def export(self, folder: Path, card: Card) -> list[Path]:
        """Writes the policy, and the drafter if there is one, as folders into ``folder``; returns those."""
        folders: list[Path] = self._get(self._actors[0].export.remote(folder.absolute(), card))
        return folders

    def _work(self, row: Row) -> int:
        """What learning from a row costs, in tokens."""
        return len(row.tokens) * row.teaches(self._config.algorithm.kl_in_loss)

    def _all(self, method: str, *arguments: Any, workers: Iterable[int] | None = None) -> list[Any]:
        chosen = range(len(self._actors)) if workers is None else workers
        results: list[Any] = self._get([getattr(self._actors[worker], method).remote(*arguments) for worker in chosen])
        return results

    def _get(self, references: Any) -> Any:
        with lost("outside a rollout"):
            return self._ray.get(references)

    def _decision(self, step: int) -> Decision:
        if not (self._config.speculation.enabled and self._spot.enabled):
            return Decision(False, "training is turned off (drafter.spot.enabled)")
        return decide(self._history, step, self._spot.trigger)

    def _conditions(self, decision: Decision) -> State:
        """When idle workers train: more of them than there are if nobody shall."""
        nobody = len(self._actors) + 1
        return State(self._spot.min_idle_workers if decision.train else nobody, WORTH * self._set_up)

    def _shares(self, requests: Sequence[Request]) -> list[list[Request]]:
        groups = sorted({request.group for request in requests})
        owner = {group: index % len(self._actors) for index, group in enumerate(groups)}
        return [[request for request in requests if owner[request.group] == rank] for rank in range(len(self._actors))]
