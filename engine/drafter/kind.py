"""The kinds of learned drafters: which of the target's hidden states they read. Needs no torch."""

from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any, Literal

from engine.models.folder import BUILT_IN, read_config

DrafterKind = Literal["eagle", "eagle3"]
RECIPE_KINDS: dict[str, DrafterKind] = {"eagle": "eagle", "hass": "eagle", "eagle3": "eagle3"}
EAGLE3 = "LlamaForCausalLMEagle3"
OWN_EAGLE3 = "LongtailForCausalLMEagle3"
"""Of a folder that lacks what a serving engine needs, so that it refuses it."""


def has_built_in(model: str, recipe: str) -> bool:
    """Whether there is a built-in drafter for the model path ``model``: all are EAGLE drafters."""
    return model in BUILT_IN and RECIPE_KINDS[recipe] == "eagle"


def layer_config(config: Mapping[str, Any]) -> Mapping[str, Any]:
    """What a drafter's config.json says of its layer: the speculators format has that apart."""
    layer: Mapping[str, Any] = config.get("transformer_layer_config") or config
    return layer


def captured_layers(kind: DrafterKind, layers: int) -> tuple[int, ...]:
    """The layers, rising, whose inputs the drafter reads; none for EAGLE, which reads the target's last hidden state.

    EAGLE-3 (arXiv 2503.01840) reads a low, a middle and a high one, those of its released code: 2, ``layers`` / 2, ``layers`` - 3.
    """
    if kind == "eagle":
        return ()
    return tuple(sorted(min(max(layer, 0), layers - 1) for layer in (2, layers // 2, layers - 3)))


def feature_width(kind: DrafterKind, hidden: int) -> int:
    """Numbers that are kept of each position: what the drafter reads and, last, the hidden state after the final norm."""
    return hidden if kind == "eagle" else 4 * hidden


def weights_kind(names: Collection[str]) -> DrafterKind:
    """The kind of a drafter by the names of its tensors."""
    return "eagle3" if "norm.weight" in names else "eagle"


def drafter_kind(folder: Path) -> DrafterKind:
    """The kind of a drafter folder, ours or another's, by its config.json. ModelError if there is none."""
    config = read_config(folder)
    architectures = " ".join(config.get("architectures") or ())
    if "Eagle3" in architectures or config.get("speculators_model_type") == "eagle3":
        return "eagle3"
    named = "Eagle" in architectures  # EAGLE's own files name the target's architecture; of them EAGLE-3's has a draft vocabulary
    return "eagle3" if config.get("draft_vocab_size") and not named else "eagle"
