"""All workers of a run as Ray actors, and what the training loop asks of them."""

import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from torch import Tensor

from engine.cluster.ray_session import ray_session
from engine.cluster.tail import Rollout, Tail
from engine.config import RunConfig
from engine.drafter.export import Card
from engine.drafter.trainer import TrainingReport, merge
from engine.policy.batch import Row, balance
from engine.rollout.base import Completion, Request, Sampling


@dataclass(frozen=True)
class Learning:
    """Global training metrics, and the slowest worker's seconds of inference and update."""

    metrics: dict[str, float]
    inference_seconds: float
    update_seconds: float


@dataclass(frozen=True)
class Published:
    """What became of the drafter that was trained in a rollout's tail; ``version`` is the one that all engines hold now."""

    version: int
    accepted: bool
    reason: str
    report: TrainingReport


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
        self._get = ray.get
        actor = ray.remote(concurrency_groups={"control": 1})(Worker)
        gpus = 1 if config.cluster.device != "cpu" and ray.cluster_resources().get("GPU") else 0
        options = actor.options(num_cpus=config.cluster.threads_per_worker, num_gpus=gpus)
        self._actors = [options.remote(rank, config, rendezvous, checkpoints) for rank in range(config.cluster.workers)]
        self._drafter_version = 0
        self.facts: dict[str, str] = self._all("facts")[0]

    def rollout(
        self, step: int, requests: Sequence[Request], sampling: Sampling, on_share: Callable[[Sequence[Completion]], None]
    ) -> Rollout:
        """Generates all responses, each group on one worker; ``on_share`` sees a worker's when they are done. Idle workers train."""
        tail = Tail(step, self._actors, self._idle_workers_to_train())
        return tail.run(self._shares(requests), sampling, on_share)

    def learn(self, step: int, rows: Sequence[Row]) -> Learning:
        """Inference, policy update, and the new weights into every engine. RuntimeError if the workers' weights come apart."""
        parts = balance([self._work(row) for row in rows], len(self._actors))
        calls = [actor.learn.remote([rows[index] for index in part], step) for actor, part in zip(self._actors, parts, strict=True)]
        shares = self._get(calls)
        if len({share.checksum for share in shares}) > 1:
            raise RuntimeError(f"step {step}: the workers hold different policy weights after the update")
        slowest = max(shares, key=lambda share: share.inference_seconds + share.update_seconds)
        return Learning(shares[0].metrics, slowest.inference_seconds, slowest.update_seconds)

    def publish(self, rollout: Rollout) -> Published | None:
        """Loads what was trained in the tail into every engine if it is better on held-out responses; None if nothing was trained."""
        reports = {worker: report for worker, report in rollout.reports.items() if report.microsteps}
        if not reports:
            return None
        report = _total(list(reports.values()))
        accepted = report.held_out_after > report.held_out_before
        weights: dict[str, Tensor] | None = None
        if accepted:
            self._drafter_version += 1
            trained = self._get([self._actors[worker].drafter_weights.remote() for worker in reports])
            weights = merge([(one, report.microsteps) for one, report in zip(trained, reports.values(), strict=True)])
        self._all("publish", weights, self._drafter_version)
        reason = f"held-out agreement {report.held_out_before:.3f} -> {report.held_out_after:.3f}"
        return Published(self._drafter_version, accepted, reason, report)

    def save(self, folder: Path) -> None:
        """Writes every worker's part of the resume unit into ``folder``."""
        folder.mkdir()
        self._all("save", folder.absolute())

    def load(self, folder: Path) -> None:
        """Every worker goes on from its part of ``folder``."""
        self._drafter_version = max(self._all("load", folder.absolute()))

    def export(self, folder: Path, card: Card) -> list[Path]:
        """Writes the policy, and the drafter if there is one, as folders into ``folder``; returns those."""
        folders: list[Path] = self._get(self._actors[0].export.remote(folder.absolute(), card))
        return folders

    def _work(self, row: Row) -> int:
        """What learning from a row costs, in tokens of a forward pass; a backward pass costs two of these."""
        algorithm = self._config.algorithm
        return len(row.tokens) * (algorithm.needs_inference + 3 * row.teaches(algorithm.kl_coefficient > 0))

    def _all(self, method: str, *arguments: Any) -> list[Any]:
        results: list[Any] = self._get([getattr(actor, method).remote(*arguments) for actor in self._actors])
        return results

    def _idle_workers_to_train(self) -> int:
        """More than there are if nobody shall train."""
        spot = self._config.drafter.spot
        return spot.min_idle_workers if self._config.speculation.enabled and spot.enabled else len(self._actors) + 1

    def _shares(self, requests: Sequence[Request]) -> list[list[Request]]:
        groups = sorted({request.group for request in requests})
        owner = {group: index % len(self._actors) for index, group in enumerate(groups)}
        return [[request for request in requests if owner[request.group] == rank] for rank in range(len(self._actors))]


def _total(reports: Sequence[TrainingReport]) -> TrainingReport:
    """Sums of steps and tokens; means, weighted by micro-steps, of the rest."""
    steps = sum(report.microsteps for report in reports)

    def mean(field: str) -> float:
        return float(sum(getattr(report, field) * report.microsteps for report in reports) / steps)

    tokens = sum(report.tokens for report in reports)
    return TrainingReport(steps, tokens, mean("loss"), mean("held_out_before"), mean("held_out_after"), mean("mix_distance"))
