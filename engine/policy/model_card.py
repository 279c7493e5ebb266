"""The model card of an exported policy, README.md: what it was trained from, on what, how, and what came of it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from engine.models.front_matter import front_matter

SHOWN = ("eval/reward", "eval/pass_at_1")


@dataclass(frozen=True)
class PolicyCard:
    """``rewards``: the mean reward of each step; ``evaluation``: metrics of the last one, by name, if there was any."""

    base_model: str
    task: str
    algorithm: str
    seed: int
    rewards: Sequence[float]
    evaluation: Mapping[str, float]


def text(card: PolicyCard, digests: Mapping[str, str]) -> str:
    """The card; ``digests`` are the SHA-256 of the folder's weights by file name."""
    checksums = "".join(f"| SHA-256 of {name} | `{digest}` |\n" for name, digest in digests.items())
    named = {"base_model": card.base_model, "library_name": "transformers", "pipeline_tag": "text-generation"}
    return f"""{front_matter(**named, tags=["reinforcement-learning", card.algorithm])}# {card.base_model}, trained on {card.task}

An ordinary Hugging Face folder: `AutoModelForCausalLM.from_pretrained(FOLDER)`.

| | |
|---|---|
| task | {card.task} |
| algorithm | {card.algorithm} |
| steps | {len(card.rewards)} |
| seed | {card.seed} |
{_rewards(card.rewards)}{_evaluation(card.evaluation)}{checksums}"""


def _rewards(rewards: Sequence[float]) -> str:
    if not rewards:
        return ""
    few = max(1, len(rewards) // 10)
    first, last = sum(rewards[:few]) / few, sum(rewards[-few:]) / few
    return f"| mean reward, first {few} and last {few} steps | {first:.3f}, {last:.3f} |\n"


def _evaluation(metrics: Mapping[str, float]) -> str:
    return "".join(f"| {name.removeprefix('eval/')} on validation prompts | {metrics[name]:.3f} |\n" for name in SHOWN if name in metrics)
