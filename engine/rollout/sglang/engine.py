"""The SGLang rollout engine: an SGLang of its own in processes of its own, behind the contract of every engine."""

import contextlib
from collections import deque
from collections.abc import Callable, Collection, Mapping, Sequence, Set
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from safetensors.torch import save_file
from torch import Tensor
from torch.distributed.tensor import DTensor
from transformers import PretrainedConfig

from engine.config import RolloutConfig, SpeculationConfig
from engine.drafter.export import write_drafter_folder, write_serving_folder
from engine.drafter.kind import DrafterKind
from engine.drafter.layout import BIAS, IN_CONFIG
from engine.drafter.model_card import DrafterCard
from engine.drafter.vocabulary import D2T
from engine.errors import ModelError, SyncError, WorkerLostError
from engine.events import ArmStatistics
from engine.own_folders import new_folder, sweep
from engine.rollout.decoding_timeline import DecodingTimeline, Moment
from engine.rollout.interface import (
    Completion,
    GenerationProgress,
    KeepFeatures,
    LoadedWeights,
    Request,
    RolloutStatistics,
    Sampling,
    longest_prompt,
)
from engine.rollout.response import Response, StopCondition
from engine.rollout.sglang import supported_drafters, untried_families
from engine.rollout.sglang.arguments import attention_head, draft_arguments, engine_arguments, environment
from engine.rollout.sglang.generation import Generation
from engine.rollout.sglang.host_process import PREFIX, HostLostError, HostProcess
from engine.rollout.sglang.host_settings import HostSettings
from engine.rollout.sglang.messages import Pause, Stop
from engine.rollout.sglang.supported_speculation import drafting, supported, widest
from engine.rollout.sglang.tuner_state import RemoteTunerState
from engine.rollout.sglang.weight_transfer import on_device, through
from engine.speculation.remaining_length import RemainingLengthPredictor
from engine.speculation.step_pace import Neighbours
from engine.speculation.strategy import OFF

ATTEMPTS = 3
"""Times that SGLang may die in one generation without a response finished in between."""
Weights = Mapping[str, Tensor]


class SGLangEngine:
    """A RolloutEngine. Without ``speculation`` SGLang has no drafter; with it, the learned drafter drafts (see ``supported``), or what
    ``drafting`` says in its place, whose drafts are told of as the learned drafter's.

    Log-probs are of the law at the sampling temperature before top-p, top-k and min-p, as the learner's are. A seed gives each request
    noise of its own; with speculation the response also depends on the shapes of its drafts, which are chosen by measured times. If
    SGLang dies, another is started with the current weights, which are the caller's tensors: they must stay as they are until the next
    load.
    """

    def __init__(
        self,
        model: Path,
        config: PretrainedConfig,
        target_weights: Weights,
        *,
        rollout: RolloutConfig,
        speculation: SpeculationConfig | None,
        end_tokens: Set[int],
        device: torch.device,
        drafter_weights: Weights | None = None,
        dtype: torch.dtype = torch.float32,
        seed: int = 0,
        decode: Callable[[list[int]], str] | None = None,
        drafter_kind: DrafterKind = "eagle",
        ranks: dist.ProcessGroup | None = None,
    ) -> None:
        """``model`` is the folder that SGLang starts from, of the same architecture as ``config``. ``ranks``: this process and those that
        have the target on the other GPUs of SGLang, in SGLang's order; each goes through ``on_device`` whenever the target is loaded, here
        at once. An SGLang that is started anew in between has it from this one alone. ConfigError or ModelError if it does not start."""
        self._host: HostProcess | None = None
        self._model, self._config, self._rollout = model, config, rollout
        self._drafting = drafting(speculation, rollout.sglang) if speculation else None
        if (self._drafting == "eagle" and drafter_weights is None) or (speculation is None and drafter_weights is not None):
            raise ModelError("the SGLang engine needs weights of a drafter for speculation, and for that only")
        self._speculation = supported(speculation, self._drafting) if speculation and self._drafting else None
        self._end_tokens, self._decode_tokens = end_tokens, decode
        self._device, self._dtype, self._seed, self._kind = device, dtype, seed, drafter_kind
        self._ranks, self._all_give = ranks, ranks is not None
        self._learns = True
        self._target: tuple[Weights, int] = (target_weights, 0)
        self._drafter: tuple[Weights, int] | None = (drafter_weights, 0) if drafter_weights is not None else None
        if drafter_weights is not None and self._drafting == "eagle":
            supported_drafters.check(drafter_weights, rollout.sglang.tensor_parallel)
        self._lengths = RemainingLengthPredictor()
        self._generation: Generation | None = None
        self._still = False
        self._statistics, self._timeline = RolloutStatistics(), DecodingTimeline()
        self._decoded = 0  # tokens since the last statistics, without those that prompts gave
        self.speculator = RemoteTunerState(lambda: self.host) if self._drafting not in (None, "ngram") else None
        sweep(PREFIX)
        self._start()

    @property
    def host(self) -> HostProcess:
        """The running one; another one is started if it is gone."""
        if self._host is None:
            self._start()
        assert self._host is not None
        return self._host

    def generate(
        self,
        requests: Sequence[Request],
        sampling: Sampling,
        on_finish: Callable[[Completion], None] | None = None,
        keep: KeepFeatures | None = None,  # noqa: ARG002
    ) -> list[Completion]:
        """See RolloutEngine. DataError, before anything is generated, if a prompt is empty or too long. ``keep`` gets nothing: SGLang gives
        hidden states as lists of numbers only. The learner's passes show them, see ``Learner.capture``."""
        longest_prompt(requests, self._rollout.max_prompt_tokens)
        ends = StopCondition(self._end_tokens, sampling.stop, self._decode_tokens)
        if self._learns:
            self._lengths.new_step()
        done: dict[int, Completion] = {}

        def ended(response: Response) -> None:
            completion = done[response.id] = response.completion(self._target[1], self._drafter[1] if self._drafter else 0)
            self._count(len(requests) - len(done))
            if completion.finish == "abort":
                return
            if self._learns:
                self._lengths.finished(response.group, response.generated)
            if on_finish:
                on_finish(completion)

        self._count(len(requests))
        attempts = 0
        while len(done) < len(requests):
            before = len(done)
            left = [request for request in requests if request.id not in done]
            generation = self._generation = Generation(left, sampling, ends, self._end_tokens, ended)
            try:
                if self._speculation:
                    self.host.plugin("begin", limit=sampling.max_new_tokens, learn=self._learns)
                generation.run(self.host)
            except HostLostError as error:
                attempts = 1 if len(done) > before else attempts + 1
                self._lost(error, attempts)
                generation.give_up()  # also what was to be aborted meanwhile
        self._generation = None
        completions = [done[request.id] for request in requests]
        tokens = sum(completion.fresh for completion in completions)
        self._statistics.tokens += tokens
        self._decoded += tokens - sum(completion.fresh > 0 for completion in completions)
        return completions

    def abort(self, requests: Collection[int] | None = None) -> None:
        """See RolloutEngine."""
        generation = self._generation
        for key in generation.unwanted(requests) if generation else ():
            self._tell_host(Stop(key))

    def pause(self, still: bool = True) -> None:
        self._still = still
        self._tell_host(Pause(still))

    def proceed(self) -> None:
        self.pause(False)

    def load_target(self, weights: Weights, version: int) -> None:
        """See RolloutEngine. SyncError if SGLang does not take them, or its drafter changes with them."""
        self._target, self._all_give = (weights, version), self._ranks is not None
        self._reload("target", version, self._send_target)

    def load_drafter(self, weights: Weights, version: int) -> None:
        """See RolloutEngine. ModelError if speculation is off, or SGLang has no such drafters; SyncError if it does not take them, or its
        target changes with them. A drafter of another layout or vocabulary needs a new SGLang, which forgets what the tuner has learnt.
        Where something else drafts, SGLang gets none of them."""
        if self._drafter is None:
            raise ModelError("this engine was made without speculation, so it cannot load a drafter")
        if self._drafting == "eagle":
            supported_drafters.check(weights, self._rollout.sglang.tensor_parallel)
            if not supported_drafters.alike(weights, self._drafter[0]):
                if self._sharded:
                    raise ModelError("another layout or vocabulary of the drafter needs a new SGLang; set drafter.draft_vocabulary to 0")
                self.close()
        self._drafter = (weights, version)
        if self._drafting == "eagle":
            self._reload("drafter", version, self._send_drafter)

    def loaded_weights(self) -> LoadedWeights:
        """See RolloutEngine. A host that has died since the last generation is started anew."""
        try:
            target, drafter = self._checksums()
        except HostLostError as error:
            self._lost(error, 1)
            target, drafter = self._checksums()
        return LoadedWeights(self._target[1], self._drafter[1] if self._drafter else 0, target, drafter)

    def progress(self, now: float) -> GenerationProgress:
        """How far the generation is at ``now``. May be called from another thread while it runs."""
        generation = self._generation
        unfinished = [response for response in generation.responses if not response.finish] if generation else []
        limit = self._rollout.max_new_tokens
        remaining = {response.id: self._lengths.remaining(response.group, response.generated, limit) for response in unfinished}
        return GenerationProgress(now, {response.id: response.generated for response in unfinished if response.generated}, remaining)

    def watch(self, on: bool, learn: bool = True) -> None:  # noqa: ARG002
        """See RolloutEngine. SGLang's drafts go on as the tuner says, which learns if ``learn`` says so."""
        self._learns = learn

    def beside(self, neighbours: Neighbours | None) -> None:
        """See RolloutEngine. SGLang's steps are not timed."""

    def release(self) -> None:
        """See RolloutEngine. On a GPU with ``rollout.sglang.release_memory`` only: else SGLang keeps it."""
        self.host.ask("release")

    def resume(self) -> None:
        self.host.ask("resume")

    def take_statistics(self) -> RolloutStatistics:
        """See RolloutEngine. Draft positions and arms count tokens behind an end token, too; without speculation no steps are counted."""
        taken, self._statistics = self._statistics, RolloutStatistics()
        decoded, self._decoded = self._decoded, 0
        moments = self._timeline.take()
        if self._speculation:
            counts = self.host.plugin("statistics")[0]
            kept = max(0, decoded - counts.pop("plain_tokens"))
            counts["speculative_tokens"] = min(counts["speculative_tokens"], kept)  # without those behind an end token
            taken.arms = [ArmStatistics(**arm) for arm in counts.pop("arms")]
            taken.alarms += [(code, message) for code, message in counts.pop("alarms")]
            moments = sorted([Moment(*each) for each in counts.pop("moments")] + moments)
            for name, value in counts.items():
                setattr(taken, name, value)
            if self._drafting == "ngram":
                taken.ngram_drafted_by_position = taken.drafted_by_position
                taken.ngram_accepted_by_position = taken.accepted_by_position
        taken.moments = {0: moments}
        return taken

    def describe_graphs(self) -> str:
        """What CUDA graphs take of each GPU, by what they are for, and by strategy."""
        found = self.host.plugin("graphs")[0]
        used = [f"{name} {size:.2f} GB" for name, size in found["purposes"].items() if size]
        if not used:
            return "SGLang recorded no CUDA graphs"
        sizes = [f"{name} {sum(sets.values()):.2f} GB" for name, sets in found["strategies"].items()]
        strategies = f"; by strategy, what several of them use counted for each: {', '.join(sizes)}" if sizes else ""
        return f"SGLang recorded CUDA graphs: {', '.join(used)} on each GPU{strategies}"

    def close(self) -> None:
        """Ends SGLang."""
        host, self._host = self._host, None
        if host:
            host.kill()

    def __del__(self) -> None:
        self.close()

    def _start(self) -> None:
        """With the current weights."""
        folder = new_folder(PREFIX)
        drafted = widest(self._speculation).drafted if self._speculation else 0
        head = attention_head(self._config)
        arguments = engine_arguments(self._model, self._rollout, self._device, self._dtype, self._seed, drafted, head)
        if self._speculation and self._drafting:
            if self._drafting == "eagle":
                self._write_drafter(folder / "drafter")
            arguments |= draft_arguments(self._speculation, self._drafting, self._rollout.sglang, self._kind, folder)
        settings = HostSettings(str(folder), arguments, self._speculation, self._drafting, self._seed, self._rollout.max_batch)
        self._host = HostProcess(settings, environment(next(iter(self._config.architectures or ()), None)))
        if self._still:
            self.pause()
        if self._config.model_type in untried_families.FAMILIES:
            self._send_target()
        else:
            self._send_untried_target()
        self._tell("target", self._target[1])
        if self._drafter:
            self._tell("drafter", self._drafter[1])

    def _write_drafter(self, folder: Path) -> None:
        """What SGLang starts from. Rows of the target's head are nothing yet: they come with the target."""
        assert self._drafter is not None
        weights, card = self._drafter[0], DrafterCard(str(self._model), "", self._drafter[1])
        if supported_drafters.follows(weights):
            nothing = torch.zeros(self._config.vocab_size, self._config.hidden_size)
            write_serving_folder(folder, weights, self._config, nothing, card, "sglang")
        else:
            write_drafter_folder(folder, weights, self._config, card)

    def _tell_host(self, message: Any) -> None:
        """If there is one; who generates notices that it is gone."""
        if self._host:
            with contextlib.suppress(HostLostError):
                self._host.send(message)

    def _lost(self, error: HostLostError, attempts: int) -> None:
        """Gives SGLang up; it is started anew when it is needed."""
        self.close()
        if self._sharded:
            raise WorkerLostError(f"SGLang died, and the policy is shared out over the workers; resume from the last checkpoint: {error}")
        if attempts > ATTEMPTS:
            raise WorkerLostError(f"SGLang died {attempts} times in a row; resume from the last checkpoint: {error}")
        self._statistics.alarms.append(("engine_restarted", f"SGLang died and is started anew, its unfinished responses redone: {error}"))

    @property
    def _sharded(self) -> bool:
        """Whether it takes all ranks to give a new SGLang the target."""
        return any(isinstance(weight, DTensor) for weight in self._target[0].values())

    def _count(self, left: int) -> None:
        """With speculation the plugin counts what runs, all but the end of it."""
        if not (left and self._speculation):
            self._timeline.add(min(left, self._rollout.max_batch), str(OFF))

    def _reload(self, what: str, version: int, send: Callable[[], None]) -> None:
        """Sends new weights, and makes sure that only those have changed; a host that is gone starts with them."""
        other = 0 if what == "drafter" else 1
        try:
            if self._host is None:
                self._start()
                return
            before = self._checksums()
            send()
            if self._checksums()[other] != before[other]:
                raise SyncError(f"loading the {what}'s weights into SGLang changed others, too")
            self._tell(what, version)
        except HostLostError as error:
            self._lost(error, 1)
            self._start()

    def _send_target(self) -> None:
        weights, version = self._target
        host = self.host
        if self._shares_gpus:
            given = on_device(weights, self._dtype, self._device, self._ranks)
            self._all_give = False
            try:
                for bucket, last, handles in given:
                    host.ask("load_target", bucket=bucket, version=version, last=last, handles=handles)
            finally:
                deque(given, maxlen=0)  # the other ranks go through to the end, too
        else:
            for bucket, last in through(host.bucket, weights, self._dtype):
                host.ask("load_target", bucket=bucket, version=version, last=last)
        if self._drafting == "eagle" and self._drafter and supported_drafters.follows(self._drafter[0]):
            host.plugin("follow_head")

    @property
    def _shares_gpus(self) -> bool:
        """Whether the target is on each GPU that SGLang computes on, and all who have it there give it now."""
        return self._device.type == "cuda" and (self._rollout.sglang.tensor_parallel == 1 or self._all_give)

    def _send_untried_target(self) -> None:
        """That of a family whose weights SGLang may know by other names. ModelError if it does not use all of them."""
        self.host.plugin("forget")
        self._send_target()
        forgotten = [name for rank in self.host.plugin("forgotten") for name in rank]
        untried_families.check_weights(self._config.model_type, self._target[0], forgotten)

    def _send_drafter(self) -> None:
        assert self._drafter is not None
        tensors = {name: tensor.detach().cpu().contiguous() for name, tensor in self._drafter[0].items() if name not in (*IN_CONFIG, D2T)}
        if self._kind == "eagle":
            tensors.setdefault(BIAS, torch.zeros(len(tensors["fc.weight"])))
        path = self.host.folder / "drafter.safetensors"
        save_file(tensors, path)
        self.host.plugin("load_drafter", path=str(path))
        path.unlink()
        self.host.ask("flush")  # cached prefixes hold the old drafter's keys and values

    def _tell(self, what: str, version: int) -> None:
        if self.speculator:
            self.host.plugin("loaded", what=what, version=version)

    def _checksums(self) -> tuple[str, str]:
        """Target and drafter, of all ranks."""
        ranks: list[dict[str, str]] = self.host.plugin("loaded_weights")
        return ":".join(rank["target"] for rank in ranks), ":".join(rank["drafter"] for rank in ranks).strip(":")
