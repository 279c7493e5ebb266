"""What of our speculation SGLang can do: chains and trees of the learned drafter, or of a small model, whose shape changes from step to
step; or n-gram drafts of one length."""

from pathlib import Path
from typing import Literal, NamedTuple

from pydantic import ValidationError

from engine.config import FixedConfig, RolloutConfig, RunConfig, SGLangConfig, SpeculationConfig, StrategyConfig, describe
from engine.drafter.kind import RECIPE_KINDS
from engine.drafter.new_drafter import leaves_out, makes_one
from engine.errors import ConfigError, ModelError
from engine.models.folder import ModelFacts, read_facts
from engine.rollout.sglang import untried_families

SGLangDrafter = Literal["eagle", "standalone", "ngram"]
DRAFTING: dict[SGLangDrafter, str] = {"standalone": "the draft model drafts", "ngram": "n-grams draft"}


def drafting(config: SpeculationConfig, settings: SGLangConfig) -> SGLangDrafter:
    """Who drafts in a whole run: SGLang has one kind of drafts."""
    if settings.draft_model:
        return "standalone"
    return "eagle" if any(each.drafter == "eagle" for each in config.strategies) else "ngram"


def trains_drafter(config: RunConfig) -> bool:
    """Whether the run has a learned drafter, be it to choose or not: SGLang's n-grams leave no choice, and any model has them."""
    ngrams = config.rollout.engine == "sglang" and drafting(config.speculation, config.rollout.sglang) == "ngram"
    return config.speculation.enabled and not ngrams


def supported(config: SpeculationConfig, who: SGLangDrafter = "eagle") -> SpeculationConfig:
    """``config`` without n-gram drafts and the suffix store: one drafter serves a whole batch. If n-grams are to draft, the first strategy
    alone is left.

    ConfigError if no strategy of the drafter is left, or the tuner does not fit those that are.
    """
    if who == "ngram":
        return SpeculationConfig(strategies=config.strategies[:1], tuner=FixedConfig())
    strategies = list(dict.fromkeys(_whole(each) for each in config.strategies if each.drafter == "eagle"))
    if not strategies:
        raise ConfigError("speculation.strategies: rollout.sglang.draft_model needs at least one with drafter eagle, for its shape")
    data = config.model_dump() | {
        "strategies": [each.model_dump() for each in strategies],
        "suffix": {"enabled": False},
    }
    try:
        return SpeculationConfig.model_validate(data)
    except ValidationError as error:
        faults = "; ".join(describe(fault) for fault in error.errors())
        raise ConfigError(f"speculation: of drafter eagle alone, as rollout.engine=sglang drafts: {faults}") from None


def _whole(strategy: StrategyConfig) -> StrategyConfig:
    """A chain is verified as far as it is drafted."""
    return strategy if strategy.top_k > 1 else strategy.model_copy(update={"depth": strategy.verify})


class Widest(NamedTuple):
    """Depth, top_k and verified tokens (the last known one with them) that no strategy exceeds: what SGLang starts with."""

    steps: int
    top_k: int
    tokens: int

    @property
    def drafted(self) -> int:
        """Places that SGLang sets aside for a request's drafts in a step."""
        return max(self.steps * self.top_k, self.tokens)


def widest(config: SpeculationConfig) -> Widest:
    shapes = [(each.depth, each.top_k, each.verify + 1) for each in config.strategies]
    return Widest(*map(max, zip(*shapes, strict=True)))


def check(config: RunConfig, facts: ModelFacts, searched: bool = True) -> None:
    """ConfigError or ModelError if the run asks for what SGLang would not do, or would do wrong. ``searched``: no drafter was found for
    ``drafter.path: auto``; before that, nobody knows whether one will be made."""
    if config.rollout.scheduling.asynchronous:
        raise ConfigError(
            "rollout.scheduling.asynchronous=True: with SGLang nothing is generated while the policy learns; set it to false, or "
            "rollout.engine to native"
        )
    who = drafting(config.speculation, config.rollout.sglang)
    if facts.family not in untried_families.FAMILIES:
        untried_families.check(config, facts.family, who if config.speculation.enabled else None)
    if not config.speculation.enabled:
        return
    supported(config.speculation, who)
    if config.rollout.min_p > 0:
        raise ConfigError(
            f"rollout.min_p={config.rollout.min_p}: SGLang ignores min_p when it verifies drafts, so that the responses would have another "
            "law; set it to 0, or speculation.enabled to false, or rollout.engine to native"
        )
    if who == "eagle" and facts.family == "qwen3" and config.drafter.recipe != "eagle3":
        raise ConfigError(f"drafter.recipe={config.drafter.recipe}: SGLang has no such drafter for qwen3 models; set it to eagle3")
    training = {"spot.enabled": config.drafter.spot.enabled, "pretrain_minutes": config.drafter.pretrain_minutes > 0}
    if who != "eagle" and (name := next((name for name, there in training.items() if there), None)):
        off = "false" if name == "spot.enabled" else "0"
        raise ConfigError(f"drafter.{name}: {DRAFTING[who]} in this run, so nobody would use the trained drafter; set it to {off}")
    if who == "eagle" and (searched or config.drafter.path != "auto"):
        _check_draft_vocabulary(config, facts.vocabulary)
    if config.rollout.sglang.draft_model:
        _check_draft_model(config.rollout, Path(config.rollout.sglang.draft_model), facts.vocabulary)


def _check_draft_vocabulary(config: RunConfig, vocabulary: int) -> None:
    """Else the first version of a drafter that is pretrained would be refused, when all has been trained."""
    size = config.drafter.draft_vocabulary
    if not (makes_one(config) and leaves_out(size, vocabulary)):
        return
    eagle = RECIPE_KINDS[config.drafter.recipe] == "eagle"
    lacking = {
        "on several GPUs (rollout.sglang.tensor_parallel) an EAGLE drafter drafts from all tokens in SGLang": (
            eagle and config.rollout.sglang.tensor_parallel > 1
        ),
        "a drafter of fewer tokens than the first one needs a new SGLang, which cluster.learner.parallel=fsdp cannot start": (
            config.cluster.learner.parallel == "fsdp"
        ),
    }
    if found := next((reason for reason, there in lacking.items() if there), None):
        raise ConfigError(f"drafter.draft_vocabulary={size}: {found}; set it to 0 for all tokens, or rollout.engine to native")


def _check_draft_model(rollout: RolloutConfig, folder: Path, vocabulary: int) -> None:
    found, needed = read_facts(folder), rollout.max_prompt_tokens + rollout.max_new_tokens
    if found.vocabulary != vocabulary:
        raise ModelError(
            f"rollout.sglang.draft_model: {folder} knows {found.vocabulary} tokens, and the model {vocabulary}; use one with equal ones"
        )
    if found.context < needed:
        raise ModelError(
            f"rollout.sglang.draft_model: {folder} can hold {found.context} tokens, and this run needs {needed}; use another one"
        )
