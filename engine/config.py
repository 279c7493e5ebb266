"""RunConfig: everything that decides a run. Unknown keys are errors. The defaults are a good TLT run of the built-in task."""

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

import yaml
from pydantic import Field, ValidationError, field_validator, model_validator

from engine.errors import ConfigError
from engine.policy.config import SET_BY_NAME, AlgorithmConfig
from engine.section import Section
from engine.tasks.config import CodeConfig, CountdownConfig, DatasetConfig, FunctionConfig, TaskConfig


class ModelConfig(Section):
    path: str = Field("tiny", min_length=1, description="Built-in model (tiny, small) or a local Hugging Face folder (qwen2, qwen3, llama)")
    dtype: Literal["float32", "bfloat16"] = Field("float32", description="Data type of the rollout engine's weights")


class SGLangConfig(Section):
    """Of rollout.engine=sglang alone."""

    tensor_parallel: int = Field(1, ge=1, le=64, description="GPUs of one machine that each worker's engine is spread over")
    mem_fraction: float = Field(
        0.5, gt=0, lt=1, description="Share of a GPU's memory for SGLang's weights and cache; training has the rest"
    )
    draft_model: str | None = Field(
        None, min_length=1, description="Local folder of a small model with the same tokens, to draft in place of the learned drafter"
    )
    release_memory: bool = Field(False, description="Between rollouts training has the memory of SGLang's cache, too (its memory saver)")


class RolloutConfig(Section):
    engine: Literal["native", "sglang"] = Field(
        "native", description="Rollout engine: native (ours, any machine) or sglang (the extra sglang, on CUDA)"
    )
    sglang: SGLangConfig = Field(default_factory=SGLangConfig)
    temperature: float = Field(1.0, ge=0, le=10, description="0 is greedy")
    top_p: float = Field(1.0, gt=0, le=1)
    top_k: int = Field(0, ge=0, description="0 is off")
    min_p: float = Field(0.0, ge=0, lt=1, description="Drop tokens less likely than this share of the likeliest one; 0 is off")
    stop: tuple[Annotated[str, Field(min_length=1)], ...] = Field((), description="Strings that end a response")
    max_prompt_tokens: int = Field(256, ge=1, description="A longer prompt is an error, never cut")
    max_new_tokens: int = Field(1024, ge=1, description="Length limit of a response")
    max_batch: int = Field(64, ge=1, le=4096, description="Requests that one worker decodes at once")

    @property
    def gpus(self) -> int:
        """What a worker needs, where there are any."""
        return self.sglang.tensor_parallel if self.engine == "sglang" else 1


DrafterName = Literal["none", "eagle", "ngram"]


class StrategyConfig(Section):
    """One speculative strategy: depth drafted levels, top_k branches a level, verify drafted tokens checked in one target pass."""

    drafter: Literal["eagle", "ngram"] = Field("eagle", description="eagle: the learned drafter; ngram: what siblings wrote before")
    depth: int = Field(ge=1, le=32)
    top_k: int = Field(1, ge=1, le=16, description="1 is a chain; more is a tree")
    verify: int = Field(ge=1, le=128)

    @model_validator(mode="after")
    def _enough_drafts(self) -> "StrategyConfig":
        if self.drafter == "ngram" and self.top_k > 1:
            raise ValueError(f"top_k={self.top_k}, but ngram drafts are chains; set top_k to 1, or drafter to eagle")
        drafted = self.depth if self.top_k == 1 else self.top_k + (self.depth - 1) * self.top_k**2
        if self.verify > drafted:
            shape = f"the {drafted} tokens that depth={self.depth} and top_k={self.top_k} draft"
            raise ValueError(f"verify={self.verify} exceeds {shape}; lower it, or raise one of those")
        return self


class BegConfig(Section):
    """BEG-MAB, Algorithm 1 of TLT. Bucket i starts at thresholds[i] and uses the i-th largest group of equal ``verify``."""

    name: Literal["beg"] = "beg"
    epsilon: float = Field(0.1, ge=0, le=1, description="Share of decode steps that explore")
    window: int = Field(64, ge=1, description="Recent measurements kept for each strategy")
    thresholds: tuple[int, ...] | None = Field(
        None, description="Smallest batch size of each bucket, rising, the first is 1; null doubles from bucket to bucket: 1, 2, 4 ..."
    )
    off_arm: bool = Field(True, description="Plain decoding is one more arm of every bucket; false is Algorithm 1 to the letter")

    @model_validator(mode="after")
    def _rising(self) -> "BegConfig":
        bounds = self.thresholds
        if bounds is not None and (not bounds or bounds[0] != 1 or list(bounds) != sorted(set(bounds))):
            raise ValueError("thresholds must start with 1 and rise, such as [1, 3, 9]")
        return self


class GoodputConfig(Section):
    """Most tokens per second, by measured step times and acceptance by draft position; plain decoding is an arm like any other."""

    name: Literal["goodput"] = "goodput"
    memory: int = Field(4096, ge=16, description="Drafts after which an observation of acceptance counts 1/e")
    widen: float = Field(0.25, ge=0, le=1, description="What a weight update leaves of the certainty about acceptance")
    interval: int = Field(8, ge=1, description="Decode steps between decisions at one batch size")


class FixedConfig(Section):
    """Always the first strategy; for measurements."""

    name: Literal["fixed"] = "fixed"


TunerConfig = Annotated[BegConfig | GoodputConfig | FixedConfig, Field(discriminator="name")]


def _default_strategies() -> tuple[StrategyConfig, ...]:
    learned = ((8, 4, 24), (6, 3, 12), (4, 4, 8), (8, 1, 8), (6, 1, 6), (4, 1, 4), (2, 1, 2))
    eagle = (StrategyConfig(depth=depth, top_k=top_k, verify=verify) for depth, top_k, verify in learned)
    return (*eagle, StrategyConfig(drafter="ngram", depth=8, verify=8))


class SuffixConfig(Section):
    """The model-free drafter: what siblings of a prompt wrote, in this step and in earlier ones."""

    enabled: bool = Field(True, description="Draft a request from its siblings' text where that matches well")
    memory_bytes: int = Field(64 * 2**20, ge=2**16, description="Host memory for remembered responses, per worker; oldest prompts go first")


class SpeculationConfig(Section):
    enabled: bool = Field(True, description="The one switch: false runs stock decoding and no drafter at all (the plain baseline)")
    threshold: int = Field(64, ge=1, description="Speculation starts once a worker runs at most this many requests")
    hysteresis: float = Field(0.25, ge=0, le=10, description="It stops above threshold * (1 + hysteresis) requests only")
    strategies: tuple[StrategyConfig, ...] = Field(default_factory=_default_strategies)
    tuner: TunerConfig = Field(
        GoodputConfig(), description="What chooses the strategy: goodput (measured costs), beg (the bandit of TLT) or fixed (the first one)"
    )
    suffix: SuffixConfig = Field(default_factory=SuffixConfig)
    tail_requests: int = Field(4, ge=0, description="With at most this many requests left, finish the longest first; 0 is off")

    @field_validator("strategies")
    @classmethod
    def _at_least_one(cls, strategies: tuple[StrategyConfig, ...]) -> tuple[StrategyConfig, ...]:
        """A min_length would also complain where there are some, but wrong ones."""
        if not strategies:
            raise ValueError("must name at least one; leave it out for the usual ones, or set speculation.enabled to false")
        return strategies

    @model_validator(mode="after")
    def _a_group_for_each_bucket(self) -> "SpeculationConfig":
        groups = len({strategy.verify for strategy in self.strategies})
        if isinstance(self.tuner, BegConfig) and self.tuner.thresholds is not None and groups != len(self.tuner.thresholds):
            raise ValueError(
                f"tuner.thresholds has {len(self.tuner.thresholds)} values, and the strategies have {groups} distinct values of verify; "
                f"give {groups}, or null"
            )
        return self


class TriggerConfig(Section):
    """When idle workers train: at every step while that helps, then when one of these asks for it."""

    patience: int = Field(3, ge=1, description="Sessions in a row that gain less than least_gain until steps are skipped")
    least_gain: float = Field(0.002, ge=0, le=1, description="Rise of held-out acceptance that makes a session worth repeating at once")
    every: int = Field(10, ge=1, description="Train at least every so many steps; 1 trains at every step")
    acceptance_drop: float = Field(0.05, ge=0, le=1, description="Train when acceptance falls by this share of its best since then")
    drift: float = Field(0.005, ge=0, description="Train when the target's weights have moved by this share since the last session")


class SpotConfig(Section):
    """Training of the drafter on workers that wait for the tail."""

    enabled: bool = True
    min_idle_workers: int = Field(1, ge=1, description="Idle workers needed before training starts")
    first_set_up: float = Field(
        0.25,
        ge=0,
        description="Seconds to the first judged steps of training, assumed until measured; a tail must last twice as long",
    )
    learning_rate: float = Field(2e-4, gt=0, le=1)
    first_learning_rate: float = Field(
        2e-3, gt=0, le=1, description="Of a drafter that starts from nothing; it falls to learning_rate as sessions stop helping"
    )
    tokens_per_microbatch: int = Field(
        1024, ge=16, description="Tokens in one training step of the drafter; stopping waits for one at most"
    )
    unroll: int | None = Field(
        None,
        ge=1,
        le=8,
        description="Passes of a training step, on the drafter's own features from the second on; null: the recipe's own (2, 3 or 7)",
    )
    passes: int = Field(4, ge=1, description="Times that a response is trained on; then as often again as long as held-out responses gain")
    least_tokens: int = Field(16_384, ge=0, description="Tokens to train on at least: older responses make up for small steps")
    buffer_bytes: int = Field(256 * 2**20, ge=2**20, description="Host memory for captured hidden states, per worker")
    trigger: TriggerConfig = Field(default_factory=TriggerConfig)


class DrafterConfig(Section):
    recipe: Literal["eagle", "hass", "eagle3"] = Field(
        "eagle",
        description="eagle: two steps on its own features; hass: three of them; eagle3: reads three layers of the target, seven such steps",
    )
    reverse_kl: float = Field(0.0, ge=0, le=100, description="Weight of a reverse KL term (online speculative decoding) in the loss")
    path: str | None = Field(
        "builtin",
        description="'builtin' (an EAGLE drafter, comes with tiny), a local drafter folder, or null: start from the target's last layer",
    )
    spot: SpotConfig = Field(default_factory=SpotConfig)


class ClusterConfig(Section):
    workers: int = Field(2, ge=1, le=4096, description="Rollout workers (one per GPU group or CPU share)")
    device: Literal["auto", "cpu", "cuda"] = "auto"
    threads_per_worker: int = Field(1, ge=1, le=1024, description="CPU threads of a worker")
    ray_address: str | None = Field(None, description="Address of a running Ray cluster; null starts a private one on loopback")


class CheckpointConfig(Section):
    every: int = Field(10, ge=1, description="RL steps between checkpoints")
    keep: int = Field(2, ge=1, description="Checkpoints kept")
    drafter_every_microsteps: int = Field(
        32,
        ge=0,
        description="A killed run loses at most so many micro-steps of the drafter's training; 0: all of its step",
    )


class EvaluationConfig(Section):
    every: int = Field(0, ge=0, description="Evaluate after every so many steps and after the last; 0: never")
    prompts: int = Field(64, ge=1, le=65_536, description="Validation prompts, or all if there are fewer")
    samples: int = Field(4, ge=1, le=1024, description="Responses for each: K of pass@K")


class RunConfig(Section):
    """One run. ``speculation.enabled=false`` is the plain baseline of the same run."""

    name: str = Field("run", min_length=1, max_length=200, pattern=r"^[^\x00-\x1f\x7f]+$", description="No control characters")
    seed: int = Field(0, ge=0, lt=2**31)
    model: ModelConfig = Field(default_factory=ModelConfig)
    task: TaskConfig = Field(CountdownConfig(), description="What is learned")
    algorithm: AlgorithmConfig = Field(default_factory=AlgorithmConfig)
    evaluation: EvaluationConfig = Field(default_factory=EvaluationConfig)
    rollout: RolloutConfig = Field(default_factory=RolloutConfig)
    speculation: SpeculationConfig = Field(default_factory=SpeculationConfig)
    drafter: DrafterConfig = Field(default_factory=DrafterConfig)
    cluster: ClusterConfig = Field(default_factory=ClusterConfig)
    checkpoint: CheckpointConfig = Field(default_factory=CheckpointConfig)

    @model_validator(mode="after")
    def _work_for_every_worker(self) -> "RunConfig":
        if self.cluster.workers > self.algorithm.prompts_per_step:
            raise ValueError(
                f"cluster.workers={self.cluster.workers} exceeds algorithm.prompts_per_step={self.algorithm.prompts_per_step}: "
                "a worker would have nothing to do; lower the one or raise the other"
            )
        return self

    @model_validator(mode="after")
    def _something_to_evaluate_on(self) -> "RunConfig":
        if self.evaluation.every and isinstance(self.task, DatasetConfig) and not (self.task.validation_path or self.task.validation_share):
            raise ValueError("evaluation.every: no rows are kept for evaluation; give task.validation_path or task.validation_share")
        return self


def merged(base: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    """``base`` with the fields that ``changes`` names, section by section. Where they give a section another ``name``, what the old one
    stood for goes: all of the section, or, of an algorithm, the parts that its name sets."""
    return {**base, **{key: _merged(key, base.get(key), value) for key, value in changes.items()}}


def _merged(key: str, old: Any, new: Any) -> Any:
    if not (isinstance(old, Mapping) and isinstance(new, Mapping)):
        return new
    if new.get("name", old.get("name")) == old.get("name"):
        return merged(old, new)
    return merged({part: value for part, value in old.items() if part not in SET_BY_NAME}, new) if key == "algorithm" else new


def own_code(config: RunConfig) -> dict[str, str]:
    """The fields, with their values, by which a run executes what is not ours outside of any sandbox."""
    task = config.task
    functions = {"algorithm.advantage": config.algorithm.advantage, "algorithm.loss": config.algorithm.loss}
    if isinstance(task, FunctionConfig):
        functions["task.function"] = task.function
    found = {field: name for field, name in functions.items() if ":" in name}
    return found | ({"task.isolation": task.isolation} if isinstance(task, CodeConfig) and task.isolation == "limits" else {})


def parse(data: Any) -> RunConfig:
    """Validates ``data``; ConfigError lists every fault as ``field: what is wrong (got value)``."""
    try:
        return RunConfig.model_validate(data)
    except ValidationError as error:
        raise ConfigError("\n".join(describe(fault) for fault in error.errors())) from None


def describe(fault: Any) -> str:
    """One fault of a pydantic ValidationError in a line: the field, what is wrong, the value."""
    field = ".".join(str(part) for part in fault["loc"]) or "config"
    if fault["type"] == "extra_forbidden":
        return f"{field}: unknown key; remove it or check its spelling"
    message = fault["msg"].removeprefix("Value error, ").replace("a valid tuple", "a list")
    value = fault["input"]
    return f"{field}: {message}" + (f" (got {value!r})" if isinstance(value, str | int | float | bool | None) else "")


def load(path: Path) -> RunConfig:
    """Reads a YAML file; ConfigError if it is missing, not YAML, or not a valid configuration."""
    if not path.is_file():
        raise ConfigError(f"{path}: no such file")
    try:
        data = yaml.safe_load(path.read_text(encoding="utf-8"))
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path}: not readable as YAML: {error}") from None
    return parse({} if data is None else data)
