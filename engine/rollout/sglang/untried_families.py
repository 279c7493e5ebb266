"""Causal language models of other families than those that were tried in SGLang: what is asked of them, before a run and in it."""

from collections.abc import Iterable, Mapping
from typing import Literal

from engine.config import RunConfig
from engine.errors import ConfigError, ModelError

FAMILIES = ("llama", "qwen2", "qwen3")
"""Those that were tried, with everything there is."""
LISTED = ", ".join(FAMILIES)
HEAD_BIASES = ("lm_head.bias", "embed_out.bias")
MOST_GAP = 0.1
"""Mean difference of log-probs: several times what bfloat16 makes."""


def check(config: RunConfig, family: str, drafts: Literal["eagle", "standalone", "ngram"] | None) -> None:
    """ConfigError if the run asks for what needs more of a model than that it is a causal language model, or was tried with no other."""
    if drafts not in (None, "ngram"):
        raise ConfigError(
            f"speculation.strategies: SGLang has learned drafters and draft models for {LISTED} models, not for {family}; set "
            "speculation.enabled to false, or let n-grams draft"
        )
    learner = config.cluster.learner
    asked = {"parallel": learner.parallel != "ddp", "packed": learner.packed is True, "lora": learner.lora is not None}
    if name := next((name for name, there in asked.items() if there), None):
        raise ConfigError(f"cluster.learner.{name}: for {LISTED} models, not for {family}; leave it at its default")


def check_weights(family: str, sent: Iterable[str], forgotten: Iterable[str]) -> None:
    """ModelError if SGLang does not compute with all the weights that are ``sent`` to it, by name: ``forgotten`` are those of its own that
    got no new values, and the bias of a head is read, but never added."""
    unused = [*(name for name in sent if name.endswith(HEAD_BIASES)), *forgotten]
    if unused:
        raise ModelError(f"model.path: SGLang does not use {unused[0]} of a {family} model as it is in training; use {LISTED} models")


def check_law(config: RunConfig, family: str, metrics: Mapping[str, float]) -> None:
    """ModelError if a step's log-probs are not those of training, whatever may differ. Partial rollouts have a gap of their own."""
    gap = metrics.get("logprob_gap", 0.0)
    if config.rollout.engine == "sglang" and family not in FAMILIES and not config.rollout.scheduling.partial and gap > MOST_GAP:
        raise ModelError(
            f"model.path: SGLang computes another law than training for this {family} model (logprob_gap {gap:.2f}); use {LISTED} models"
        )
