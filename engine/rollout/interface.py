"""The contract between the training loop and a rollout engine."""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import zip_longest
from typing import TYPE_CHECKING, Literal, NamedTuple, Protocol, get_args

from engine.errors import DataError
from engine.events import ArmStatistics, Handling, Source
from engine.rollout.decoding_timeline import Moment
from engine.rollout.pickled_arrays import PickledArrays
from engine.speculation.counterfactual import DecodeSeconds
from engine.speculation.step_pace import Neighbours, Paces, added

if TYPE_CHECKING:
    from torch import Tensor

    from engine.models.device_to_host import HostCopy

Finish = Literal["stop", "length", "abort"]
SOURCES: tuple[Source, ...] = get_args(Source)


@dataclass(frozen=True)
class Sampling:
    """Temperature 0 is greedy. top_p 1, top_k 0 and min_p 0 are off. A response ends with the token that completes one of the ``stop``
    strings. ``seed`` makes a rollout reproducible."""

    temperature: float = 1.0
    top_p: float = 1.0
    top_k: int = 0
    max_new_tokens: int = 1024
    seed: int = 0
    min_p: float = 0.0
    stop: tuple[str, ...] = ()


@dataclass(frozen=True)
class PartialResponse(PickledArrays):
    """The start of a response, by earlier rollouts: ``tokens`` with their ``logprobs``; ``spans`` are (version of the target, number of
    tokens by it), in their order."""

    tokens: tuple[int, ...] = ()
    logprobs: tuple[float, ...] = ()
    spans: tuple[tuple[int, int], ...] = ()


NOT_BEGUN = PartialResponse()


@dataclass(frozen=True)
class Request:
    """One response to generate, or to go on with where it has ``begun``. Requests of one ``group`` have the same prompt."""

    id: int
    group: int
    prompt: tuple[int, ...]
    begun: PartialResponse = NOT_BEGUN


def longest_prompt(requests: Sequence[Request], limit: int) -> int:
    """Tokens of the longest prompt; DataError if one is empty or has more than ``limit``."""
    for request in requests:
        if not 0 < len(request.prompt) <= limit:
            raise DataError(f"the prompt of request {request.id} has {len(request.prompt)} tokens; max_prompt_tokens allows 1 to {limit}")
    return max((len(request.prompt) for request in requests), default=0)


@dataclass(frozen=True)
class Completion(PickledArrays):
    """A finished response, or with finish ``abort`` one that was ended on the way. ``tokens``, those begun with included, ends with the end
    token if it was generated; ``logprobs`` are the target's, of the law that was sampled (temperature, top-p and top-k applied; at
    temperature 0 the law at temperature 1), one per token. The versions are those of the end. ``sources`` tell what made the last
    tokens, as places in SOURCES, one per token; none of an engine that does not know."""

    request: Request
    tokens: tuple[int, ...]
    logprobs: tuple[float, ...]
    finish: Finish
    target_version: int
    drafter_version: int
    sources: bytes = b""

    @property
    def fresh(self) -> int:
        """Tokens that were not there when the rollout began."""
        return len(self.tokens) - len(self.request.begun.tokens)

    @property
    def spans(self) -> tuple[tuple[int, int], ...]:
        """As of ``PartialResponse``."""
        return (*self.request.begun.spans, (self.target_version, self.fresh)) if self.fresh else self.request.begun.spans


class SchedulingMark(NamedTuple):
    """What was done about the tail at ``time`` (seconds since the epoch), and to how much; see ``engine.events.Decoding``."""

    time: float
    what: Handling
    number: int


Alarm = tuple[str, str]
"""Code and message."""


@dataclass
class RolloutStatistics:
    """Totals since the last ``take_statistics``. ``preemptions``: how often a response had to wait again, as the cache was full; None of an
    engine that does not count. Lists are indexed by draft position, and ``ngram_*`` the part that n-grams drafted; ``moments``,
    ``decode_seconds`` and ``paces`` are by worker, and an engine takes itself for worker 0; it has the latter two where it knows what a
    step costs. ``marks``, by worker, are not the engine's: who shares the requests out makes them."""

    decode_steps: int = 0
    tokens: int = 0
    preemptions: int | None = None
    speculative_requests: int = 0
    speculative_tokens: int = 0
    drafted_by_position: list[int] = field(default_factory=list)
    accepted_by_position: list[int] = field(default_factory=list)
    ngram_drafted_by_position: list[int] = field(default_factory=list)
    ngram_accepted_by_position: list[int] = field(default_factory=list)
    arms: list[ArmStatistics] = field(default_factory=list)
    alarms: list[Alarm] = field(default_factory=list)
    moments: dict[int, list[Moment]] = field(default_factory=dict)
    marks: dict[int, list[SchedulingMark]] = field(default_factory=dict)
    decode_seconds: dict[int, DecodeSeconds] = field(default_factory=dict)
    paces: Paces = field(default_factory=dict)

    def learned_first_drafts(self) -> tuple[int, int]:
        """First draft tokens of the learned drafter that were verified, and those that were accepted: n-grams' are no sign of it."""
        drafted = sum(self.drafted_by_position[:1]) - sum(self.ngram_drafted_by_position[:1])
        return drafted, sum(self.accepted_by_position[:1]) - sum(self.ngram_accepted_by_position[:1])

    def add(self, other: "RolloutStatistics") -> None:
        """Adds another worker's totals; equal arms are added up."""
        for name in ("decode_steps", "tokens", "speculative_requests", "speculative_tokens", "alarms"):
            setattr(self, name, getattr(self, name) + getattr(other, name))
        if other.preemptions is not None:
            self.preemptions = (self.preemptions or 0) + other.preemptions
        for name in (f"{kind}_by_position" for kind in ("drafted", "accepted", "ngram_drafted", "ngram_accepted")):
            pairs = zip_longest(getattr(self, name), getattr(other, name), fillvalue=0)
            setattr(self, name, [one + another for one, another in pairs])
        self.moments |= {worker: self.moments.get(worker, []) + moments for worker, moments in other.moments.items()}
        self.marks |= {worker: self.marks.get(worker, []) + marks for worker, marks in other.marks.items()}
        for worker, seconds in other.decode_seconds.items():
            before = self.decode_seconds.get(worker)
            self.decode_seconds[worker] = before.plus(seconds) if before else seconds
        self.paces = added(self.paces, other.paces)
        arms = {(arm.bucket, arm.strategy): arm for arm in self.arms}
        for arm in other.arms:
            mine = arms.get((arm.bucket, arm.strategy))
            arms[arm.bucket, arm.strategy] = arm if mine is None else mine.plus(arm)
        self.arms = [arms[key] for key in sorted(arms)]


@dataclass(frozen=True)
class Answers:
    """Responses outside of training, and the alarms that there were meanwhile."""

    completions: list[Completion]
    alarms: list[Alarm]


@dataclass(frozen=True)
class GenerationProgress:
    """A generation at ``time`` (seconds of any clock): tokens ``generated`` of each running request, and the tokens that each unfinished
    request, running or waiting, is predicted to need."""

    time: float
    generated: Mapping[int, int]
    remaining: Mapping[int, float]


@dataclass(frozen=True)
class LoadedWeights:
    """The weights that an engine decodes with: versions and checksums, of target and drafter ("" if there is no drafter)."""

    target_version: int
    drafter_version: int
    target: str
    drafter: str


KeepFeatures = Callable[[Completion, "HostCopy"], None]
"""Takes a response with its hidden states: [T - 1, W] of prompt and response but for the last token: the layers' inputs that the kind of
drafter reads, if any, then the hidden state after the final norm. The engine keeps nothing of them."""


class RolloutEngine(Protocol):
    """Generates responses of exactly the target's law, whatever the drafter and the strategy."""

    def generate(
        self,
        requests: Sequence[Request],
        sampling: Sampling,
        on_finish: Callable[[Completion], None] | None = None,
        keep: "KeepFeatures | None" = None,
    ) -> list[Completion]:
        """All completions, in the order of ``requests``; ``on_finish`` sees each as it finishes, but none that is aborted, and just before
        it ``keep``, if the engine has features. An error in either ends the generation, and nothing of that goes on."""
        ...

    def abort(self, requests: Collection[int] | None = None) -> None:
        """Ends responses of the running generation as they are: those of ``requests`` (ids), all by default. Returns at once; of what is
        not running it is no error. This, ``pause`` and ``proceed`` are for other threads."""
        ...

    def pause(self) -> None:
        """Generations stand still, after at most one more step, until ``proceed``. What is aborted meanwhile may end only then. No weights
        may be loaded."""
        ...

    def proceed(self) -> None: ...

    def load_target(self, weights: "Mapping[str, Tensor]", version: int) -> None:
        """Replaces the target's weights (Hugging Face names). Between generations only."""
        ...

    def load_drafter(self, weights: "Mapping[str, Tensor]", version: int) -> None:
        """Replaces the drafter's trainable weights; embedding and head stay the target's own."""
        ...

    def loaded_weights(self) -> LoadedWeights:
        """What it decodes with, by the weights as they are now. Between generations only."""
        ...

    def watch(self, on: bool, learn: bool = True) -> None:
        """False: later generations may decode plainly, keep no features and learn nothing, until True. Without ``learn`` they draft by what
        is known, keep no features, and forget what they learn, but for alarms. Between generations only."""
        ...

    def beside(self, neighbours: Neighbours | None) -> None:
        """What other workers do from now on, for ``RolloutStatistics.paces``. For other threads."""
        ...

    def release(self) -> None:
        """Frees the KV cache until ``resume``; again is no error. Weights may be loaded meanwhile. Between generations only."""
        ...

    def resume(self) -> None: ...

    def take_statistics(self) -> RolloutStatistics:
        """Statistics since the last call; starts new ones."""
        ...
