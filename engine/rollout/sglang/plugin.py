"""Our side inside SGLang, through its plugin entry point: our strategies, seeds, and a method of its schedulers for us to call.

SGLang calls ``register`` in each of its processes, and only logs what goes wrong there: the host asks for ``longtail`` before it is ready.
"""

import json
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file

from engine.models.checksum import checksum
from engine.rollout.sglang.draft_trees import all_candidates, verified_nodes
from engine.rollout.sglang.host_settings import current
from engine.rollout.sglang.ngram_statistics import NgramStatistics
from engine.rollout.sglang.strategy_policy import Agree, StrategyPolicy
from engine.rollout.sglang.strategy_states import StrategyStates
from engine.speculation.speculator import Speculator

SAMPLING = "sglang.srt.sampling.sampling_batch_info.SamplingBatchInfo.from_schedule_batch"
EAGLE = "sglang.srt.speculative.eagle_worker_v2.EAGLEWorkerV2.__init__"
STANDALONE = "sglang.srt.speculative.standalone_worker_v2.StandaloneWorkerV2.__init__"
CHOICE = "sglang.srt.speculative.eagle_utils.organize_draft_results"
TREES = "sglang.srt.speculative.eagle_worker_common.build_eagle_verify_input"
NGRAM = "sglang.srt.speculative.ngram_worker.NGRAMWorker.__init__"
FOLLOWS = "longtail_follows_head"
SCHEDULER = "sglang.srt.managers.scheduler.Scheduler.__init__"


def register() -> None:
    """Does nothing in an SGLang that we did not start."""
    settings = current()
    if settings is None:
        return
    from sglang.srt.plugins.hook_registry import HookRegistry, HookType

    HookRegistry.register(SCHEDULER, add_method, HookType.BEFORE)
    HookRegistry.register(SAMPLING, add_seeds, HookType.AROUND)
    if settings.drafting == "ngram":
        HookRegistry.register(NGRAM, count, HookType.AFTER)
    elif settings.speculation:
        HookRegistry.register(EAGLE, adapt, HookType.AFTER)
        HookRegistry.register(STANDALONE, adapt, HookType.AFTER)
        HookRegistry.register(CHOICE, all_candidates, HookType.AROUND)
        HookRegistry.register(TREES, verified_nodes, HookType.AROUND)


def add_method(*_: Any, **__: Any) -> None:
    """Gives SGLang's Scheduler the method ``longtail``, which its Engine.collective_rpc calls on every rank."""
    from sglang.srt.managers.scheduler import Scheduler

    Scheduler.longtail = answer


def add_seeds(original: Callable[..., Any], *arguments: Any, **named: Any) -> Any:
    """Each request samples with a seed of its own, which SGLang does in its deterministic mode only; rounding may differ still.

    Not with min_p, which SGLang cannot seed.
    """
    batch = original(*arguments, **named)
    requests = (named.get("batch") or next(each for each in arguments if hasattr(each, "reqs"))).reqs
    seeds = [request.sampling_params.sampling_seed for request in requests]
    if all(seed is not None for seed in seeds) and not batch.need_min_p_sampling:
        batch.sampling_seed = torch.tensor(seeds, dtype=torch.int64).to(batch.temperatures.device, non_blocking=True)
    return batch


def adapt(_: Any, worker: Any, *__: Any, **___: Any) -> None:
    """Gives a worker whose drafter is an EAGLE one, or a whole model, our strategies in the place of SGLang's adaptive controller."""
    settings = current()
    assert settings is not None, "the plugin is there only with settings of a host"
    assert settings.speculation is not None, "a drafter is there only with speculation"
    policy = StrategyPolicy(settings.speculation, settings.seed, settings.max_batch, _agreement())
    worker.adaptive_controller = StrategyStates(worker, policy)


def count(_: Any, worker: Any, *__: Any, **___: Any) -> None:
    """Lets us see what SGLang's n-gram drafts bring."""
    settings = current()
    assert settings is not None, "the plugin is there only with settings of a host"
    assert settings.speculation is not None, "n-grams draft only with speculation"
    worker.adaptive_controller = NgramStatistics(settings.speculation)


def answer(scheduler: Any, command: str, **arguments: Any) -> None:
    """Obeys ``command`` of the host. SGLang sends no values back: each rank writes its own into the folder of the settings."""
    from sglang.srt.distributed import get_tp_group

    settings = current()
    assert settings is not None, "the plugin is there only with settings of a host"
    value = COMMANDS[command](scheduler, **arguments)
    Path(settings.folder, f"{command}.{get_tp_group().rank_in_group}.json").write_text(json.dumps(value), encoding="utf-8")


def _loaded_weights(scheduler: Any) -> dict[str, str]:
    """Checksums of this rank's weights as they are, in SGLang's own layout."""
    target = scheduler.tp_worker.model_runner.model
    shared = {parameter.data_ptr() for parameter in target.parameters()}
    drafters = [runner.model for runner in _drafters(scheduler)]
    shared |= {model.lm_head.weight.data_ptr() for model in drafters if getattr(model, FOLLOWS, False)}
    own = [weight for model in drafters for weight in model.parameters() if weight.data_ptr() not in shared]
    return {"target": checksum(target.parameters()), "drafter": checksum(own) if own else ""}


def _forget(scheduler: Any) -> None:
    """Makes nonsense of the target's weights, so that ``_forgotten`` tells which of them a load leaves out."""
    for weight in scheduler.tp_worker.model_runner.model.parameters():
        if weight.is_floating_point():
            weight.data.fill_(torch.nan)


def _forgotten(scheduler: Any) -> list[str]:
    """Names of the target's weights that are nonsense."""
    weights = scheduler.tp_worker.model_runner.model.named_parameters()
    return [name for name, weight in weights if weight.is_floating_point() and weight.isnan().any()]


def _load_drafter(scheduler: Any, path: str) -> None:
    """Loads a file of the drafter's tensors by SGLang's own loader, which knows its layout and this rank's share of each."""
    weights = load_file(path)
    for runner in _drafters(scheduler):
        runner.model.load_weights(weights.items())


def _follow_head(scheduler: Any) -> None:
    """Gives a drafter with a draft vocabulary its rows of the target's head as it is now: SGLang copies them when it starts, for EAGLE,
    or takes them from the drafter's file, for EAGLE-3."""
    from sglang.srt.distributed import get_tp_group

    head = scheduler.tp_worker.model_runner.model.get_embed_and_head()[1].data
    group = get_tp_group()
    whole = group.all_gather(head, dim=0) if group.world_size > 1 else head
    for runner in _drafters(scheduler):
        own = runner.model.lm_head.weight
        rows = whole[scheduler.draft_worker.draft_worker.hot_token_id]
        if hasattr(own, "weight_loader"):
            own.weight_loader(own, rows)  # knows this rank's share
        else:
            own.data.copy_(rows)
        setattr(runner.model, FOLLOWS, True)


def _graphs(scheduler: Any) -> dict[str, Any]:
    """Gigabytes of this rank's CUDA graphs, as measured when they were recorded, by what they are for, and of each strategy's sets."""
    worker = getattr(scheduler, "draft_worker", None)
    usage = Counter(scheduler.tp_worker.model_runner.graph_memory_usage)
    usage.update(worker.graph_memory_usage if worker is not None else {})
    states = getattr(worker, "adaptive_controller", None)
    sets = states.describe() if isinstance(states, StrategyStates) else {}
    verify = {key: size for each in sets.values() for key, size in each.items() if key.startswith("target_verify")}
    return {"purposes": usage + Counter(target_verify=sum(verify.values())), "strategies": sets}


def _drafters(scheduler: Any) -> list[Any]:
    worker = getattr(getattr(scheduler, "draft_worker", None), "draft_worker", None)
    return list(worker.draft_runners) if worker is not None else []


def _policy(scheduler: Any) -> StrategyPolicy | NgramStatistics:
    policy = scheduler.draft_worker.adaptive_controller.params
    assert isinstance(policy, StrategyPolicy | NgramStatistics), "SGLang runs another policy than ours"
    return policy


def _speculator(scheduler: Any) -> Speculator:
    policy = _policy(scheduler)
    assert isinstance(policy, StrategyPolicy), "nothing is learnt about n-gram drafts"
    return policy.speculator


COMMANDS: dict[str, Callable[..., Any]] = {
    "hello": lambda scheduler, speculates: bool(speculates and _policy(scheduler)),
    "loaded_weights": _loaded_weights,
    "forget": _forget,
    "forgotten": _forgotten,
    "graphs": _graphs,
    "load_drafter": _load_drafter,
    "follow_head": _follow_head,
    "loaded": lambda scheduler, what, version: _speculator(scheduler).loaded(what, version),
    "begin": lambda scheduler, limit, learn: _policy(scheduler).begin(limit, learn),
    "statistics": lambda scheduler: _policy(scheduler).take_statistics(),
    "state": lambda scheduler: _speculator(scheduler).state(),
    "load_state": lambda scheduler, state: _speculator(scheduler).load_state(state),
}


def _agreement() -> Agree:
    """Rank 0's decision, on every rank of the tensor-parallel group."""
    from sglang.srt.distributed import get_tp_group

    group = get_tp_group()
    if group.world_size == 1:
        return lambda choice: choice

    def agree(choice: int) -> int:
        decision = torch.tensor([choice])
        torch.distributed.broadcast(decision, group.ranks[0], group.cpu_group)
        return int(decision)

    return agree
