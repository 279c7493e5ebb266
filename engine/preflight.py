"""What can be known before a run starts. ``check_light`` needs neither torch nor transformers, so the API calls it at submit time."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from engine.cluster import host_memory
from engine.config import RunConfig
from engine.drafter.kind import RECIPE_KINDS, drafter_kind, layer_config
from engine.drafter.new_drafter import makes_one
from engine.drafter.weight_files import drafter_files
from engine.errors import ConfigError, DataError, ModelError
from engine.models.families import FAMILIES, LISTED
from engine.models.folder import BUILT_IN, SMALL_WIDTH, locate, read_config, read_facts
from engine.rollout.native.layout.page_table import PAGE
from engine.rollout.native.reach import LANES, PARTS, whole_reach, written_behind
from engine.rollout.sglang import requirements, supported_speculation
from engine.tasks import response_rows
from engine.tasks.registry import check_rows

KNOWN_PARTS = {"cpu": PARTS, "cuda": (LANES,), "auto": (LANES, *PARTS)}
"""Of the devices that a run may be on, by ``cluster.device``; see ``check_cache``."""
WORKER_BYTES = 256 * 2**20
"""Memory that Python and torch alone take in each worker, at least."""


def check_light(config: RunConfig) -> None:
    """Model folder, context length, engine, drafter folder, the first rows of data. Raises ModelError, ConfigError or DataError. What
    ``drafter.path: auto`` stands for is known to the job alone, after it has looked for one."""
    _check_model(config, searched=False)
    check_drafter(config)
    check_rows(config.task)
    _check_responses(config.drafter.pretrain_responses)


def check(config: RunConfig) -> None:
    """All of ``check_light``, own functions, packages, device, tokenizer, every prompt's length. Seconds; for the machine of the job."""
    import torch

    from engine.models.load import load_tokenizer, resolve
    from engine.policy.algorithms import registry
    from engine.rollout.native.attention import part_length
    from engine.tasks.registry import build_task

    _check_model(config, searched=True)
    if config.cluster.ray_address is None:
        check_cache(config, (LANES if on_gpu(config, torch.cuda.is_available()) else part_length(),))
        _check_memory(config)
    check_drafter(config)
    _check_responses(config.drafter.pretrain_responses)
    if config.rollout.engine == "sglang":
        requirements.check_machine(config, torch.cuda.device_count())
        requirements.check_known(config)
    if config.cluster.device == "cuda" and config.cluster.ray_address is None and not torch.cuda.is_available():
        raise ConfigError("cluster.device: cuda was asked for, but this machine has no usable CUDA device; use auto or cpu")
    check_overlap(config, torch.cuda.is_available())
    registry.advantage(config.algorithm)
    registry.policy_loss(config.algorithm)
    if config.cluster.learner.lora:
        from engine.policy.training import lora  # here, as it takes seconds

        lora.check_installed()
    task = build_task(config.task, config.seed, load_tokenizer(resolve(config.model.path)))
    task.check_lengths(config.rollout.max_prompt_tokens)


def _check_memory(config: RunConfig) -> None:
    """Each rank of a worker is a process."""
    workers, ranks, memory = config.cluster.workers, config.rollout.gpus, host_memory.total()
    if workers * ranks * WORKER_BYTES > memory:
        processes = f" of {ranks} processes each" if ranks > 1 else ""
        raise ConfigError(
            f"cluster.workers: {workers} workers{processes} do not fit here: {memory / 2**30:.3g} GiB of memory have room for "
            f"{memory // (ranks * WORKER_BYTES)} at most, without their models; lower it, or name a larger cluster by cluster.ray_address"
        )


def _check_model(config: RunConfig, searched: bool) -> None:
    facts = read_facts(locate(config.model.path))
    prompt, response = config.rollout.max_prompt_tokens, config.rollout.max_new_tokens
    if prompt + response > facts.context:
        raise ConfigError(
            f"rollout.max_new_tokens: max_prompt_tokens={prompt} and max_new_tokens={response} together exceed the {facts.context} tokens "
            f"that model {config.model.path} can hold; lower one of them"
        )
    check_cache(config, KNOWN_PARTS[config.cluster.device])
    engine = config.rollout.engine
    if engine == "sglang" or (engine == "auto" and facts.family not in FAMILIES):
        supported_speculation.check(config, facts, searched)
    elif facts.family not in FAMILIES:
        raise ModelError(
            f"model.path: {config.model.path} is a {facts.family} model; supported are {LISTED}, and with rollout.engine=sglang other "
            "causal language models that SGLang knows"
        )


def check_cache(config: RunConfig, parts: Sequence[int]) -> None:
    """ConfigError if the native engine's cache is too small for one request at its longest, with the drafts behind it, on whichever of the
    devices the run is, as far as that is known: CPUs by the length of the ``parts`` in which they add up, a GPU by ``LANES``."""
    rollout = config.rollout
    if rollout.cache_tokens is None or rollout.engine == "sglang":
        return
    needed = sorted(_positions(config, part) for part in parts)
    if rollout.cache_tokens <= needed[0] - PAGE:
        raise ConfigError(
            f"rollout.cache_tokens: one request may need {needed[-1]} tokens (max_prompt_tokens={rollout.max_prompt_tokens}, "
            f"max_new_tokens={rollout.max_new_tokens}, drafts), got {rollout.cache_tokens}; set it to {needed[-1]} or more, "
            "leave it out for all that fit, or lower rollout.max_new_tokens"
        )


def _positions(config: RunConfig, part: int) -> int:
    """Of the longest request, in whole pages."""
    rollout, speculation = config.rollout, config.speculation
    strategies = speculation.strategies if speculation.enabled else ()
    drafts = max((written_behind(each, on_cpu=part != LANES) for each in strategies), default=0)
    reach = whole_reach(rollout.max_prompt_tokens + rollout.max_new_tokens + drafts + 1, LANES, part)
    return -(-reach // PAGE) * PAGE


def on_gpu(config: RunConfig, gpu: bool) -> bool:
    """Where the run computes, on a machine that has a ``gpu``, or none."""
    return config.cluster.device == "cuda" or (config.cluster.device == "auto" and gpu)


def check_overlap(config: RunConfig, gpu: bool) -> None:
    """ConfigError if the policy is to learn beside a cache that takes all of a GPU. ``gpu``: whether this machine has one."""
    if config.rollout.scheduling.asynchronous and on_gpu(config, gpu) and config.rollout.cache_tokens is None:
        raise ConfigError(
            "rollout.cache_tokens: with rollout.scheduling.asynchronous=True the cache keeps its memory while the policy learns, so null, "
            "all that fits, leaves none for that; set it to the tokens of prompts and responses that are to be in a GPU's cache at once"
        )


def _check_responses(path: Path | None) -> None:
    """ConfigError names the field."""
    if path is None:
        return
    try:
        response_rows.check(path)
    except DataError as error:
        raise ConfigError(f"drafter.pretrain_responses: {error}") from None


def fits(drafter: Mapping[str, str], config: RunConfig) -> bool:
    """Whether a drafter whose artifact says this of itself (see ``ArtifactSaved.metadata``) is one for the run's model and recipe."""
    kind, model = RECIPE_KINDS.get(drafter.get("recipe", "")), drafter.get("base_model")
    return kind == RECIPE_KINDS[config.drafter.recipe] and model is not None and _resolved(model) == _resolved(config.model.path)


def of_other_kinds(config: RunConfig) -> list[RunConfig]:
    """The same with each recipe that makes drafters of another kind."""
    recipes = [recipe for recipe, kind in RECIPE_KINDS.items() if kind != RECIPE_KINDS[config.drafter.recipe]]
    return [config.model_copy(update={"drafter": config.drafter.model_copy(update={"recipe": recipe})}) for recipe in recipes]


def _resolved(model: str) -> str:
    """The same text for two ways of naming one model."""
    return model if model in BUILT_IN else str(locate(model).resolve())


def check_drafter(config: RunConfig) -> None:
    """ModelError unless drafter.path is a folder with a drafter of the recipe's kind, or one of its words; ConfigError if one that is to
    be made could not draft what a strategy asks for."""
    path, size = config.drafter.path, config.drafter.draft_vocabulary
    widest = max((strategy.top_k for strategy in config.speculation.strategies), default=0)
    if makes_one(config) and 0 < size < widest:
        raise ConfigError(
            f"drafter.draft_vocabulary: {size} tokens are fewer than the {widest} branches (top_k) of a strategy; raise it, or set it to 0 "
            "for all tokens"
        )
    if not config.speculation.enabled or path in (None, "builtin", "auto"):
        return
    if not (Path(path) / "config.json").is_file():
        raise ModelError(f"drafter.path: {path} is not a drafter folder: no config.json; use a folder, builtin, or null for none")
    drafter_files(Path(path))
    found, wanted = drafter_kind(Path(path)), RECIPE_KINDS[config.drafter.recipe]
    if found != wanted:
        raise ModelError(f"drafter.path: {path} is an {found} drafter, but drafter.recipe={config.drafter.recipe} trains {wanted} drafters")
    _check_shape(Path(path), config.model.path)


def _check_shape(drafter: Path, model: str) -> None:
    """ModelError if config.json says that the drafter was made for a target of another shape; its weights are read by the run itself."""
    facts, layer = read_facts(locate(model)), layer_config(read_config(drafter))
    width = facts.hidden_size * (SMALL_WIDTH if model == "small" else 1)
    for name, wanted in (("hidden_size", width), ("vocab_size", facts.vocabulary)):
        if (found := layer.get(name, wanted)) != wanted:
            raise ModelError(
                f"drafter.path: {drafter} has {name} {found}, and that of {model} is {wanted}; "
                "use a drafter of this model, or null for none"
            )
