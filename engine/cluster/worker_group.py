"""All workers of a run as Ray actors, and what the training loop asks of them."""

import json
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from engine.checkpoint import storage
from engine.cluster.distributed_inference import DistributedInference
from engine.cluster.distributed_rollout.coordinator import RolloutState
from engine.cluster.distributed_rollout.driver import Rollout, RolloutDriver
from engine.cluster.distributed_rollout.request_assignment import assign_requests
from engine.cluster.late_actor import LateActor, LateHandle
from engine.cluster.placement import places
from engine.cluster.ray_session import lost, ray_session, results, said
from engine.cluster.rendezvous import meeting_point
from engine.cluster.shares import LearnShare
from engine.cluster.spot_training.drafter_versions import DrafterVersions, Published, same
from engine.cluster.spot_training.session_value import ASSUMED_SLOWDOWN, SessionValue
from engine.cluster.spot_training.set_up import WORTH, expected_set_up
from engine.cluster.spot_training.untrained_reasons import TOO_LATE
from engine.cluster.spot_training.when_to_train import TrainingDecision, TrainingHistory, decide, moved, rolled_out, trained
from engine.config import RunConfig
from engine.drafter.held_out_evaluation import Judged
from engine.drafter.model_card import DrafterCard
from engine.errors import AttemptError, ConfigError, LongtailError, SyncError
from engine.experience.scheduling_marks import marks
from engine.experience.scheduling_state import SchedulingState
from engine.models.folder import locate, read_facts
from engine.policy.training.row_shares import row_shares
from engine.policy.training.training_row import Inferred, TrainingRow
from engine.pretraining.frequent_tokens import frequent_tokens
from engine.pretraining.pretraining_round import PretrainingRound
from engine.pretraining.schedule import PretrainingSchedule
from engine.rollout.interface import Alarm, Answers, Completion, Request, Sampling
from engine.rollout.sglang import untried_families
from engine.speculation.cooldown import Cooldown, watched

WORKER = ("engine.cluster.worker", "Worker")
ASYNCHRONOUS_WORKER = ("engine.cluster.asynchronous_worker", "AsynchronousWorker")
LEARNER_ONLY = ("engine.cluster.learner_only_rank", "LearnerOnlyRank")
TRIGGER = "trigger.json"
COOLDOWN = "rest.json"
VERSIONS = "versions.json"
VALUE, SET_UP = "session_value.json", "set_up"
SCHEDULE = "schedule.json"


@dataclass(frozen=True)
class Learning:
    """Global training metrics, those of the weight sync included, and the slowest worker's seconds of the update."""

    metrics: dict[str, float]
    update_seconds: float


@contextmanager
def worker_group(
    config: RunConfig, checkpoints: Path, resumes: bool, on_device: Callable[[str], None] = lambda _: None
) -> Iterator["WorkerGroup"]:
    """Starts Ray and the workers; both are gone after the block. ``checkpoints``: see ``Worker``. A cluster that is not there, or has no
    room, is a ConfigError; a run that ``resumes`` has begun in it and only has to wait until it is back. ``on_device``: see WorkerGroup."""
    unfit = AttemptError if config.cluster.ray_address and resumes else ConfigError
    with ray_session(config.cluster, config.rollout.gpus, unfit), tempfile.TemporaryDirectory(prefix="longtail-") as folder:
        yield WorkerGroup(config, Path(folder), checkpoints.absolute(), unfit, on_device)


class WorkerGroup:
    """A call returns when every worker has done its part, and where the policy is concerned every rank of the learner. ``schedule`` is
    what one step hands on to the next. While ``on_responses`` is set, it hears now and then how many responses of a rollout are there."""

    def __init__(
        self, config: RunConfig, folder: Path, checkpoints: Path, unfit: type[LongtailError], on_device: Callable[[str], None]
    ) -> None:
        """``folder`` is a temporary one of this machine; ``checkpoints``: see ``Worker``; ``unfit``: see ``places``. ``on_device`` hears
        what the workers will be on, cuda or cpu, once a cluster that is there already has room for them: they may take minutes."""
        import ray as untyped_ray  # late: ray reads the settings of ``ray_session`` when it is imported

        ray: Any = untyped_ray
        options, joins = places(config, ray, unfit), config.cluster.ray_address is not None
        if joins:
            on_device("cuda" if options[0]["num_gpus"] else "cpu")
        config = self._config = config.with_workers(len(options))
        rendezvous = meeting_point(ray, options[0], joins, folder)
        self._ray = ray
        self._family = read_facts(locate(config.model.path)).family
        self._spot = config.drafter.spot
        actor = ray.remote(concurrency_groups={"control": 1, "checkpoint": 1})(LateActor)
        kind = ASYNCHRONOUS_WORKER if config.rollout.scheduling.asynchronous else WORKER
        self._actors: list[Any] = []
        self._ranks: list[Any] = []
        for number, place in enumerate(options):
            others = range(len(self._ranks) + 1, len(self._ranks) + config.rollout.gpus)
            worker = LateHandle(actor.options(**place).remote(*kind, number, config, rendezvous, checkpoints))
            self._actors.append(worker)
            ranks = [actor.options(**place).remote(*LEARNER_ONLY, rank, config, rendezvous) for rank in others]
            self._ranks += [worker, *map(LateHandle, ranks)]
        self._inference = DistributedInference(config, self._ranks, ray, self._get)
        self._versions = DrafterVersions(self._all, ray.put)
        self._history = TrainingHistory()
        self._cooldown = Cooldown()
        self.schedule = SchedulingState(config)
        self._set_up = self._spot.first_set_up
        self._failing: set[tuple[int, str]] = set()
        self._staged: dict[str, dict[str, Any]] = {}
        self.on_responses: Callable[[int], None] | None = None
        facts: list[dict[str, str]] = self._all("facts")
        self.facts = facts[0]
        self.vocabulary = int(facts[0]["vocabulary"])
        self._value = SessionValue(ASSUMED_SLOWDOWN if self.facts["device"] == "cpu" else 1.0)
        types = sorted({each["dtype"] for each in facts})
        if len(types) > 1:
            raise ConfigError(f"model.dtype: auto is {' and '.join(types)} on these workers' processors, which differ: set one of them")
        self._every("freeze")

    def measure_costs(self) -> None:
        """Every worker's engine knows from then on what its passes cost on this machine."""
        self._all("measure_costs")

    def rollout(
        self,
        step: int,
        requests: Sequence[Request],
        sampling: Sampling,
        on_share: Callable[[Sequence[Completion]], None],
        expected: Sequence[float] | None = None,
        quota: int | None = None,
        ahead: Sequence[Request] = (),
    ) -> Rollout:
        """Generates all responses, each group on one worker; ``on_share`` sees a worker's when they are done. Idle workers train.

        ``expected``: tokens that each request is predicted to need (see ``assign_requests``); ``quota``: groups after which all others are
        aborted; ``ahead``: those of later steps, which the workers go on with until the next ``learn`` hands them to ``schedule`` as far
        as they are. Of ``expected`` they come last.
        """
        decision = self._decision(step)
        shares = assign_requests([*requests, *ahead], len(self._actors), expected, {request.group for request in ahead})
        later = {request.id for request in ahead}
        first, more = ([[each for each in share if (each.id in later) is last] for share in shares] for last in (False, True))
        watch = not self._cooldown.at(step)
        asynchronous = self._config.rollout.scheduling.asynchronous
        infer = self._inference.begin if self._inference.early and quota is None and not asynchronous else None
        driver = RolloutDriver(step, self._actors, self._conditions(decision), quota, watch, self._failing, self.on_responses, infer)
        rollout = driver.run(first, sampling, on_share, more if asynchronous else ())
        rollout = replace(rollout, drafter_gain=self._versions.gain, untrained=rollout.untrained if decision.train else decision.reason)
        statistics = rollout.statistics
        predicted = dict(zip((request.id for request in (*requests, *ahead)), expected or (), strict=False))
        statistics.marks = marks(shares, rollout.completions, predicted, statistics.moments)
        self._history = rolled_out(self._history, *statistics.learned_first_drafts())
        waited, trained_for = rollout.stopped - rollout.ended, rollout.longest("TRAINING")
        self._value.rolled_out(step, statistics.decode_seconds.values(), statistics.paces, trained_for, waited)
        if self._config.speculation.enabled and self._cooldown.tells(step, asynchronous):
            rollout = self._looked(step, rollout)
        measured = [session.set_up for session in rollout.sessions.values()]
        vain = trained_for if rollout.untrained == TOO_LATE else 0.0
        self._set_up = expected_set_up(self._set_up, measured, vain, decision.train and not trained_for)
        return rollout

    def answer(self, requests: Sequence[Request], sampling: Sampling) -> Answers:
        """Responses in the order of ``requests``, each group on one worker, outside of training: nothing of them is kept. For alarms there
        is ``heed``."""
        parts = zip(self._actors, assign_requests(requests, len(self._actors)), strict=True)
        found: list[Answers] = self._get([actor.answer.remote(part, sampling) for actor, part in parts])
        completions = (completion for share in found for completion in share.completions)
        alarms = [alarm for share in found for alarm in share.alarms]
        return Answers(sorted(completions, key=lambda completion: completion.request.id), alarms)

    def heed(self, alarms: Sequence[Alarm]) -> Published | None:
        """Brings the last good drafter back if ``alarms`` of answers say that the present one is broken; see DrafterVersions."""
        rolled_back = self._versions.heed(alarms)
        if rolled_back:
            self._history = TrainingHistory()
        return rolled_back

    def infer(self, rows: Sequence[TrainingRow], requests: Sequence[Request]) -> list[Inferred] | None:
        """See ``DistributedInference.finish``."""
        return self._inference.finish(rows, requests)

    def learn(self, step: int, rows: Sequence[TrainingRow], inferred: Sequence[Inferred] | None) -> Learning:
        """Policy update, and the new weights into every engine. SyncError if the ranks' weights come apart; ConfigError if
        training has diverged; ModelError if the engine is found to compute another model."""
        taught = {index for index, row in enumerate(rows) if row.teaches(self._config.algorithm.kl_in_loss)}
        parts = row_shares(rows, len(self._ranks), taught, shared=self._config.cluster.learner.packed is not False)
        calls = [
            actor.learn.remote([rows[index] for index in part], inferred and [inferred[index] for index in part], step)
            for actor, part in zip(self._ranks, parts, strict=True)
        ]
        shares: list[LearnShare] = self._get(calls)
        synced = [share for share in shares if share.loaded_weights]
        if len({share.checksum for share in shares}) > 1:
            raise SyncError(f"step {step}: the ranks hold different policy weights after the update; resume from the last checkpoint")
        same([share.loaded_weights for share in synced if share.loaded_weights])
        untried_families.check_law(self._config, self._family, shares[0].metrics)
        self._history = moved(self._history, shares[0].drift)
        metrics = shares[0].metrics | ({"target_drift": shares[0].drift} if self._config.speculation.enabled else {})
        metrics["sync_seconds"] = max(share.sync_seconds for share in synced)
        metrics["sync_bytes"] = float(sum(share.sync_bytes for share in synced))
        if interrupted := [share.interrupted for share in shares if share.interrupted]:
            self.schedule.backlog.update([completion for each in interrupted for completion in each.completions])
            metrics["carried_responses"] = float(self.schedule.backlog.begun)
            metrics["discarded_tokens"] = float(sum(each.discarded_tokens for each in interrupted))
        return Learning(metrics, max(share.update_seconds for share in shares))

    def publish(self, step: int, rollout: Rollout) -> Published | None:
        """Settles which drafter all engines hold after ``step``; None if nothing was trained in its tail. See DrafterVersions."""
        began = time.monotonic()
        published = self._versions.publish(rollout.sessions, rollout.statistics)
        if published and published.report.microsteps:
            report = published.report
            published = replace(published, cost=self._value.trained(published.gain, time.monotonic() - began))
            self._history = trained(self._history, step, report.gain, report.microsteps, self._spot.trigger)
        elif published:
            self._history = TrainingHistory()  # an older version is back: there is something to learn again
        return published

    def pretrain(
        self, number: int, requests: Sequence[Request], sampling: Sampling, schedule: PretrainingSchedule | None, seconds: float
    ) -> list[PretrainingRound]:
        """A round of the drafter's pretraining on every worker: see ``Worker.pretrain``."""
        parts = dict(zip(self._actors, assign_requests(requests, len(self._actors)), strict=True))
        calls = [rank.pretrain.remote(number, parts.get(rank, []), sampling, schedule, seconds) for rank in self._ranks]
        return [share for share in self._get(calls) if share is not None]

    def begin_pretraining(self, expected: Counter[int]) -> tuple[int, ...] | None:
        """The drafter's vocabulary is chosen from what all workers wrote, and tokens that are ``expected``; None for all tokens."""
        counts = sum(self._all("token_counts"), expected)
        chosen = frequent_tokens(counts, self.vocabulary, self._config.drafter.draft_vocabulary)
        vocabulary: tuple[int, ...] | None = self._every("begin_pretraining", chosen)[0]
        return vocabulary

    def average_pretrained(self, microsteps: Sequence[int]) -> None:
        """All copies are their average, by their numbers of micro-steps; no version is published."""
        self._versions.blend(microsteps)

    def publish_pretrained(self, microsteps: Sequence[int]) -> tuple[int, Judged]:
        """The average of all copies is the next version of every engine; it, and how it does on held-out responses."""
        return self._versions.average(microsteps)

    def end_pretraining(self) -> None:
        self._all("end_pretraining")

    def write_pretraining(self, folder: Path) -> None:
        """Writes what a pretraining goes on from into ``folder``."""
        folder.mkdir()
        self._all("write_pretraining", folder.absolute())

    def load_pretraining(self, folder: Path, vocabulary: Sequence[int] | None, version: int) -> None:
        """Goes on from ``folder``; ``version`` is the drafter's."""
        self._every("load_pretraining", folder.absolute(), vocabulary, version)
        self._versions.resumed(version, version - 1)

    def usage(self) -> dict[str, float]:
        """How busy the machines were since the last call, as metrics: system/HOST/cpu_percent and so on."""
        return {f"system/{host}/{name}": value for host, figures in self._every("usage") for name, value in figures.items()}

    def stage(self) -> None:
        """Copies every rank's part of the resume unit, what decides when to train, and the schedule, for ``write``."""
        self._every("stage")
        own = {TRIGGER: asdict(self._history), COOLDOWN: asdict(self._cooldown), VERSIONS: self._versions.state()}
        self._staged = own | {VALUE: self._value.state() | {SET_UP: self._set_up}, SCHEDULE: self.schedule.state()}

    def write(self, folder: Path) -> None:
        """Writes what was staged into ``folder``. Called from another thread, while the workers may be at the next step."""
        folder.mkdir()
        for name, state in self._staged.items():
            try:
                (folder / name).write_text(json.dumps(state), encoding="utf-8")
            except OSError as error:
                raise storage.unwritten(folder / name, error) from None
        calls = [actor.write.options(concurrency_group="checkpoint").remote(folder.absolute()) for actor in self._ranks]
        self._get(calls)

    def load(self, folder: Path) -> None:
        """Every rank goes on from its part of ``folder``."""
        version = max(self._every("load", folder.absolute()))
        found = {name: storage.read(folder / name) for name in (TRIGGER, COOLDOWN, VERSIONS, VALUE, SCHEDULE) if (folder / name).exists()}
        # Checkpoints of earlier versions have not all of them.
        self._versions.resumed(version, **found.get(VERSIONS, {}))
        self._history = TrainingHistory(**found.get(TRIGGER, {}))
        self._cooldown = Cooldown(**found.get(COOLDOWN, {}))
        if VALUE in found:
            self._value.load_state(found[VALUE])
            self._set_up = found[VALUE].get(SET_UP, self._set_up)
        if SCHEDULE in found:
            self.schedule.load_state(found[SCHEDULE])

    def export(self, folder: Path, card: DrafterCard) -> list[Path]:
        """Writes the policy, and the drafter if there is one, as folders into ``folder``; returns those."""
        folders: list[Path] = self._every("export", folder.absolute(), card)[0]
        return folders

    def _all(self, method: str, *arguments: Any, workers: Iterable[int] | None = None) -> list[Any]:
        chosen = range(len(self._actors)) if workers is None else workers
        return self._get([getattr(self._actors[worker], method).remote(*arguments) for worker in chosen])

    def _every(self, method: str, *arguments: Any) -> list[Any]:
        """Of all ranks, workers or not."""
        return self._get([getattr(rank, method).remote(*arguments) for rank in self._ranks])

    def _get(self, references: Sequence[Any]) -> list[Any]:
        with said(), lost("outside a rollout"):
            return results(self._ray, references)

    def _decision(self, step: int) -> TrainingDecision:
        if not (self._config.speculation.enabled and self._spot.enabled):
            return TrainingDecision(False, "training is turned off (drafter.spot.enabled)")
        if self._cooldown.at(step):
            return TrainingDecision(False, f"speculation rests until step {self._cooldown.until}")
        if self._cooldown.looks and self._config.drafter.path is not None and self._history.last is None:
            return TrainingDecision(False, "the drafter was not used lately, and no tail before was long enough to train it")
        return decide(self._history, step, self._spot.trigger, self._value, self._config.algorithm.steps - 1 - step)

    def _looked(self, step: int, rollout: Rollout) -> Rollout:
        """``rollout``, with a notice if speculation did so little in it that it rests now."""
        counts, steps = rollout.statistics, self._config.speculation.rest
        share = (counts.speculative_tokens - counts.speculative_requests) / counts.tokens if counts.tokens else None
        self._cooldown = watched(self._cooldown, step, share, bool(rollout.sessions), steps)
        if not self._cooldown.at(step + 1):
            return rollout
        return replace(rollout, notice=f"speculation did nothing for the last rollouts: it rests for {steps} steps (speculation.rest)")

    def _conditions(self, decision: TrainingDecision) -> RolloutState:
        """When idle workers train: more of them than there are if nobody shall."""
        nobody = len(self._actors) + 1
        return RolloutState(self._spot.min_idle_workers if decision.train else nobody, WORTH * self._set_up)
