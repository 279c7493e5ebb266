"""The kinds of learned drafters: which of the target's hidden states they read. Needs no torch."""

from collections.abc import Collection
from pathlib import Path
from typing import Literal

from engine.models.folder import read_config

DrafterKind = Literal["eagle", "eagle3"]
RECIPE_KINDS: dict[str, DrafterKind] = {"eagle": "eagle", "hass": "eagle", "eagle3": "eagle3"}
EAGLE3 = "LlamaForCausalLMEagle3"


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
    """The kind of a drafter folder, by the architecture in its config.json. ModelError if there is none."""
    return "eagle3" if EAGLE3 in read_config(folder).get("architectures", ()) else "eagle"
