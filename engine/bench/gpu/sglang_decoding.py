"""The same in a bare SGLang, with the same drafter, exported: plain decoding, a chain and a tree."""

from typing import Any

from engine.bench.bare_sglang import Rollout, drafting, serve
from engine.bench.gpu.models import bed, folders
from engine.bench.gpu.parts import Part
from engine.drafter.export import write_serving_folder
from engine.drafter.model_card import DrafterCard
from engine.models.weights import ends
from engine.rollout.interface import Sampling

SHAPES = {"plain": None, "chain": (4, 1, 4), "tree": (8, 4, 24)}


def run(part: Part) -> None:
    """The largest model first: each SGLang takes a minute to start. Prompts of a batch come a second time, with all graphs there."""
    import sglang

    models: dict[str, Any] = {}
    for name in reversed(part.scale.models):
        subject, exported = bed(part, name), part.scratch / f"{name}-exported"
        exported.mkdir(exist_ok=True)
        card = DrafterCard(name, "tiny's, enlarged", 0)
        write_serving_folder(exported, subject.trained_drafter(), subject.model.config, ends(subject.model)[1], card, "sglang")
        sampling = Sampling(max_new_tokens=part.scale.tokens)
        rollouts: list[Rollout] = [
            ([list(each.prompt) for each in subject.requests(batch)], sampling) for batch in part.scale.batches for _ in range(2)
        ]
        del subject
        arms: dict[str, Any] = {}
        models[name] = {"sglang": sglang.__version__, "arms": arms}
        for arm, draft in SHAPES.items():
            options = drafting(exported, *draft) if draft else {}
            served = serve(folders(part, name)[0], rollouts, max_running_requests=max(part.scale.batches), **options)[1::2]
            rates = {
                str(batch): round(sum(map(len, one.tokens)) / one.seconds, 1)
                for batch, one in zip(part.scale.batches, served, strict=True)
            }
            arms[arm] = {"tok_s": rates}
            if draft:
                arms[arm]["speedup"] = {batch: round(rate / arms["plain"]["tok_s"][batch], 3) for batch, rate in rates.items()}
            part.found(models=models)
