"""The same in a bare SGLang, with the same drafter, exported: plain decoding, a chain and a tree."""

from importlib.metadata import version
from typing import Any

import torch

from engine.bench.bare_sglang import Rollout, drafting, serve
from engine.bench.gpu.decoding import speedups
from engine.bench.gpu.models import bed, folders
from engine.bench.gpu.parts import Part
from engine.drafter.export import write_serving_folder
from engine.drafter.model_card import DrafterCard
from engine.models.weights import ends
from engine.rollout.interface import Sampling

DTYPE = "bfloat16"
"""Of model and drafter alike: left to itself SGLang takes float16 where a folder has float32, as the drafter's does."""
SHAPES = {"plain": None, "chain": (4, 1, 4), "tree": (8, 4, 24)}


def run(part: Part) -> None:
    """The largest model first: each SGLang takes a minute to start. Prompts of a batch come a second time, with all graphs there."""
    arms: dict[str, Any] = {}
    part.found(version=version("sglang"), batches=part.scale.batches, arms=arms)
    for name in list(part.scale.models)[::-1]:
        exported, rollouts = part.scratch / f"{name}-exported", _prepared(part, name)
        torch.cuda.empty_cache()  # SGLang, in a process of its own, takes what is free
        for arm, draft in SHAPES.items():
            options = {"dtype": DTYPE} | (drafting(exported, *draft) if draft else {})
            served = serve(folders(part, name)[0], rollouts, max_running_requests=max(part.scale.batches), **options)[1::2]
            rates = [round(sum(map(len, one.tokens)) / one.seconds, 1) for one in served]
            arms[f"{name}, {arm}"] = found = {"tok_s": rates}
            if draft:
                found["speedup"] = speedups(rates, arms[f"{name}, plain"]["tok_s"])
            part.found()


def _prepared(part: Part, name: str) -> list[Rollout]:
    """Writes the drafter of the model of this name for SGLang; what it is to respond to, everything twice."""
    subject, exported = bed(part, name), part.scratch / f"{name}-exported"
    exported.mkdir(exist_ok=True)
    card = DrafterCard(name, "tiny's, enlarged", 0)
    write_serving_folder(exported, subject.trained_drafter(), subject.model.config, ends(subject.model)[1], card, "sglang")
    sampling = Sampling(max_new_tokens=part.scale.tokens)
    prompts = [[tuple(each.prompt) for each in subject.requests(batch)] for batch in part.scale.batches]
    return [(each, sampling) for each in prompts for _ in range(2)]
